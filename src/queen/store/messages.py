"""Push, pop, ack, nack, extend, release, transact: arrays in, rows out."""

from collections.abc import Sequence
from datetime import datetime
from itertools import accumulate, chain
from typing import Final, Literal, NamedTuple, TypeVar
from uuid import UUID

import asyncpg
import msgspec

from queen import errors
from queen.store.connection.database import Database, Record

T = TypeVar("T")
_UNREADABLE: Final = (asyncpg.DataCorruptedError, asyncpg.IndexCorruptedError)


class Push(msgspec.Struct, kw_only=True):
    """The columns of one flush. Entry i is one segment."""

    partition_ids: list[int] = msgspec.field(default_factory=list[int])
    counts: list[int] = msgspec.field(default_factory=list[int])
    bodies: list[bytes] = msgspec.field(default_factory=list[bytes])
    ends: list[bytes] = msgspec.field(default_factory=list[bytes])
    extras: list[bytes | None] = msgspec.field(default_factory=list[bytes | None])
    ttls: list[float | None] = msgspec.field(default_factory=list[float | None])
    keys: list[bytes] = msgspec.field(default_factory=list[bytes])
    """Runs of keys: the number of keys, their entry, and the position of the first."""
    key_entries: list[int] = msgspec.field(default_factory=list[int])
    key_places: list[int | None] = msgspec.field(default_factory=list[int | None])
    key_counts: list[int] = msgspec.field(default_factory=list[int])
    producers: list[str] = msgspec.field(default_factory=list[str])
    sequences: list[int] = msgspec.field(default_factory=list[int])
    scheduled_partition_ids: list[int] = msgspec.field(default_factory=list[int])
    scheduled_delays: list[float | None] = msgspec.field(default_factory=list[float | None])
    scheduled_dues: list[datetime | None] = msgspec.field(default_factory=list[datetime | None])
    scheduled_payloads: list[bytes] = msgspec.field(default_factory=list[bytes])
    scheduled_extras: list[bytes | None] = msgspec.field(default_factory=list[bytes | None])
    scheduled_ttls: list[float | None] = msgspec.field(default_factory=list[float | None])
    max_delay_seconds: float | None = None
    digests: list[bytes | None] = msgspec.field(default_factory=list[bytes | None])
    """Digests of the producers' requests. None for requests that are never repeated."""
    outcomes: list[bytes | None] = msgspec.field(default_factory=list[bytes | None])
    """The outcomes for repeats, without the offsets that are unknown yet."""
    base_producers: list[int] = msgspec.field(default_factory=list[int])
    base_entries: list[int] = msgspec.field(default_factory=list[int])
    """Which outcome needs the offset of which entry. Both count from 1."""
    queue_ids: set[int] = msgspec.field(default_factory=set[int])
    """The queues of the messages. Not sent."""

    known_offsets: list[int | None] = msgspec.field(default_factory=list[int | None])
    """Per entry: the newest block of keys that this process knows. Empty: no keys are compared."""
    known_ats: list[datetime | None] = msgspec.field(default_factory=list[datetime | None])
    known_seconds: list[float | None] = msgspec.field(default_factory=list[float | None])
    in_blocks: list[bool] = msgspec.field(default_factory=list[bool])
    """Per entry: whether its keys become a block instead of rows."""
    hits: list[int] = msgspec.field(default_factory=list[int])
    """Keys that this process has seen, counted from 1, their entries, and where it saw them."""
    hit_entries: list[int] = msgspec.field(default_factory=list[int])
    hit_offsets: list[int] = msgspec.field(default_factory=list[int])
    gap_bytes: int = 0

    @property
    def is_empty(self) -> bool:
        return not (self.partition_ids or self.scheduled_partition_ids or self.producers)

    @property
    def is_repeatable(self) -> bool:
        return any(self.digests)

    @property
    def is_plain(self) -> bool:
        """Only segments, without transactionIds and scheduled messages."""
        return not (self.keys or self.scheduled_partition_ids)

    def window_columns(self) -> tuple[object, ...]:
        if not self.known_offsets:
            return (None,) * 7 + (0,)
        return (
            self.known_offsets,
            self.known_ats,
            self.known_seconds,
            self.in_blocks,
            self.hits,
            self.hit_entries,
            self.hit_offsets,
            self.gap_bytes,
        )

    def segment_columns(self) -> tuple[object, ...]:
        return (
            self.partition_ids,
            self.counts,
            self.bodies,
            self.ends,
            _unless_nulls(self.extras),
            _unless_nulls(self.ttls),
        )

    def producer_columns(self) -> tuple[object, ...]:
        return (self.producers, self.sequences) if self.producers else (None, None)

    def outcome_columns(self) -> tuple[object, ...]:
        if not self.is_repeatable:
            return (None,) * 4
        return self.digests, self.outcomes, self.base_producers, self.base_entries

    def columns(self) -> tuple[object, ...]:
        has_keys = bool(self.keys)
        return (
            *self.segment_columns(),
            b"".join(self.keys) if has_keys else None,
            self.key_entries if has_keys else None,
            self.key_places if has_keys else None,
            self.key_counts if has_keys else None,
            *self.producer_columns(),
            *(self._scheduled_columns() if self.scheduled_partition_ids else (None,) * 6),
            self.max_delay_seconds,
        )

    def _scheduled_columns(self) -> tuple[object, ...]:
        return (
            self.scheduled_partition_ids,
            self.scheduled_delays,
            self.scheduled_dues,
            self.scheduled_payloads,
            self.scheduled_extras,
            self.scheduled_ttls,
        )


class Kept(NamedTuple):
    """The result of a completed message, and how long it is kept."""

    transaction_id: str
    result: bytes
    """JSON, or encrypted like the payloads of its queue."""
    seconds: float


class Settlement(NamedTuple):
    """One message of a delivery and its outcome: completed, failed, retry or dead."""

    delivery_id: int
    token: UUID
    partition_id: int | None
    offset: int
    kind: str
    error: str | None
    delay_seconds: float | None
    claimed_ms: int = 0
    """When its delivery was popped, if the lease contains that. Not sent."""
    kept: Kept | None = None


class Ack(NamedTuple):
    """A delivery to acknowledge: all of it, or these ranges of offsets."""

    delivery_id: int
    token: UUID
    ranges: tuple[tuple[int, int], ...] | None
    partition_id: int | None = None
    """Reject a lease of another partition. None: unchecked."""
    kept: Sequence[tuple[int, Kept]] = ()
    """Results with the offsets of their messages. They need the partition."""


class Advance(NamedTuple):
    """A settled workflow step, or one part of it."""

    workflow: str
    step: str
    part: int | None
    token: UUID
    outcome: str
    result: str | None
    """JSON, or None without a result."""
    error: str | None
    attempts: int | None


class Sought(NamedTuple):
    """A message that an ack names only in part. Unknown fields are None."""

    group: str
    delivery_id: int | None
    token: UUID | None
    partition_id: int | None
    transaction_id: str
    place_id: int | None
    place_offset: int | None


Due = Literal["first", "last", "never"]


class Pop(msgspec.Struct, kw_only=True, frozen=True):
    """Several requests for one target."""

    group_ids: list[int]
    ready_since: list[datetime | None]
    due_since: list[datetime | None]
    partition: str | None
    batches: list[int]
    partitions: list[int]
    leases: list[float | None]
    is_auto: bool
    due: Due
    """When to search for due messages: before new ones, after them, or not now."""
    turn: int


class Combined(NamedTuple):
    """The rows of a combined call, as separate calls would return them."""

    pushed: list[Record]
    settled: list[Record]
    """Of acks or nacks."""
    popped: list[list[Record]]
    """One list per pop."""


class Messages:
    """The delivery operations of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def push(self, push: Push) -> list[Record]:
        columns = (*push.columns(), *push.window_columns(), *push.outcome_columns())
        return await self._database.fetch("push", *columns)

    async def key_blocks(
        self, partition_ids: Sequence[int], offsets: Sequence[int], most_bytes: int
    ) -> list[Record]:
        """Blocks of keys from an offset on, with one row per partition first."""
        return await self._database.fetch("key_blocks", partition_ids, offsets, most_bytes)

    async def pop(self, pop: Pop) -> list[Record]:
        return await self._database.fetch(
            "pop",
            pop.group_ids,
            pop.ready_since,
            _unless_nulls(pop.due_since),
            pop.partition,
            pop.batches,
            pop.partitions,
            _unless_nulls(pop.leases),
            pop.is_auto,
            pop.due,
            pop.turn,
        )

    async def segments(
        self, partition_ids: Sequence[int], base_offsets: Sequence[int]
    ) -> list[Record]:
        """Raises MessagesDamaged if PostgreSQL cannot read one of them."""
        try:
            return await self._database.fetch("segments", partition_ids, base_offsets)
        except _UNREADABLE as error:
            raise errors.MessagesDamaged(f"PostgreSQL cannot read it: {error.sqlstate}") from error

    async def ack(self, acks: Sequence[Ack]) -> list[Record]:
        kept = [(at, offset, *each) for at, ack in enumerate(acks, 1) for offset, each in ack.kept]
        return await self._database.fetch("ack", *_ack_columns(acks), *_columns(kept, 5))

    async def nack(self, settlements: Sequence[Settlement]) -> list[Record]:
        return await self._database.fetch(
            "nack", *_nack_columns(settlements), *_results_of(settlements)
        )

    async def combine(
        self,
        push: Push | None,
        acks: Sequence[Ack],
        pops: Sequence[Pop],
        settlements: Sequence[Settlement] = (),
    ) -> Combined:
        """
        A push, then acks without results or nacks, then pops, in one transaction.

        Several pops are pops of one group each, without further options.
        """
        segments: tuple[object, ...] = (None,) * 7
        producers: tuple[object, ...] = (None,) * 6
        if push is not None:
            segments = (*push.segment_columns(), push.max_delay_seconds)
            producers = (*push.producer_columns(), *push.outcome_columns())
        found = await self._database.fetch(
            "combine",
            *segments,
            *(_ack_columns(acks) if acks else (None,) * 4),
            *(_nack_columns(settlements) if settlements else (None,) * 7),
            *_results_of(settlements),
            *(_pop_columns(pops) if pops else (None,) * 11),
            *producers,
        )
        popped: list[list[Record]] = [[] for _ in pops]
        combined = Combined([], [], popped)
        for row in found:
            kind = row["kind"]
            if kind == "popped":
                number: int = row["ordinal"]
                popped[number - 1].append(row)
            elif kind in ("acked", "nacked"):
                combined.settled.append(row)
            else:
                combined.pushed.append(row)
        return combined

    async def extend(
        self, leases: Sequence[tuple[int, UUID]], seconds: Sequence[float | None]
    ) -> list[Record]:
        ids, tokens = _pairs(leases)
        return await self._database.fetch("extend", ids, tokens, seconds)

    async def release(self, leases: Sequence[tuple[int, UUID]]) -> list[Record]:
        return await self._database.fetch("release", *_pairs(leases))

    async def defer(self, leases: Sequence[tuple[int, UUID]], seconds: float) -> list[Record]:
        """Return deliveries without counting an attempt, available again after ``seconds``."""
        return await self._database.fetch("defer", *_pairs(leases), seconds)

    async def shorten(self, leases: Sequence[tuple[int, UUID, int]]) -> list[Record]:
        """Each lease keeps only the messages below its offset."""
        return await self._database.fetch("shorten", *map(list, zip(*leases, strict=True)))

    async def transact(
        self,
        settlements: Sequence[Settlement],
        leases: Sequence[tuple[int, UUID]],
        push: Push,
        advances: Sequence[Advance] = (),
        forwards: Sequence[object] = (),
    ) -> list[Record]:
        columns = (
            *_nack_columns(settlements),
            *_pairs(leases),
            *push.columns(),
            *_results_of(settlements),
            *_columns(advances, len(Advance._fields)),
        )
        if forwards or push.is_repeatable:
            call = "transact_across" if forwards else "transact_once"
            return await self._database.fetch(call, *columns, *push.outcome_columns(), *forwards)
        return await self._database.fetch("transact", *columns)

    async def last_request(self, producer_id: str, scope: str) -> Record | None:
        """The last request of a producer: sequence, digest, outcome, bases, stale."""
        found = await self._database.fetch("last_request", producer_id, scope)
        return found[0] if found else None

    async def end_buffers(self, producer_ids: Sequence[str]) -> None:
        """Forget the progress of these buffer files, which are completely stored and deleted."""
        if producer_ids:
            await self._database.fetch("end_buffers", producer_ids)

    async def are_settled(
        self, messages: Sequence[tuple[str, int, int | None, str | None]]
    ) -> list[bool]:
        """Whether each (group, partition id, offset or else transactionId) is settled."""
        found = await self._database.fetch("are_settled", *map(list, zip(*messages, strict=True)))
        return [row["is_settled"] for row in found]

    async def confirm(self) -> None:
        """Wait until the data that was read is as durable as a write, on standbys too."""
        await self._database.fetch("confirm")

    async def find_deliveries(self, sought: Sequence[Sought]) -> list[list[Record]]:
        """The deliveries that may contain each message, in the order of the request."""
        columns = map(list, zip(*sought, strict=True))
        found: list[list[Record]] = [[] for _ in sought]
        for row in await self._database.fetch("find_deliveries", *columns):
            ordinal: int = row["ordinal"]
            found[ordinal - 1].append(row)
        return found


def _pairs(leases: Sequence[tuple[int, UUID]]) -> tuple[list[int], list[UUID]]:
    return [delivery_id for delivery_id, _ in leases], [token for _, token in leases]


def _multirange(ranges: tuple[tuple[int, int], ...]) -> str:
    return "{" + ",".join(f"[{first},{end})" for first, end in ranges) + "}"


def _unless_nulls(values: list[T]) -> list[T] | None:
    """An array, or null if it has only nulls: the driver is slow per array and per element."""
    return values if any(values) else None


def _columns(rows: Sequence[tuple[object, ...]], width: int) -> list[list[object] | None]:
    """Rows as arrays; nulls if there are none."""
    return [list(each) for each in zip(*rows, strict=True)] if rows else [None] * width


def _results_of(settlements: Sequence[Settlement]) -> list[list[object] | None]:
    """The columns of results, with nulls for settlements without one."""
    if not any([each.kept for each in settlements]):
        return [None] * 3
    return _columns([each.kept or (None, None, None) for each in settlements], 3)


def _ack_columns(acks: Sequence[Ack]) -> tuple[object, ...]:
    partition_ids = [ack.partition_id for ack in acks]
    return (
        [ack.delivery_id for ack in acks],
        [ack.token for ack in acks],
        [ack.ranges and _multirange(ack.ranges) for ack in acks],
        _unless_nulls(partition_ids),
    )


def _pop_columns(pops: Sequence[Pop]) -> tuple[object, ...]:
    first = pops[0]
    lists = [
        (pop.group_ids, pop.ready_since, pop.due_since, pop.batches, pop.partitions, pop.leases)
        for pop in pops
    ]
    columns = (
        lists[0] if len(lists) == 1 else [[*chain(*each)] for each in zip(*lists, strict=True)]
    )
    groups, ready, due, batches, partitions, leases = columns
    return (
        list(accumulate([len(pop.batches) for pop in pops])),
        groups,
        ready,
        _unless_nulls(due),
        first.partition,
        batches,
        partitions,
        _unless_nulls(leases),
        first.is_auto,
        first.due,
        first.turn,
    )


def _nack_columns(settlements: Sequence[Settlement]) -> tuple[object, ...]:
    return (
        [each.delivery_id for each in settlements],
        [each.token for each in settlements],
        [each.partition_id for each in settlements],
        [each.offset for each in settlements],
        [each.kind for each in settlements],
        [each.error for each in settlements],
        [each.delay_seconds for each in settlements],
    )
