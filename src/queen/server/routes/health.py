"""Probes: liveness, readiness and health."""

import asyncio
import time
from importlib.metadata import version
from typing import Literal

from queen import errors
from queen.server.auth.permissions import Permission
from queen.server.http.answer import Answer
from queen.server.http.call import Call, new_routes
from queen.wire.messages import Wire


class ReadyQuery(Wire, frozen=True, kw_only=True):
    """Whether to list the checks. Other parameters, which load balancers add, are ignored."""

    verbose: str | None = None
    """If present, with any value, the response lists the checks. Needs the permission `browse`."""


class Ready(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Whether this process is ready for traffic."""

    status: Literal["ready", "unready"]
    """Whether the process is ready for traffic."""
    checks: dict[str, str] | None = None
    """Result of each check, `ok` or the reason of its failure; only with `verbose`."""


class Alive(Wire, frozen=True, kw_only=True):
    """The process runs."""

    status: Literal["alive"] = "alive"
    """Always `alive`."""


class Health(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The health of the process. Unauthenticated callers get only the status."""

    status: Literal["healthy", "unhealthy"]
    """Whether the process can use the database."""
    database: Literal["connected", "disconnected"] | None = None
    """Whether the database is available; only for callers with the permission `browse`."""
    version: str | None = None
    """Version of Queen; only for callers with the permission `browse`."""
    uptime_seconds: float | None = None
    """Seconds since the start of the process; only for callers with the permission `browse`."""


ROUTES, route = new_routes()


@route("GET /livez", "Check liveness", None, {200: Alive}, is_public=True, is_probe=True)
async def livez(call: Call) -> Answer:
    """Confirm that the event loop runs, without using the database."""
    del call
    return Answer(Alive())


@route(
    "GET /readyz",
    "Check readiness",
    None,
    {200: Ready, 503: Ready},
    is_public=True,
    is_probe=True,
    query=ReadyQuery,
)
async def readyz(call: Call) -> Answer:
    """
    Check that the database is available and migrated, and the process is not stopping.

    With several databases, one is enough.
    """
    query = call.query(ReadyQuery)
    databases = await _databases(call)
    checks = {"draining": "stopping" if call.state.is_draining else "ok"}
    for name, found in databases.items():
        suffix = "" if len(databases) == 1 else f" {name}"
        checks |= {f"{check}{suffix}": result for check, result in found.items()}
    # With several databases, queues in the others still work.
    works = any(all(each == "ok" for each in found.values()) for found in databases.values())
    is_ready = works and not call.state.is_draining
    return Answer(
        Ready(
            status="ready" if is_ready else "unready",
            checks=checks if query.verbose is not None and await _is_known(call) else None,
        ),
        status=200 if is_ready else 503,
    )


@route(
    "GET /health", "Show health", None, {200: Health, 503: Health}, is_public=True, is_probe=True
)
async def health(call: Call) -> Answer:
    """Return whether the process can use the database; with `browse`, also its version."""
    if not call.state.settings.health_check_enabled:
        raise errors.NoSuchRoute("this route is disabled by HEALTH_CHECK_ENABLED")
    databases = await _databases(call)
    is_connected = any(found["database"] == "ok" for found in databases.values())
    status = "healthy" if is_connected else "unhealthy"
    if not await _is_known(call):
        return Answer(Health(status=status), status=200 if is_connected else 503)
    return Answer(
        Health(
            status=status,
            database="connected" if is_connected else "disconnected",
            version=version("queenmq"),
            uptime_seconds=round(time.monotonic() - call.state.started_at, 3),
        ),
        status=200 if is_connected else 503,
    )


async def _databases(call: Call) -> dict[str, dict[str, str]]:
    """The checks of each database."""
    cluster = call.state.cluster
    found = await asyncio.gather(
        *(call.state.of_engine[each].readiness.checks() for each in cluster.engines.values())
    )
    return dict(zip(cluster.engines, found, strict=True))


async def _is_known(call: Call) -> bool:
    """Whether the caller may see details."""
    try:
        caller = await call.state.authenticator.caller_or_nobody(call.authorization)
    except errors.QueenError:
        return False
    return Permission.BROWSE in caller.permissions
