"""Figures for Prometheus, and the few that older clients ask for as JSON."""

from typing import Final

from queen import errors, telemetry
from queen.engine.analytics import Analytics
from queen.engine.sampler import values_of
from queen.meters import Snapshot, render
from queen.server.access import Permission
from queen.server.http import Answer, Call
from queen.server.routing import Route
from queen.wire.messages import Request, Wire
from queen.wire.resources import Text

_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"


class MessageFigures(Wire, frozen=True, kw_only=True):
    """Messages pushed through this host since its processes started, and a second now."""

    total: int
    rate: float


class DatabaseFigures(Wire, frozen=True, kw_only=True):
    """The connections of this host's processes."""

    pool_size: int
    idle_connections: int
    waiting_requests: int


class Metrics(Wire, frozen=True, kw_only=True):
    """What `Accept: application/json` gets."""

    messages: MessageFigures
    database: DatabaseFigures


class ObjectsQuery(Request, frozen=True, kw_only=True):
    """Which queues; all if not said."""

    namespace: Text | None = None
    task: Text | None = None
    queue: Text | None = None


async def metrics(call: Call) -> Answer:
    """Everything that the processes of this host count, summed up."""
    if not call.state.settings.metrics_endpoint_enabled:
        raise errors.NoSuchRoute("METRICS_ENDPOINT_ENABLED is off")
    snapshot = await call.state.watch.gather()
    seen = await call.visible(_queues(snapshot))
    if _wants_json(call.header(b"accept") or ""):
        return Answer(_figures(snapshot, seen))
    return Answer(render(snapshot, seen.__contains__), media_type=_TEXT)


async def metrics_per_object(call: Call) -> Answer:
    """What was last sampled of every queue and group that the caller may see."""
    if not call.state.settings.metrics_per_object:
        raise errors.NoSuchRoute("QUEEN_METRICS_PER_OBJECT is off")
    query = call.query(ObjectsQuery)
    analytics = Analytics(call.state.engine.store, call.state.settings)
    ids: list[int] | None = None
    if query != ObjectsQuery():
        found = await analytics.queues(
            namespace=query.namespace, task=query.task, queue=query.queue
        )
        ids = [row["id"] for row in found]
    rows = await analytics.depths(ids)
    snapshot = Snapshot(values=[each for row in rows for each in values_of(row)])
    seen = await call.visible({row["queue"] for row in rows})
    return Answer(render(snapshot, seen.__contains__, telemetry.PER_OBJECT), media_type=_TEXT)


def _queues(snapshot: Snapshot) -> set[str]:
    names = {each.labels[0] for each in snapshot.values if each.name in _OF_QUEUES}
    return names | {each.labels[0] for each in snapshot.histograms if each.name in _OF_QUEUES}


def _figures(snapshot: Snapshot, seen: set[str]) -> Metrics:
    idle = snapshot.of(telemetry.DB_POOL, "idle")
    pushed = telemetry.PUSHED.name
    total = sum(
        each.value for each in snapshot.values if each.name == pushed and each.labels[0] in seen
    )
    everything = snapshot.of(telemetry.PUSHED)
    return Metrics(
        messages=MessageFigures(
            total=int(total),
            # Of what the caller sees, in proportion: nobody learns what others push.
            rate=round(snapshot.recent * (total / everything if everything else 1), 3),
        ),
        database=DatabaseFigures(
            pool_size=int(idle + snapshot.of(telemetry.DB_POOL, "used")),
            idle_connections=int(idle),
            waiting_requests=int(snapshot.of(telemetry.DB_WAITING)),
        ),
    )


def _wants_json(accept: str) -> bool:
    """Whether JSON is named before any text; a browser and Prometheus both name text."""
    for each in accept.lower().split(","):
        media_type = each.partition(";")[0].strip()
        if media_type == "application/json":
            return True
        if media_type.startswith(("text/", "application/openmetrics")):
            return False
    return False


_OF_QUEUES: Final = {each.name for each in telemetry.METRICS if each.labels[:1] == ("queue",)}

ROUTES: Final = (
    Route(
        method="GET",
        path="/metrics",
        handler=metrics,
        summary="Metrics of this host",
        permission=Permission.BROWSE,
        answers={200: Metrics},
        is_text_too=True,
        is_probe=True,
        # Where it is switched off.
        problems=(errors.NoSuchRoute,),
    ),
    Route(
        method="GET",
        path="/metrics/per-object",
        handler=metrics_per_object,
        summary="Metrics of every queue and group",
        permission=Permission.BROWSE,
        query=ObjectsQuery,
        answers={200: None},
        is_text_too=True,
        is_probe=True,
        # Where it is switched off.
        problems=(errors.NoSuchRoute,),
    ),
)
