"""What a dashboard says and hears on its WebSocket."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from queen.wire.messages import Request, Wire
from queen.wire.resources import Buffer

EventName = Literal["queue.depth.updated", "message.processed", "system.stats", "operation.updated"]
EVENTS: tuple[EventName, ...] = (
    "queue.depth.updated",
    "message.processed",
    "system.stats",
    "operation.updated",
)


class Subscribe(Request, frozen=True, kw_only=True):
    """What the client wants from now on; a list that is left out stands for all."""

    subscribe: list[EventName] | None = None
    queues: list[str] | None = None
    seconds: Annotated[int, msgspec.Meta(ge=1, le=15)] = 1
    """Between two frames `message.processed`, at least."""


class Processed(Wire, frozen=True, kw_only=True):
    """What happened to one queue on this host since the last frame."""

    queue: str
    pushed: int = 0
    popped: int = 0
    acked: int = 0
    nacked: int = 0
    dead_lettered: int = 0


class ProcessedQueues(Wire, frozen=True, kw_only=True):
    """Of `message.processed`."""

    queues: list[Processed]


class Depth(Wire, frozen=True, kw_only=True):
    """A queue as it was last sampled."""

    queue: str
    depth: int
    oldest_age_seconds: float | None
    dead_letters: int
    scheduled: int
    paused: bool


class Depths(Wire, frozen=True, kw_only=True):
    """Of `queue.depth.updated`."""

    queues: list[Depth]


class Stats(Wire, frozen=True, kw_only=True):
    """Of `system.stats`: this host."""

    messages_per_second: float | None
    """Null for callers with scopes, as is all below that tells what others do."""
    processes: int
    waiters: int | None
    websockets: int | None
    pool_size: int | None
    idle_connections: int | None
    waiting_requests: int | None
    event_loop_lag_seconds: float | None
    version: str
    buffer: Buffer
    """Of the process that speaks."""


class Frame(Wire, frozen=True, kw_only=True):
    """One message to a dashboard."""

    event: EventName
    data: msgspec.Raw
    at: datetime
