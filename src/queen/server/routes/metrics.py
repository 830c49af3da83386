"""Figures for Prometheus, and the few that older clients ask for as JSON."""

from typing import Final

from queen import errors, telemetry
from queen.meters import Snapshot, render
from queen.server.access import Permission
from queen.server.http import Answer, Call
from queen.server.routing import Route
from queen.wire.messages import Wire

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


async def metrics(call: Call) -> Answer:
    """Everything that the processes of this host count, summed up."""
    if not call.state.settings.metrics_endpoint_enabled:
        raise errors.NoSuchRoute("METRICS_ENDPOINT_ENABLED is off")
    snapshot = await call.state.watch.gather()
    seen = await call.visible(_queues(snapshot))
    if _wants_json(call.header(b"accept") or ""):
        return Answer(_figures(snapshot, seen))
    return Answer(render(snapshot, seen.__contains__), media_type=_TEXT)


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
    ),
)
