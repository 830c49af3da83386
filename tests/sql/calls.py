"""The store's calls as values, so that a test can run them on its own connections."""

import json
from collections.abc import Coroutine, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import asyncpg

from queen import sql
from queen.store.connection.database import Database
from queen.store.groups import Groups
from queen.store.messages import Ack, Advance, Messages, Pop, Push, Settlement, Sought
from queen.store.queues import Queues

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

Call = tuple[str, *tuple[object, ...]]
Lease = tuple[int, UUID]


class _Sent(Exception):
    """A recorded call."""

    def __init__(self, call: Call) -> None:
        self.call = call


class _Recorder(Database):
    def __init__(self) -> None:
        """Create a database without a connection."""

    async def fetch(self, call: str, *arguments: object) -> list[asyncpg.Record]:
        raise _Sent((call, *arguments))


_DATABASE = _Recorder()
_MESSAGES, _QUEUES, _GROUPS = Messages(_DATABASE), Queues(_DATABASE), Groups(_DATABASE)


def record(sending: Coroutine[Any, Any, object]) -> Call:
    """The call that a method of the store would send."""
    try:
        sending.send(None)
    except _Sent as sent:
        return sent.call
    raise AssertionError("nothing was sent")


async def run(connection: "Connection", call: Call) -> list[asyncpg.Record]:
    name, *arguments = call
    texts = [json.dumps(each) if isinstance(each, dict) else each for each in arguments]
    return await connection.fetch(sql.CALLS[name], *texts)


class Known(NamedTuple):
    """The block of keys that a server knows, and where it has seen the pushed key."""

    offset: int
    at: datetime | None
    hit: int | None


def push(
    *partition_ids: int,
    keys: Sequence[bytes] = (),
    producers: Sequence[tuple[str, int]] = (),
    scheduled: Sequence[tuple[int, datetime]] = (),
    known: Known | None = None,
) -> Call:
    """Push one message of two bytes to each partition."""
    columns = _push(partition_ids, keys, producers, scheduled)
    if known is not None:
        columns.known_offsets, columns.known_ats = [known.offset], [known.at]
        columns.known_seconds, columns.in_blocks, columns.gap_bytes = [1e6], [True], 1000
        if known.hit is not None:
            columns.hits, columns.hit_entries, columns.hit_offsets = [1], [1], [known.hit]
    return record(_MESSAGES.push(columns))


def pop(
    group_id: int,
    *,
    partition: str | None = None,
    batch: int = 1,
    partitions: int = 1,
    lease_seconds: float | None = None,
    is_auto: bool = False,
    is_due_first: bool = False,
) -> Call:
    """One request of one group, without marks."""
    return record(
        _MESSAGES.pop(
            Pop(
                group_ids=[group_id],
                ready_since=[None],
                due_since=[None],
                partition=partition,
                batches=[batch],
                partitions=[partitions],
                leases=[lease_seconds],
                is_auto=is_auto,
                due="first" if is_due_first else "last",
                turn=0,
            )
        )
    )


def plain_pop(group_id: int, *, requests: int = 1) -> Pop:
    """New messages for several requests, as most pops."""
    return Pop(
        group_ids=[group_id],
        ready_since=[None],
        due_since=[None],
        partition=None,
        batches=[1] * requests,
        partitions=[1] * requests,
        leases=[None] * requests,
        is_auto=False,
        due="never",
        turn=0,
    )


def pop_new(group_id: int) -> Call:
    return record(_MESSAGES.pop(plain_pop(group_id)))


def combine(
    *,
    pushed: Sequence[int] = (),
    acked: Sequence[Lease] = (),
    nacked: Sequence[Lease] = (),
    popped: Sequence[int] = (),
    producers: Sequence[tuple[str, int]] = (),
) -> Call:
    """A push to partitions, acks or nacks of leases, and pops of groups."""
    pops = [plain_pop(group_id) for group_id in popped]
    nacks = _nacks(nacked, 0, "failed")
    return record(
        _MESSAGES.combine(_push(pushed, producers=producers), _acks(acked, None), pops, nacks)
    )


def segments(partition_id: int, base_offset: int) -> Call:
    return record(_MESSAGES.segments([partition_id], [base_offset]))


def ack(*leases: Lease, offsets: tuple[int, int] | None = None) -> Call:
    return record(_MESSAGES.ack(_acks(leases, offsets)))


def nack(*leases: Lease, offset: int = 0, kind: str = "failed") -> Call:
    return record(_MESSAGES.nack(_nacks(leases, offset, kind)))


def find_deliveries(
    group: str,
    *transaction_ids: str,
    lease: Lease | None = None,
    place: tuple[int, int] | None = None,
) -> Call:
    """Look up acks that name less than the ID and lease of a message."""
    return record(
        _MESSAGES.find_deliveries(
            [
                Sought(
                    group,
                    *(lease or (None, None)),
                    place and place[0],
                    each,
                    *(place or (None, None)),
                )
                for each in transaction_ids
            ]
        )
    )


def extend(*leases: Lease) -> Call:
    return record(_MESSAGES.extend(leases, [600.0 for _ in leases]))


def release(*leases: Lease) -> Call:
    return record(_MESSAGES.release(leases))


def defer(*leases: Lease) -> Call:
    return record(_MESSAGES.defer(leases, 60.0))


def shorten(*leases: Lease) -> Call:
    return record(_MESSAGES.shorten([(*lease, 1) for lease in leases]))


def transact(
    *,
    acked: Sequence[Lease] = (),
    nacked: Sequence[Lease] = (),
    required: Sequence[Lease] = (),
    pushed: Sequence[int] = (),
    offset: int = 0,
) -> Call:
    settlements = [*_nacks(acked, offset, "completed"), *_nacks(nacked, offset, "failed")]
    return record(_MESSAGES.transact(settlements, required, _push(pushed)))


def advance(steps: Sequence[Advance], acked: Sequence[Lease]) -> Call:
    """Steps of workflows, with acks of the first messages of deliveries."""
    return record(_MESSAGES.transact(_nacks(acked, 0, "completed"), [], _push([]), advances=steps))


def partition_ids(queue: str, *partitions: str) -> Call:
    """Find or create partitions."""
    named = [(queue, partition, 0) for partition in partitions]
    return record(_QUEUES.partition_ids(named))


def configure(queue: str, **options: object) -> Call:
    return record(
        _QUEUES.configure(
            queue, namespace=None, task=None, options=options, is_replaced=False, version=None
        )
    )


def configure_partition(queue: str, partition: str, *, priority: int) -> Call:
    return record(_QUEUES.configure_partition(queue, partition, priority=priority))


def purge(queue: str) -> Call:
    return record(
        _QUEUES.purge(
            queue, partition=None, is_completed=False, before=None, after=None, limit=1_000
        )
    )


def backlog(queue_id: int, most: int) -> Call:
    return record(_QUEUES.backlog(queue_id, most))


def subscribe(queue: str, group: str) -> Call:
    return record(_GROUPS.subscribe(queue, group, mode=None, start_at=None))


def seek(queue: str, group: str, at: datetime) -> Call:
    return record(
        _GROUPS.seek(queue, group, partition=None, at=at, offset=None, after=None, limit=1_000)
    )


def ready_groups(*group_ids: int) -> Call:
    return record(_GROUPS.ready(group_ids))


def leases(popped: Sequence[asyncpg.Record]) -> list[Lease]:
    """The leases of a pop, in the order of its rows."""
    return list(
        dict.fromkeys(
            (row["delivery_id"], row["token"]) for row in popped if row["delivery_id"] is not None
        )
    )


def _push(
    partition_ids: Sequence[int],
    keys: Sequence[bytes] = (),
    producers: Sequence[tuple[str, int]] = (),
    scheduled: Sequence[tuple[int, datetime]] = (),
) -> Push:
    return Push(
        partition_ids=list(partition_ids),
        counts=[1 for _ in partition_ids],
        bodies=[b"{}" for _ in partition_ids],
        ends=[b"\0\0\0\0\2\0\0\0" for _ in partition_ids],
        extras=[None for _ in partition_ids],
        ttls=[None for _ in partition_ids],
        keys=list(keys),
        key_entries=[entry + 1 for entry, _ in enumerate(keys)],
        key_places=[0 for _ in keys],
        key_counts=[1 for _ in keys],
        producers=[name for name, _ in producers],
        sequences=[sequence for _, sequence in producers],
        digests=[b"digest" for _ in producers],
        outcomes=[b"outcome" for _ in producers],
        base_producers=[number for number, _ in enumerate(producers, 1)],
        base_entries=[1 for _ in producers],
        scheduled_partition_ids=[partition_id for partition_id, _ in scheduled],
        scheduled_delays=[None for _ in scheduled],
        scheduled_dues=[due_at for _, due_at in scheduled],
        scheduled_payloads=[b"{}" for _ in scheduled],
        scheduled_extras=[None for _ in scheduled],
        scheduled_ttls=[None for _ in scheduled],
    )


def _acks(leases: Sequence[Lease], offsets: tuple[int, int] | None) -> list[Ack]:
    return [Ack(*lease, None if offsets is None else (offsets,)) for lease in leases]


def _nacks(leases: Sequence[Lease], offset: int, kind: str) -> list[Settlement]:
    return [Settlement(*lease, None, offset, kind, "it failed", None) for lease in leases]
