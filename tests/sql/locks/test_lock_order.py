"""Locks have one order: partitions, consumers, deliveries, by key."""

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from uuid import uuid4

import asyncpg
import pytest

from tests.sql.calls import (
    Call,
    ack,
    configure,
    configure_partition,
    defer,
    extend,
    leases,
    nack,
    pop,
    purge,
    push,
    release,
    run,
    seek,
    shorten,
    transact,
)
from tests.sql.locks.scene import (
    GATES,
    LONG_AGO,
    QUEUES,
    Connect,
    Scene,
    arrange,
    attempt,
    cancel,
    cross,
    give_up,
    group,
    lend,
    partitions_of,
    redact,
    retry,
    waits,
)

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

ROUNDS = 100


async def test_pushes_to_the_same_partitions_in_any_order_do_not_deadlock(connect: Connect) -> None:
    connections = [await connect() for _ in range(4)]
    await run(connections[0], configure("orders"))
    await group(connections[0], "workers")
    ids = await partitions_of(connections[0], "a", "b", "c", "d")

    async def push_often(connection: "Connection", number: int) -> None:
        order = random.Random(number)
        for sequence in range(ROUNDS):
            partitions = order.sample(ids, len(ids))
            producers = [(f"{name} {number % 2}", sequence) for name in order.sample("xyz", 3)]
            keys = [uuid4().bytes for _ in ids]
            await run(connection, push(*partitions, keys=keys, producers=producers))

    await asyncio.gather(*(push_often(each, number) for number, each in enumerate(connections)))


async def test_transactions_in_opposite_directions_do_not_deadlock(connect: Connect) -> None:
    one, other, popper = [await connect() for _ in range(3)]
    await run(popper, configure("orders"))
    group_id = await group(popper, "workers")
    await group(popper, "others")
    ids = await partitions_of(popper, "a", "b")
    await run(popper, push(*ids))

    for offset in range(ROUNDS):
        lent = [await lend(popper, group_id, partition) for partition in ("a", "b")]
        answers = await asyncio.gather(
            run(one, transact(acked=[lent[0]], pushed=[ids[1]], offset=offset)),
            run(other, transact(acked=[lent[1]], pushed=[ids[0]], offset=offset)),
        )
        assert [row["kind"] for rows in answers for row in rows] == ["stored", "acked"] * 2


Pair = Callable[[Scene], tuple[Call, Call]]

CROSSINGS: Mapping[str, Pair] = {
    "ack, ack": lambda s: (ack(*s.lent), ack(*reversed(s.lent))),
    "ack, extend": lambda s: (ack(*reversed(s.lent)), extend(*s.lent)),
    "ack, nack": lambda s: (ack(*reversed(s.lent)), nack(*s.lent)),
    "ack, defer": lambda s: (ack(*reversed(s.lent)), defer(*s.lent)),
    "ack, release": lambda s: (ack(*reversed(s.lent)), release(*s.lent)),
    "ack, transact": lambda s: (ack(*reversed(s.lent)), transact(acked=s.lent, pushed=s.held)),
    "nack, nack": lambda s: (nack(*s.lent), nack(*reversed(s.lent))),
    "nack, extend": lambda s: (nack(*reversed(s.lent)), extend(*s.lent)),
    "extend, extend": lambda s: (extend(*s.lent), extend(*reversed(s.lent))),
    "ack, shorten": lambda s: (ack(*reversed(s.lent)), shorten(*s.lent)),
    "shorten, extend": lambda s: (shorten(*reversed(s.lent)), extend(*s.lent)),
    "extend, release": lambda s: (extend(*s.lent), release(*reversed(s.lent))),
    "transact, transact": lambda s: (
        transact(acked=[s.lent[0]], nacked=[s.lent[1]], pushed=s.held),
        transact(acked=[s.lent[1]], nacked=[s.lent[0]], pushed=s.held[::-1]),
    ),
    "transact, transact elsewhere": lambda s: (
        transact(acked=[s.lent[0]], pushed=[s.held[1], s.idle]),
        transact(acked=[s.lent[1]], pushed=[s.held[0], s.idle]),
    ),
    "push, transact": lambda s: (
        push(s.held[1], s.idle, s.held[0]),
        transact(acked=s.lent, pushed=[s.idle]),
    ),
    "push, redrive": lambda s: (push(s.held[1], s.held[0], s.idle), ("redrive", list(s.dead))),
    "redrive, redrive": lambda s: (
        ("redrive", list(s.dead)),
        ("redrive", list(reversed(s.dead))),
    ),
    "redrive, ack": lambda s: (("redrive", list(s.dead)), ack(*reversed(s.lent))),
    "seek, ack": lambda s: (seek("orders", "workers", LONG_AGO), ack(*reversed(s.lent))),
    "seek, extend": lambda s: (seek("orders", "workers", LONG_AGO), extend(*s.lent)),
    "seek, push": lambda s: (
        seek("orders", "workers", LONG_AGO),
        push(s.held[1], s.idle, s.held[0]),
    ),
    "seek, redrive": lambda s: (seek("orders", "workers", LONG_AGO), ("redrive", list(s.dead))),
    "purge, ack": lambda s: (purge("orders"), ack(*reversed(s.lent))),
    "purge, extend": lambda s: (purge("orders"), extend(*s.lent)),
    "purge, nack": lambda s: (purge("orders"), nack(*s.lent)),
    "purge, redrive": lambda s: (purge("orders"), ("redrive", list(s.dead))),
    "give_up, ack": lambda s: (give_up(s.held[0], 1), ack(*reversed(s.lent))),
    "give_up, nack": lambda s: (give_up(s.held[0], 1), nack(*s.lent)),
    "give_up, push": lambda s: (give_up(s.held[0], 1), push(s.held[1], s.idle, s.held[0])),
    "cancel, ack": lambda s: (cancel(s.held[0], 1), ack(*reversed(s.lent))),
    "cancel, nack": lambda s: (cancel(s.held[0], 1), nack(*s.lent)),
    "cancel, push": lambda s: (cancel(s.held[0], 1), push(s.held[1], s.idle, s.held[0])),
    "cancel, cancel": lambda s: (cancel(s.held[0], 1), cancel(s.held[1], 0)),
    "redact, ack": lambda s: (redact(s.held[0], 1), ack(*reversed(s.lent))),
    "redact, extend": lambda s: (redact(s.held[0], 1), extend(*s.lent)),
    "redact, push": lambda s: (redact(s.held[0], 1), push(s.held[1], s.idle, s.held[0])),
    "redact, redrive": lambda s: (redact(s.held[0], 0), ("redrive", list(s.dead))),
    "redact, purge": lambda s: (redact(s.held[0], 1), purge("orders")),
    "retry, redrive": lambda s: (retry(s.held[0], 0), ("redrive", list(s.dead))),
    "retry, ack": lambda s: (retry(s.held[0], 0), ack(*reversed(s.lent))),
    "redrive_to, redrive": lambda s: (
        ("redrive_to", list(reversed(s.dead)), [b"1", b"1"], [None, None], s.held[1]),
        ("redrive", list(s.dead)),
    ),
    "redrive_to, push": lambda s: (
        ("redrive_to", list(s.dead), [b"1", b"1"], [None, None], s.held[1]),
        push(s.held[1], s.idle, s.held[0]),
    ),
    "redrive_to, purge of dead letters": lambda s: (
        ("redrive_to", list(s.dead), [b"1", b"1"], [None, None], s.held[1]),
        ("purge_dead_letters", list(reversed(s.dead))),
    ),
    "redrive, purge of dead letters": lambda s: (
        ("redrive", list(s.dead)),
        ("purge_dead_letters", list(reversed(s.dead))),
    ),
    "configure_partition, ack": lambda s: (
        configure_partition("orders", "held", priority=1),
        ack(*reversed(s.lent)),
    ),
}


@pytest.mark.parametrize("is_ordered", [True, False], ids=["ordered", "unordered"])
async def test_crossing_calls_do_not_deadlock(connect: Connect, is_ordered: bool) -> None:
    gate, one, other = [await connect() for _ in range(3)]
    scene = await arrange(gate, QUEUES["ordered" if is_ordered else "unordered"])

    deadlocked: set[str] = set()
    for name, crossing in CROSSINGS.items():
        for statement in GATES:
            for partition_id in (*scene.held, scene.idle):
                for first, second in (crossing(scene), crossing(scene)[::-1]):
                    if await cross(gate, statement, partition_id, {one: first, other: second}):
                        deadlocked.add(f"{name}, at {statement.split()[3]}")

    assert sorted(deadlocked) == []


UPKEEP = """
update queen.queues
set retention_enabled = true, retention_seconds = 0.000001, completed_retention_seconds = 0.000001,
  max_wait_seconds = 0.000001, partition_retention_seconds = 0.000001, dedup_seconds = 0,
  old_dedup_untils = null;
insert into queen.duties (name)
values ('retention'), ('evictions'), ('partitions'), ('scheduled');
update queen.segments set body = null, ends = null where partition_id = $1;
insert into queen.laggards (queue_id, kind, partition_id, look_at)
select p.queue_id, 'unused', p.id, queen.now() - interval '1 day' from queen.partitions p;
"""
"""All messages are old and have waited too long, and one partition is empty."""

STEPS: Mapping[str, Call] = {
    "retain by age": ("retain", 0, 1, "age", 100, 1.0),
    "retain completed": ("retain", 0, 1, "completed", 100, 1.0),
    "evict": ("evict", 0, 1, 100, 100),
    "remove_partitions": ("remove_partitions", 0, 1, 1.0, None, None, 100),
    "promote_due": ("promote_due", 0, 0, 100),
}

OTHERS: Mapping[str, Callable[[Scene], Call]] = {
    "ack": lambda s: ack(*reversed(s.lent)),
    "nack": lambda s: nack(*s.lent),
    "extend": lambda s: extend(*s.lent),
    "push": lambda s: push(s.held[1], s.idle, s.held[0]),
    "transact": lambda s: transact(acked=s.lent, pushed=[s.idle, s.ready]),
    "redrive": lambda s: ("redrive", list(s.dead)),
    "seek": lambda _: seek("orders", "workers", LONG_AGO),
    "purge": lambda _: purge("orders"),
    "give_up": lambda s: give_up(s.held[0], 1),
    "pop": lambda s: pop(s.group_id, batch=100, partitions=100),
}


@pytest.mark.parametrize("is_ordered", [True, False], ids=["ordered", "unordered"])
async def test_background_tasks_do_not_deadlock_with_any_call(
    connect: Connect, is_ordered: bool
) -> None:
    gate, one, other = [await connect() for _ in range(3)]
    scene = await arrange(gate, QUEUES["ordered" if is_ordered else "unordered"])
    await gate.execute(UPKEEP.replace("$1", str(scene.ready)))

    deadlocked: set[str] = set()
    for name, step in STEPS.items():
        for who, call in OTHERS.items():
            # It skips locked partitions, and waits for consumers.
            for partition_id in (scene.held[1], scene.idle):
                for calls in ({one: step, other: call(scene)}, {one: call(scene), other: step}):
                    if await cross(gate, GATES[1], partition_id, calls):
                        deadlocked.add(f"{name}, {who}")

    assert sorted(deadlocked) == []


async def test_locking_a_partition_does_not_write_its_row(connect: Connect) -> None:
    connections = [await connect() for _ in range(4)]
    await run(connections[0], configure("orders", ordered=False))
    group_id = await group(connections[0], "workers")
    ids = await partitions_of(connections[0], "a", "b", "c")
    rows = "select id, ctid::text, xmin::text from queen.partitions order by id"
    before = await connections[0].fetch(rows)

    async def work(connection: "Connection", number: int) -> None:
        order = random.Random(number)
        for _ in range(25):
            await run(connection, push(*order.sample(ids, 2)))
            # Without a lease, it locks the partitions that it drains.
            await run(connection, pop(group_id, batch=10, partitions=3, is_auto=number % 2 == 0))
            popped = await run(connection, pop(group_id, batch=10, partitions=3))
            await run(connection, ack(*leases(popped)))

    await asyncio.gather(*(work(each, number) for number, each in enumerate(connections)))

    assert await connections[0].fetch(rows) == before
    await connections[0].execute("create extension pageinspect schema public")
    (page,) = await connections[0].fetch(
        """
        select
          count(*) as versions,
          count(*) filter (where (t_infomask & x'1000'::integer) <> 0) as multixacts
        from public.heap_page_items(public.get_raw_page('queen.partitions', 0))
        """
    )
    assert (page["versions"], page["multixacts"]) == (len(ids), 0)


async def test_a_redrive_touches_no_dead_letter_before_it_has_all_consumers(
    connect: Connect,
) -> None:
    """
    A message that is dead-lettered again may wait for its dead letter while it holds consumers.
    """
    gate, redriver, watcher = [await connect() for _ in range(3)]
    scene = await arrange(gate, QUEUES["ordered"])

    transaction = gate.transaction()
    await transaction.start()
    await gate.fetch(GATES[1], scene.held[0])
    task = asyncio.create_task(attempt(redriver, ("redrive", list(scene.dead))))
    await waits(watcher, redriver, task)
    letters = "select id from queen.dead_letters order by id for update nowait"
    assert {row["id"] for row in await watcher.fetch(letters)} == set(scene.dead)
    await transaction.rollback()
    await task


@pytest.mark.parametrize("what", ["queue", "group"])
async def test_an_erasure_and_an_ack_do_not_deadlock(connect: Connect, what: str) -> None:
    gate, one, other = [await connect() for _ in range(3)]
    scene = await arrange(gate, QUEUES["ordered"])
    deletion: Call = (
        ("delete_queue", "orders") if what == "queue" else ("delete_group", "orders", "workers")
    )
    await run(gate, deletion)
    calls: tuple[Call, Call] = (ack(*reversed(scene.lent)), ("erase", 1_000))

    for statement in GATES[1:]:
        for partition_id in scene.held:
            for first, second in (calls, calls[::-1]):
                assert not await cross(gate, statement, partition_id, {one: first, other: second})


async def test_a_seek_of_a_partly_created_group_does_not_deadlock_with_a_push(
    connect: Connect,
) -> None:
    gate, seeker = [await connect() for _ in range(2)]
    await run(gate, configure("orders"))
    ids = sorted(await partitions_of(gate, *(f"p{number}" for number in range(1_100))))
    await group(gate, "late")

    async with gate.transaction():
        await run(gate, push(ids[0]))
        task = asyncio.create_task(attempt(seeker, seek("orders", "late", LONG_AGO)))
        await waits(gate, seeker, task)
        await run(gate, push(ids[-1]))
    await task


async def test_dead_lettering_for_a_partly_created_group_locks_no_later_partition(
    connect: Connect,
) -> None:
    """Creating the group's rows locks later partitions too, each in its own transaction."""
    gate, other = [await connect() for _ in range(2)]
    await run(gate, configure("orders"))
    ids = sorted(await partitions_of(gate, *(f"p{number}" for number in range(1_100))))
    group_id = await group(gate, "late")
    call: Call = ("give_up", ids[0], 0, "late", "by hand")
    await other.execute("set lock_timeout = '10s'")

    async with gate.transaction():
        await run(gate, push(ids[0]))
        assert [row["group_id"] for row in await run(other, call)] == [None]
        task = asyncio.create_task(attempt(other, call))
        await waits(gate, other, task)
        await run(gate, push(ids[-1]))
    await task
    assert [row["group_id"] for row in await run(other, call)] == [group_id]
