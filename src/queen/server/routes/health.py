"""Probes: liveness, readiness and health."""

import time
from importlib.metadata import version
from typing import Final, Literal

from queen import errors
from queen.server.auth.permissions import Permission
from queen.server.http.answer import Answer
from queen.server.http.call import Call, Route
from queen.wire.messages import Wire


class ReadyQuery(Wire, frozen=True, kw_only=True):
    """``verbose`` says which check failed; what else a load balancer sends is its own affair."""

    verbose: str | None = None


class Ready(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Whether this process should get traffic."""

    status: Literal["ready", "unready"]
    checks: dict[str, str] | None = None


class Alive(Wire, frozen=True, kw_only=True):
    """The process runs."""

    status: Literal["alive"] = "alive"


class Health(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """How the process is; to those who do not say who they are, the status alone."""

    status: Literal["healthy", "unhealthy"]
    database: Literal["connected", "disconnected"] | None = None
    version: str | None = None
    uptime_seconds: float | None = None


async def livez(call: Call) -> Answer:
    """The loop runs; the database is not asked."""
    del call
    return Answer(Alive())


async def readyz(call: Call) -> Answer:
    """Database reached, schema as this release has it, not stopping."""
    query = call.query(ReadyQuery)
    checks = {
        "draining": "stopping" if call.state.is_draining else "ok",
        **await call.state.readiness.checks(),
    }
    is_ready = all(each == "ok" for each in checks.values())
    return Answer(
        Ready(
            status="ready" if is_ready else "unready",
            checks=checks if query.verbose is not None and await _is_known(call) else None,
        ),
        status=200 if is_ready else 503,
    )


async def health(call: Call) -> Answer:
    """How the process is, in figures."""
    if not call.state.settings.health_check_enabled:
        raise errors.NoSuchRoute("HEALTH_CHECK_ENABLED is off")
    is_connected = (await call.state.readiness.checks())["database"] == "ok"
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


async def _is_known(call: Call) -> bool:
    """Whether the caller may look around here."""
    try:
        caller = await call.state.authenticator.caller_or_nobody(call.header(b"authorization"))
    except errors.QueenError:
        return False
    return Permission.BROWSE in caller.permissions


ROUTES: Final = (
    Route(
        method="GET",
        path="/livez",
        handler=livez,
        summary="Whether the process lives",
        permission=None,
        is_public=True,
        is_probe=True,
        answers={200: Alive},
    ),
    Route(
        method="GET",
        path="/readyz",
        handler=readyz,
        summary="Whether to send traffic here",
        permission=None,
        is_public=True,
        is_probe=True,
        query=ReadyQuery,
        answers={200: Ready, 503: Ready},
    ),
    Route(
        method="GET",
        path="/health",
        handler=health,
        summary="How the process is",
        permission=None,
        is_public=True,
        is_probe=True,
        answers={200: Health, 503: Health},
    ),
)
