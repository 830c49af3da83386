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
    """Names of events to receive. Default: all."""
    queues: list[str] | None = None
    """Names of queues to receive events of. Default: all that the caller may see."""
    seconds: Annotated[int, msgspec.Meta(ge=1, le=15)] = 1
    """Shortest time in seconds between two frames `message.processed`. Default: 1."""


class Processed(Wire, frozen=True, kw_only=True):
    """Counts of one queue on this host since the last frame."""

    queue: str
    """Name of the queue."""
    pushed: int = 0
    """Messages stored by pushes."""
    popped: int = 0
    """Messages delivered."""
    acked: int = 0
    """Messages acknowledged as completed."""
    nacked: int = 0
    """Messages acknowledged as failed or for a retry."""
    dead_lettered: int = 0
    """Messages dead-lettered."""


class ProcessedQueues(Wire, frozen=True, kw_only=True):
    """Of `message.processed`."""

    queues: list[Processed]
    """Queues with activity since the last frame."""


class Depth(Wire, frozen=True, kw_only=True):
    """A queue as last sampled."""

    queue: str
    """Name of the queue."""
    depth: int
    """Messages that the slowest group has not acknowledged, and scheduled messages."""
    oldest_age_seconds: float | None
    """Age of the oldest unacknowledged message in seconds; null if there is none."""
    dead_letters: int
    """Number of dead letters, at most 10,000."""
    scheduled: int
    """Number of scheduled messages, at most 10,000."""
    paused: bool
    """Whether deliveries are paused."""


class Depths(Wire, frozen=True, kw_only=True):
    """Of `queue.depth.updated`."""

    queues: list[Depth]
    """Queues as last sampled."""


class Stats(Wire, frozen=True, kw_only=True):
    """The data of `system.stats`, for this host."""

    messages_per_second: float | None
    """Pushed messages per second on this host; null for callers with scopes, like all values below
    that other callers influence."""
    processes: int
    """Number of server processes on this host."""
    waiters: int | None
    """Number of waiting pops."""
    websockets: int | None
    """Number of open WebSockets."""
    pool_size: int | None
    """Number of database connections."""
    idle_connections: int | None
    """Number of unused database connections."""
    waiting_requests: int | None
    """Number of requests that wait for a database connection."""
    event_loop_lag_seconds: float | None
    """Delay of the event loop in seconds, of the slowest process."""
    version: str
    """Version of Queen."""
    buffer: Buffer
    """File buffer of the process that sends this frame."""


class Frame(Wire, frozen=True, kw_only=True):
    """One message to a dashboard."""

    event: EventName
    """Name of the event."""
    data: msgspec.Raw
    """Data of the event."""
    at: datetime
    """Time when the frame was created."""
