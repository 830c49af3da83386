"""Messages on a dashboard's WebSocket."""

from datetime import datetime
from typing import Annotated, Literal, get_args

import msgspec

from queen.wire.messages import Request, Wire
from queen.wire.resources import Buffer

EventName = Literal["queue.depth.updated", "message.processed", "system.stats", "operation.updated"]
EVENTS: tuple[EventName, ...] = get_args(EventName)


class Subscribe(Request, frozen=True, kw_only=True):
    """The subscription from now on. A missing list stands for all."""

    subscribe: list[EventName] | None = None
    queues: list[str] | None = None
    seconds: Annotated[int, msgspec.Meta(ge=1, le=15)] = 1
    """Shortest time between two frames `message.processed`."""


class Processed(Wire, frozen=True, kw_only=True):
    """Counts of one queue on this host since the last frame."""

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
    """A queue as last sampled."""

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
    """The data of `system.stats`, for this host."""

    messages_per_second: float | None
    """Null for callers with scopes, like all values below that other callers influence."""
    processes: int
    waiters: int | None
    websockets: int | None
    pool_size: int | None
    idle_connections: int | None
    waiting_requests: int | None
    event_loop_lag_seconds: float | None
    version: str
    buffer: Buffer
    """Of the process that sends this frame."""


class Frame(Wire, frozen=True, kw_only=True):
    """One message to a dashboard."""

    event: EventName
    data: msgspec.Raw
    at: datetime
