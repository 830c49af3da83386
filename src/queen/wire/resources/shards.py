"""Databases and slots, and requests to move them."""

from typing import Annotated, Literal

import msgspec

from queen.wire.messages import Request, Wire
from queen.wire.resources.operations import Operation


class SlotRange(Wire, frozen=True, kw_only=True):
    """Consecutive slots."""

    first: int
    """Number of the first slot."""
    last: int
    """Number of the last slot."""


class Shard(Wire, frozen=True, kw_only=True):
    """A database. Numbers are null if it is unavailable."""

    name: str
    """Name in `QUEEN_DATABASES`."""
    available: bool
    """Whether the server reached it."""
    slots: int | None
    """Number of slots that it owns."""
    ranges: list[SlotRange]
    """These slots. If the database is unavailable, as last known."""
    queues: int | None
    """Number of queues."""
    bytes: int | None
    """Size on disk."""
    messages_per_second: float | None
    """Messages pushed per second, over the last five minutes."""
    bytes_per_second: float | None
    """Payload bytes pushed per second, estimated from the mean size of recent messages."""


class SlotMove(Wire, frozen=True, kw_only=True):
    """A slot that moves, or will move."""

    to: str
    """The database that gets the slot."""
    operation: str | None
    """Id of the operation that moves it; null if a failed operation has left a copy."""
    copied_bytes: int
    """Stored bytes of messages that were copied so far."""
    total_bytes: int | None
    """About how many there were at the start of the copy; null before it."""


class Slot(Wire, frozen=True, kw_only=True):
    """A slot that has queues or is moving."""

    slot: int
    """Number of the slot, from 0 to 1023."""
    database: str
    """The database that has its queues now."""
    leaving: bool
    """Whether calls wait at this moment, because the slot is handed over."""
    epoch: int
    """Rises with each move."""
    queues: list[str]
    """Names of its queues, at most 100. They move together."""
    queue_count: int
    """Number of its queues."""
    messages_per_second: float
    """Messages pushed per second, over the last five minutes."""
    bytes_per_second: float
    """Payload bytes pushed per second, estimated from the mean size of recent messages."""
    move: SlotMove | None
    """Progress of its move to another database; null if it stays."""
    hindrances: list[str]
    """What must end before the slot can move."""


class Shards(Wire, frozen=True, kw_only=True):
    """The databases and their slots."""

    databases: list[Shard]
    """All databases, the first one first."""
    slots: list[Slot]
    """Slots that have queues or are moving, by number."""
    operations: list[Operation]
    """Operations that move slots now, the oldest first."""


class MoveRequest(Request, frozen=True, kw_only=True):
    """Move exactly one of these: a slot, the slot of a queue, or the slots of a namespace."""

    to: str
    """Name of the database."""
    slot: Annotated[int, msgspec.Meta(ge=0, le=1023)] | None = None
    """Number of a slot."""
    queue: str | None = None
    """Name of a queue."""
    namespace: str | None = None
    """Name of a namespace. Its queues can be in several slots."""


class DrainRequest(Request, frozen=True, kw_only=True):
    """Move all slots of a database to the others."""

    database: str
    """Name of the database."""


class SlotLoad(Wire, frozen=True, kw_only=True):
    """Load of a database, in the order in which a rebalance makes it even."""

    bytes_per_second: float
    """Payload bytes pushed per second, over the last five minutes."""
    bytes: int
    """Stored bytes of messages, estimated from a sample."""
    slots: int
    """Number of slots with queues."""


class PlannedMove(Wire, frozen=True, kw_only=True):
    """A slot to move."""

    slot: int
    """Number of the slot."""
    database: str
    """The database that has it now."""
    to: str
    """The database that gets it."""
    reason: Literal["bytesPerSecond", "bytes", "slots"]
    """Load that the move makes more even."""
    queues: list[str]
    """Names of its queues, at most 100. They move together."""
    bytes_per_second: float
    """Payload bytes pushed per second, over the last five minutes."""
    bytes: int
    """Stored bytes of messages, estimated from a sample."""


class RebalanceRequest(Request, frozen=True, kw_only=True, omit_defaults=True):
    """Make the load of all databases even."""

    dry_run: bool = False
    """Whether to only return the plan. Default: false."""
    moves: list[PlannedMove] | None = None
    """The `moves` of a dry run, which are made as they are. Default: those of a new plan."""


class RebalancedDatabase(Wire, frozen=True, kw_only=True):
    """A database before and after a rebalance."""

    name: str
    """Name in `QUEEN_DATABASES`."""
    before: SlotLoad
    """Load before the moves."""
    after: SlotLoad
    """Load after the moves."""


class Rebalanced(Wire, frozen=True, kw_only=True):
    """A plan to make the load of all databases even."""

    moves: list[PlannedMove]
    """Slots to move, at most 32; empty if the load is even."""
    databases: list[RebalancedDatabase]
    """All databases."""
    operation: Operation | None
    """The operation that moves the slots; null for a dry run, or if no slot moves."""


class ShardRemoved(Wire, frozen=True, kw_only=True):
    """The database may be left out of `QUEEN_DATABASES`."""

    name: str
    """Name of the database."""


class Pin(Wire, frozen=True, kw_only=True):
    """A partition of a spread queue with a slot of its own."""

    queue: str
    """Name of the queue."""
    partition: str
    """Name of the partition."""
    slot: int
    """Its slot, from 960 to 1023."""
    database: str
    """The database that has the slot now."""
    ready: bool
    """False if a request to pin or unpin it was interrupted. Repeat the request, because the
    partition can't be created until then."""


class Pins(Wire, frozen=True, kw_only=True):
    """All pinned partitions."""

    pins: list[Pin]
    """The pins, by queue and partition."""


class Pinned(Wire, frozen=True, kw_only=True):
    """A partition that was pinned."""

    pin: Pin
    """The pin."""
    operation: Operation | None
    """The operation that moves its slot to the database; null if the slot is there already."""


class PinRequest(Request, frozen=True, kw_only=True):
    """Give a partition that does not exist yet a slot of its own."""

    queue: str
    """Name of a queue with placement `spread`."""
    partition: str
    """Name of the partition."""
    database: str
    """Name of the database that gets the partition. A pinned partition moves there."""


class UnpinRequest(Request, frozen=True, kw_only=True):
    """Remove the pin of a partition that does not exist."""

    queue: str
    """Name of the queue."""
    partition: str
    """Name of the partition."""


class Unpinned(Wire, frozen=True, kw_only=True):
    """The partition is in the slot of its name's hash when it is created."""

    queue: str
    """Name of the queue."""
    partition: str
    """Name of the partition."""


class ClusterDatabase(Wire, frozen=True, kw_only=True):
    """A database and its slots."""

    name: str
    """Name in `QUEEN_DATABASES`."""
    available: bool
    """Whether the server reached it."""
    ranges: list[SlotRange]
    """The slots that it owns, as the server knows them."""


class ClusterServer(Wire, frozen=True, kw_only=True):
    """A server that has reported in the last 15 seconds."""

    url: str | None
    """Its `QUEEN_ADVERTISED_URL`; null if it has none."""
    preferred_databases: list[str] | None
    """The databases that it prefers; null if all are equal."""


class ClusterMap(Wire, frozen=True, kw_only=True):
    """Databases, their slots, and the servers that prefer them."""

    revision: str
    """Changes with the rest of this response. Also the `ETag`."""
    databases: list[ClusterDatabase]
    """All databases, the first one first."""
    servers: list[ClusterServer]
    """Servers by URL; empty while the first database is unavailable."""
