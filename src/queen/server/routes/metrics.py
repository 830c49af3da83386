"""Metrics for Prometheus, and a few as JSON for older clients."""

import contextlib
from collections.abc import Sequence
from typing import Final

from queen import errors, telemetry
from queen.engine.metrics.sampler import values_of
from queen.engine.metrics.series import Analytics
from queen.meters import Snapshot, render
from queen.server.auth.permissions import Permission
from queen.server.http.answer import Answer
from queen.server.http.call import Call, new_routes
from queen.server.routes.pipelines import visible_pipelines
from queen.store.connection.database import Record
from queen.wire.messages import Request, Wire
from queen.wire.resources import Text

_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"


class MessageFigures(Wire, frozen=True, kw_only=True):
    """Messages pushed through this host since its start, and the current rate."""

    total: int
    """Messages pushed since the start of the host's processes, in queues that the caller may
    see."""
    rate: float | None
    """Pushed messages per second, over the last minute by default; null for callers with scopes,
    because it covers all queues."""


class DatabaseFigures(Wire, frozen=True, kw_only=True):
    """The database connections of this host's processes."""

    pool_size: int
    """Number of database connections."""
    idle_connections: int
    """Number of unused database connections."""
    waiting_requests: int
    """Number of requests that wait for a database connection."""


class Metrics(Wire, frozen=True, kw_only=True):
    """Metrics for requests with `Accept: application/json`."""

    messages: MessageFigures
    """Pushed messages."""
    database: DatabaseFigures | None
    """Database connections; null for callers with scopes."""


class ObjectsQuery(Request, frozen=True, kw_only=True):
    """A filter for queues; all by default."""

    namespace: Text | None = None
    """Only queues of this namespace."""
    task: Text | None = None
    """Only queues of this task."""
    queue: Text | None = None
    """Only this queue."""


ROUTES, route = new_routes()


@route(
    "GET /metrics",
    "Show metrics of this host",
    Permission.BROWSE,
    {200: Metrics},
    is_text_too=True,
    is_probe=True,
    problems=(errors.NoSuchRoute,),  # If the route is disabled.
)
async def metrics(call: Call) -> Answer:
    """Return the metrics of this host, summed over its processes."""
    if not call.state.settings.metrics_endpoint_enabled:
        raise errors.NoSuchRoute("this route is disabled by METRICS_ENDPOINT_ENABLED")
    whole = await call.state.metrics.gather()
    snapshot = await _visible(call, whole)
    if _wants_json(call.header(b"accept") or ""):
        return Answer(_figures(snapshot, is_whole=snapshot is whole))
    return Answer(render(snapshot, _metrics(call, telemetry.METRICS)), media_type=_TEXT)


@route(
    "GET /metrics/per-object",
    "Show metrics of every queue and group",
    Permission.BROWSE,
    {200: None},
    query=ObjectsQuery,
    is_text_too=True,
    is_probe=True,
    problems=(errors.NoSuchRoute,),  # If the route is disabled.
)
async def metrics_per_object(call: Call) -> Answer:
    """Return the last samples of every queue and group that the caller may see."""
    if not call.state.settings.metrics_per_object:
        raise errors.NoSuchRoute(
            "this route is disabled. Set QUEEN_METRICS_PER_OBJECT=true to enable it."
        )
    query = call.query(ObjectsQuery)
    rows: list[Record] = []
    for engine in call.state.cluster.engines.values():
        analytics = Analytics(engine.store, call.state.settings)
        ids: list[int] | None = None
        if query != ObjectsQuery():
            found = await analytics.queues(
                namespace=query.namespace, task=query.task, queue=query.queue
            )
            ids = [row["id"] for row in found]
        rows += await analytics.depths(ids)
    whole = Snapshot(values=[each for row in rows for each in values_of(row)])
    snapshot = await _visible(call, whole)
    return Answer(render(snapshot, _metrics(call, telemetry.PER_OBJECT)), media_type=_TEXT)


async def _visible(call: Call, snapshot: Snapshot) -> Snapshot:
    """Keep the visible metrics: with scopes, only those of the caller's queues and pipelines."""
    if call.caller.scopes is None:
        return snapshot
    queues = await call.visible(snapshot.owners("queue") - {telemetry.OTHER})
    pipelines: set[str] = set()
    if names := snapshot.owners("pipeline"):
        with contextlib.suppress(errors.DatabaseUnavailable):
            read = await call.state.engine.store.pipelines.queues(sorted(names))
            pipelines = await visible_pipelines(call, read)
    return snapshot.seen_by({"queue": queues, "pipeline": pipelines})


def _metrics(call: Call, metrics: Sequence[telemetry.Metric]) -> list[telemetry.Metric]:
    """Return the metrics that the caller may see."""
    return [
        each
        for each in metrics
        if call.caller.scopes is None or each.owner is not None or each in telemetry.FOR_ALL
    ]


def _figures(snapshot: Snapshot, *, is_whole: bool) -> Metrics:
    total = int(snapshot.of(telemetry.PUSHED))
    if not is_whole:
        return Metrics(messages=MessageFigures(total=total, rate=None), database=None)
    idle = snapshot.of(telemetry.DB_POOL, "idle")
    return Metrics(
        messages=MessageFigures(total=total, rate=round(snapshot.recent, 3)),
        database=DatabaseFigures(
            pool_size=int(idle + snapshot.of(telemetry.DB_POOL, "used")),
            idle_connections=int(idle),
            waiting_requests=int(snapshot.of(telemetry.DB_WAITING)),
        ),
    )


def _wants_json(accept: str) -> bool:
    """Whether JSON precedes text in Accept. Browsers and Prometheus ask for text."""
    for each in accept.lower().split(","):
        media_type = each.partition(";")[0].strip()
        if media_type == "application/json":
            return True
        if media_type.startswith(("text/", "application/openmetrics")):
            return False
    return False
