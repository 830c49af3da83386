"""Hot calls read by their index, and read no more in a larger database."""

import asyncio
import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest

from tests.sql.calls import (
    Call,
    Known,
    Lease,
    ack,
    backlog,
    combine,
    defer,
    extend,
    find_deliveries,
    nack,
    partition_ids,
    pop,
    pop_new,
    push,
    ready_groups,
    release,
    segments,
    transact,
)
from tests.sql.plans.explained import Explained, Scan
from tests.sql.plans.growth import Calls, Growth, build, check, grown, measure, profile, whole
from tests.support.postgres import Server

pytestmark = pytest.mark.timeout(240)  # Includes building 100,000 partitions.

# Partition i of group 1: i % 5 = 1 is ready, 2 is ready in an hour, 3 is idle, 4 is leased, 0 is
# due
# for a retry. Group 2 has drained them all, group 3 is ready in an hour everywhere, others lag.
PARTITIONS = """
insert into queen.groups (queue_id, name, start_mode, start_at, created_at, filled_to, fill_end)
select 1, 'group ' || g, 'all', '-infinity', now(), null, 0
from generate_series(1, 3 + {lagging}) g
on conflict (queue_id, name) where deleted_at is null do nothing;

insert into queen.partitions (id, queue_id, name) overriding system value
select i, 1, 'p' || i from generate_series({first}, {last}) i;
select setval('queen.partitions_id_seq', {last});

insert into queen.segments
  (partition_id, base_offset, message_count, created_at, queue_id, xid, body, ends)
select
  i, 0, 2, now() - interval '1 hour', 1, pg_current_xact_id(), '[]{{}}',
  '\\x000000000200000004000000'
from generate_series({first}, {last}) i;

insert into queen.consumers (partition_id, group_id, claimed, held, ready_at, idle_at, priority)
select
  i, 1, case when i % 5 in (1, 2) then 0 else 2 end, i % 5 in (4, 0),
  case i % 5
    when 1 then now() - interval '10 minutes' + i * interval '1 millisecond'
    when 2 then now() + interval '1 hour' + i * interval '1 millisecond'
  end,
  case when i % 5 = 3 then now() - interval '10 minutes' end,
  0
from generate_series({first}, {last}) i;
insert into queen.consumers (partition_id, group_id, claimed, ready_at, idle_at, priority)
select
  i, g, case when g = 2 then 2 else 0 end,
  now() + case
    when g = 3 then interval '1 hour'
    when g > 3 then interval '-1 hour'
  end + i * interval '1 millisecond',
  case when g = 2 then now() - interval '10 minutes' end,
  0
from generate_series(2, 3 + {lagging}) g, generate_series({first}, {last}) i;

insert into queen.deliveries
  (id, token, group_id, partition_id, priority, pending, until, held, ordered)
select
  i, md5(i::text)::uuid, 1, i, 0, '{{[0,2)}}',
  now() + case when i % 5 = 4 then 1 else -1 end * interval '5 minutes' + i * interval '1 ms',
  i % 5 = 4, true
from generate_series({first}, {last}) i
where i % 5 in (4, 0);
select setval('queen.delivery_ids', {last});

insert into queen.dedup (generation, key, "offset", at)
select
  queen.dedup_generation(queen.dedup_class(86400), queen.now(), 0),
  substr(sha256(i::text::bytea), 1, 16), 0, now()
from generate_series({first}, {last}) i;
insert into queen.dedup_blocks (generation, partition_id, base_offset, at, keys)
select
  queen.dedup_generation(queen.dedup_class(86400), queen.now(), 0), i, 0, '2030-01-01',
  substr(sha256(i::text::bytea), 1, 16)
from generate_series({first}, {last}) i;
insert into queen.dedup_rows (partition_id, at)
select i, '2030-01-01' from generate_series({first}, {last}) i;
insert into queen.producers (producer_id, sequence, at)
select 'p' || i, 0, now() from generate_series({first} + 4, {last}, 5) i;
insert into queen.scheduled (queue_id, partition_id, due_at, payload)
select 1, i, now() + interval '1 hour', '{{}}' from generate_series({first} + 4, {last}, 5) i;
"""

# One partition. Groups 1 to 3 are at its start, 4 to 6 near its end. Each three are ready, leased
# and due for a retry. Group 7 has drained it.
BACKLOG = """
insert into queen.partitions (queue_id, name) values (1, 'p1');
insert into queen.segments
  (partition_id, base_offset, message_count, created_at, queue_id, xid, body, ends)
select
  1, i * 2, 2, now() - interval '1 hour' + i * interval '1 millisecond', 1, pg_current_xact_id(),
  '[]{{}}', '\\x000000000200000004000000'
from generate_series(0, {segments} - 1) i;
insert into queen.groups (queue_id, name, start_mode, start_at, created_at, filled_to, fill_end)
select 1, 'group ' || g, 'all', '-infinity', now(), null, 0 from generate_series(1, 7) g;
insert into queen.consumers (partition_id, group_id, claimed, held, ready_at, idle_at, priority)
select
  1, g, c.claimed, g % 3 <> 1 and g < 7,
  case when g % 3 = 1 and g < 7 then now() - interval '1 minute' end,
  case when g = 7 then now() end,
  0
from generate_series(1, 7) g
cross join lateral (
  select case when g < 4 then 20 when g < 7 then {segments} * 2 - 40 else {segments} * 2 end
) c (claimed);
insert into queen.deliveries
  (id, token, group_id, partition_id, priority, pending, until, held, ordered)
select
  c.group_id, md5(c.group_id::text)::uuid, c.group_id, 1, 0,
  int8multirange(int8range(c.claimed - 2, c.claimed)),
  now() + interval '5 minutes' * case when c.group_id % 3 = 2 then 1 else -1 end,
  c.group_id % 3 = 2, true
from queen.consumers c
where c.held;
select setval('queen.delivery_ids', 100);
"""


def lent(number: int) -> Lease:
    """Delivery `number`, whose token is `md5(number::text)::uuid`."""
    return number, UUID(hashlib.md5(str(number).encode(), usedforsecurity=False).hexdigest())


def push_all(number: int) -> Call:
    """A push with everything: a key, a sequence, a scheduled message."""
    partition_id = 5 * number + 3
    return push(
        partition_id,
        keys=[uuid4().bytes],
        producers=[(f"p{5 * number}", number)],
        scheduled=[(partition_id, datetime(2100, 1, 1, tzinfo=UTC))],
    )


def push_block(number: int) -> Call:
    """A push of a new key and of one that the server has seen."""
    return push(
        5 * number + 1,
        keys=[uuid4().bytes],
        known=Known(offset=0, at=datetime(2030, 1, 1, tzinfo=UTC), hit=0),
    )


OF_PARTITIONS: Calls = {
    "push": push_all,
    "push with a block": push_block,
    "push behind a block": lambda n: push(
        5 * n + 1, keys=[uuid4().bytes], known=Known(offset=-1, at=None, hit=None)
    ),
    "push to ten": lambda n: push(*range(5 * n + 1, 5 * n + 11)),
    "pop": lambda _: pop(1),
    "pop of new": lambda _: pop_new(1),
    "combine": lambda n: combine(pushed=[5 * n + 3], acked=[lent(5 * n + 4)], popped=[1, 2]),
    "combine of producers": lambda n: combine(
        pushed=[5 * n + 3],
        acked=[lent(5 * n + 4)],
        popped=[1, 2],
        producers=[(f"p{5 * n}\x1f*", 10_000 + n), (f"new{n}\x1f*", n)],
    ),
    "combine of nacks": lambda n: combine(nacked=[lent(5 * n + 4)], popped=[1]),
    "pop without lease": lambda _: pop(1, is_auto=True),
    "pop of what is due": lambda _: pop(1, is_due_first=True),
    "pop of a partition": lambda n: pop(1, partition=f"p{5 * n + 1}"),
    "pop of a partition that is due": lambda n: pop(1, partition=f"p{5 * n}", is_due_first=True),
    "pop of a partition that has nothing": lambda n: pop(1, partition=f"p{5 * n + 2}"),
    "pop of a drained group": lambda _: pop(2),
    "pop of a delayed group": lambda _: pop(3),
    "ack": lambda n: ack(lent(5 * n + 4)),
    "ack of a part": lambda n: ack(lent(5 * n + 4), offsets=(0, 1)),
    "nack": lambda n: nack(lent(5 * n + 4)),
    "nack to the dead letters": lambda n: nack(lent(5 * n + 4), kind="dead"),
    "find_deliveries by lease": lambda n: find_deliveries(
        "group 1", f"t{n}", f"u{n}", lease=lent(5 * n + 4)
    ),
    "find_deliveries by place": lambda n: find_deliveries("group 1", f"t{n}", place=(5 * n + 4, 0)),
    "extend": lambda n: extend(lent(5 * n + 4)),
    "release": lambda n: release(lent(5 * n + 4)),
    "defer": lambda n: defer(lent(5 * n + 4)),
    "transact": lambda n: transact(
        acked=[lent(5 * n + 4)],
        nacked=[lent(5 * n + 9)],
        required=[lent(5 * n + 4)],
        pushed=[5 * n + 3],
    ),
    "partition_ids": lambda n: partition_ids("orders", f"p{n}"),
    "partition_ids of a new one": lambda n: partition_ids("orders", f"new {n}"),
    "ready_groups": lambda _: ready_groups(1),
    "ready_groups, drained": lambda _: ready_groups(2),
    "ready_groups, delayed": lambda _: ready_groups(3),
    "segments": lambda n: segments(n, 0),
    "backlog": lambda _: backlog(1, 10),
}

OF_BACKLOG: Calls = {
    "push": lambda _: push(1),
    "pop at the start": lambda _: pop(1),
    "pop near the end": lambda _: pop(4),
    "pop of new at the start": lambda _: pop_new(1),
    "pop of new near the end": lambda _: pop_new(4),
    "combine at the start": lambda _: combine(pushed=[1], acked=[lent(2)], popped=[1]),
    "combine near the end": lambda _: combine(pushed=[1], acked=[lent(5)], popped=[4]),
    "pop without lease": lambda _: pop(4, is_auto=True),
    "pop of a partition": lambda _: pop(4, partition="p1"),
    "pop of what is due at the start": lambda _: pop(3, is_due_first=True),
    "pop of what is due near the end": lambda _: pop(6, is_due_first=True),
    "pop of a drained group": lambda _: pop(7),
    "ack at the start": lambda _: ack(lent(2)),
    "ack near the end": lambda _: ack(lent(5)),
    "nack to the dead letters at the start": lambda _: nack(lent(2), offset=18, kind="dead"),
    "ready_groups": lambda _: ready_groups(*range(1, 8)),
    "segments": lambda _: segments(1, 0),
    "backlog": lambda _: backlog(1, 10),
}

USED: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "push": (
        ("partitions_pkey", "id ="),
        ("segments_pkey", "partition_id =", "backward"),
        ("consumers_idle", "partition_id =", "idle_at >="),
        ("dedup_key_idx", "key ="),
        ("producers_pkey", "producer_id =", "scope ="),
    ),
    "push with a block": (
        ("dedup_blocks_partition_id_base_offset_idx", "partition_id =", "backward"),
        ("dedup_blocks_partition_id_base_offset_idx", "partition_id =", "base_offset <="),
        ("dedup_rows_pkey", "partition_id ="),
    ),
    "push behind a block": (
        ("dedup_blocks_partition_id_base_offset_idx", "partition_id =", "base_offset >"),
    ),
    "pop": (
        ("consumers_ready", "group_id =", "priority =", "ready_at >=", "ready_at <="),
        ("segments_pkey", "partition_id =", "base_offset <=", "backward"),
    ),
    "pop of new": (
        ("consumers_ready", "group_id =", "priority =", "ready_at >=", "ready_at <="),
        ("segments_pkey", "partition_id =", "base_offset <=", "backward"),
    ),
    "pop of what is due": (
        ("deliveries_due", "group_id =", "priority =", "until >=", "until <="),
        ("scheduled_due", "queue_id =", "due_at <="),
    ),
    "pop of a partition": (
        ("partitions_are_named_once", "queue_id =", "name ="),
        ("consumers_pkey", "partition_id =", "group_id =", "backward"),
    ),
    "pop of a delayed group": (
        ("consumers_ready", "group_id =", "priority =", "ready_at >"),
        ("deliveries_due", "group_id =", "priority =", "until >"),
        ("scheduled_due", "queue_id =", "due_at >"),
    ),
    "ack": (
        ("deliveries_pkey", "id ="),
        ("consumers_pkey", "partition_id =", "group_id =", "backward"),
        ("segments_pkey", "partition_id =", "backward"),
    ),
    "nack": (
        ("deliveries_pkey", "id ="),
        ("consumers_pkey", "partition_id =", "group_id =", "backward"),
    ),
    "extend": (("deliveries_pkey", "id ="),),
    "release": (("deliveries_pkey", "id ="),),
    "defer": (("deliveries_pkey", "id ="),),
    "partition_ids": (("partitions_are_named_once", "queue_id =", "name =", "level ="),),
    "ready_groups, drained": (
        ("consumers_ready", "group_id =", "priority =", "ready_at <="),
        ("deliveries_due", "group_id =", "priority =", "until <="),
        ("scheduled_due", "queue_id =", "due_at <="),
    ),
    "segments": (("segments_pkey", "partition_id =", "base_offset ="),),
}
"""The index of each call, and its search condition."""


def partitions(last: int, *, first: int = 1, lagging: int = 0) -> str:
    return PARTITIONS.format(first=first, last=last, lagging=lagging)


@pytest.fixture(scope="module")
def few(postgres: Server, template: str) -> str:
    """A database of 100 partitions."""
    return build(postgres, template, partitions(100))


@pytest.fixture(scope="module")
def many(postgres: Server, template: str) -> str:
    """A database of 100,000 partitions."""
    return build(postgres, template, partitions(100_000))


@pytest.fixture(scope="module", params=[True, False], ids=["analysed", "not analysed"])
def of_partitions(postgres: Server, few: str, many: str, request: pytest.FixtureRequest) -> Growth:
    small, large = (
        measure(postgres, database, OF_PARTITIONS, is_analysed=request.param)
        for database in (few, many)
    )
    return Growth(small, large)


def is_used(scans: list[Scan], index: str, *words: str) -> bool:
    return any(
        scan.index == index
        and all(
            scan.is_backward if word == "backward" else f"({word}" in f"({scan.condition}"
            for word in words
        )
        for scan in scans
    )


def test_hot_calls_search_their_index_and_scan_no_whole_table(
    of_partitions: Growth,
) -> None:
    """With few rows, PostgreSQL 18 can skip through another index for the same cost."""
    unused = [
        f"{name}: {' '.join(search)} is not used"
        for name, searches in USED.items()
        for search in searches
        if not is_used(of_partitions.large[name].scans, *search)
    ]

    check(unused + whole(of_partitions))


def test_hot_calls_read_no_more_at_100_000_partitions_than_at_100(of_partitions: Growth) -> None:
    check(grown(of_partitions))


@pytest.mark.parametrize("is_analysed", [True, False], ids=["analysed", "not analysed"])
def test_hot_calls_read_no_more_behind_100_000_segments_than_behind_100(
    postgres: Server, template: str, is_analysed: bool
) -> None:
    small, large = (
        measure(
            postgres,
            build(postgres, template, BACKLOG.format(segments=segments)),
            OF_BACKLOG,
            is_analysed=is_analysed,
        )
        for segments in (100, 100_000)
    )

    check(grown(Growth(small, large)))


def test_hot_calls_read_no_more_with_100_lagging_groups_than_without(
    postgres: Server, template: str
) -> None:
    # A new partition gets a row per group, and the backlog is that of the slowest group.
    calls = {
        name: call
        for name, call in OF_PARTITIONS.items()
        if name not in ("partition_ids of a new one", "backlog")
    }
    small, large = (
        measure(
            postgres,
            build(postgres, template, partitions(100, lagging=lagging)),
            calls,
            is_analysed=True,
        )
        for lagging in (0, 100)
    )

    check(grown(Growth(small, large)))


def test_a_missing_index_would_be_detected(postgres: Server, template: str) -> None:
    with_index = build(postgres, template, partitions(5_000))
    without = build(postgres, template, partitions(5_000) + "drop index queen.consumers_ready;")
    calls = {"pop": OF_PARTITIONS["pop"]}

    small, large = (
        measure(postgres, database, calls, is_analysed=True) for database in (with_index, without)
    )

    assert not is_used(large["pop"].scans, *USED["pop"][0])
    assert grown(Growth(small, large))


async def test_calls_planned_at_100_partitions_read_no_more_at_20_000(
    postgres: Server, few: str
) -> None:
    """
    Connections live long and keep their plans, and tables may grow faster than they are analysed.
    """
    name = f"test_{uuid4().hex}"
    dsn = postgres.create_database(name, template=few)
    postgres.execute("analyze", name)

    async with await Explained.connect(dsn) as database:
        small = await profile(database, OF_PARTITIONS)
        await asyncio.to_thread(postgres.execute, partitions(20_000, first=101), name)
        large = await profile(database, OF_PARTITIONS)

    check(grown(Growth(small, large)))
