"""Combined calls keep the lock order: partitions, producers, consumers, deliveries, by key."""

from collections.abc import Callable, Mapping

import pytest

from queen import sql
from tests.sql.calls import Call, ack, combine, extend, purge, push, seek, transact
from tests.sql.locks.scene import GATES, LONG_AGO, QUEUES, Connect, Scene, arrange, cross

KNOWN, NEW = "known\x1f*", "new\x1f*"
"""A producer with an earlier request, and one without."""
CROSSINGS: Mapping[str, Callable[[Scene], tuple[Call, Call]]] = {
    "combine, combine": lambda s: (
        combine(pushed=[s.held[1], s.idle], acked=s.lent, popped=[s.group_id]),
        combine(pushed=[s.idle, s.held[0]], acked=s.lent[::-1], popped=[s.group_id]),
    ),
    "combine of producers, push of producers": lambda s: (
        combine(
            pushed=[s.held[0], s.idle],
            acked=s.lent,
            popped=[s.group_id],
            producers=[(KNOWN, 1), (NEW, 1)],
        ),
        push(
            s.held[1],
            s.idle,
            s.held[0],
            producers=[(NEW, 1), (KNOWN, 1)],
        ),
    ),
    "combines of producers": lambda s: (
        combine(pushed=[s.held[0]], acked=s.lent, producers=[(KNOWN, 1), (NEW, 1)]),
        combine(pushed=[s.held[1]], popped=[s.group_id], producers=[(NEW, 1), (KNOWN, 1)]),
    ),
    "combine, push": lambda s: (
        combine(pushed=[s.held[0], s.idle], acked=s.lent, popped=[s.group_id]),
        push(s.held[1], s.idle, s.held[0]),
    ),
    "combine, ack": lambda s: (
        combine(pushed=s.held, acked=s.lent, popped=[s.group_id]),
        ack(*reversed(s.lent)),
    ),
    "combine, extend": lambda s: (
        combine(pushed=s.held, acked=s.lent, popped=[s.group_id]),
        extend(*reversed(s.lent)),
    ),
    "combine of nacks, transact": lambda s: (
        combine(nacked=s.lent, popped=[s.group_id]),
        transact(acked=[s.lent[1]], nacked=[s.lent[0]], pushed=s.held[::-1]),
    ),
    "combine, transact": lambda s: (
        combine(pushed=s.held, acked=s.lent, popped=[s.group_id]),
        transact(acked=[s.lent[1]], nacked=[s.lent[0]], pushed=s.held[::-1]),
    ),
    "combine, seek": lambda s: (
        combine(pushed=s.held, acked=s.lent, popped=[s.group_id]),
        seek("orders", "workers", LONG_AGO),
    ),
    "combine, purge": lambda s: (
        combine(pushed=s.held, acked=s.lent, popped=[s.group_id]),
        purge("orders"),
    ),
    "combine, redrive": lambda s: (
        combine(pushed=s.held, acked=s.lent, popped=[s.group_id]),
        ("redrive", list(s.dead)),
    ),
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("is_ordered", [True, False], ids=["ordered", "unordered"])
async def test_crossing_combined_calls_do_not_deadlock(connect: Connect, is_ordered: bool) -> None:
    gate, one, other = [await connect() for _ in range(3)]
    # With its own short timeout, a combined call would end before a deadlock is found.
    patient = sql.FUNCTIONS["combine"].replace("  set lock_timeout = '50ms'\n", "")
    assert patient != sql.FUNCTIONS["combine"]
    await gate.execute(patient)
    scene = await arrange(gate, QUEUES["ordered" if is_ordered else "unordered"])
    await gate.execute(
        "insert into queen.producers (producer_id, scope, sequence, at)"
        " values ('known', '*', 0, now())"
    )

    deadlocked: set[str] = set()
    for name, crossing in CROSSINGS.items():
        for statement in GATES:
            for partition_id in (*scene.held, scene.idle):
                for first, second in (crossing(scene), crossing(scene)[::-1]):
                    if await cross(gate, statement, partition_id, {one: first, other: second}):
                        deadlocked.add(f"{name}, at {statement.split()[3]}")

    assert sorted(deadlocked) == []
