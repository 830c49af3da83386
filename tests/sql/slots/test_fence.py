"""A call that changes data of a slot waits for a move of the slot, or a move waits for it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import asyncpg
import pytest

from queen import sql
from tests.sql.calls import (
    Call,
    ack,
    combine,
    configure,
    configure_partition,
    defer,
    extend,
    nack,
    partition_ids,
    pop,
    pop_new,
    purge,
    push,
    release,
    run,
    seek,
    shorten,
    subscribe,
    transact,
)
from tests.sql.locks.scene import (
    LONG_AGO,
    Scene,
    arrange,
    cancel,
    give_up,
    redact,
    retry,
    waits,
)

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]


def _put_schedule(name: str, queue: str) -> Call:
    options = ("Default", "0 3 * * *", "UTC", "skip", b"{}", None, LONG_AGO)
    return "put_schedule", name, queue, *options, ["orders", queue], False, None


def _skip(schedule: str, tick: datetime) -> Call:
    """Move a schedule to its end without a message."""
    none: list[object] = []
    nothing = (*[none] * 6, b"", *[none] * 11, 0.0)
    return "fire", [schedule], [tick], [None], [None], *nothing


CALLS: Mapping[str, Callable[[Scene], Call]] = {
    "push": lambda s: push(s.idle),
    "push of a scheduled message": lambda s: push(scheduled=[(s.idle, LONG_AGO)]),
    "new partition": lambda _: partition_ids("orders", "new"),
    "pop": lambda s: pop_new(s.group_id),
    "pop of due messages": lambda s: pop(s.group_id, is_due_first=True),
    "pop of a partition": lambda s: pop(s.group_id, partition="ready"),
    "ack": lambda s: ack(s.lent[0]),
    "nack": lambda s: nack(s.lent[0]),
    "extend": lambda s: extend(s.lent[0]),
    "release": lambda s: release(s.lent[0]),
    "defer": lambda s: defer(s.lent[0]),
    "shorten": lambda s: shorten(s.lent[0]),
    "transact": lambda s: transact(acked=[s.lent[0]]),
    "transact with a push": lambda s: transact(pushed=[s.idle]),
    "combine": lambda s: combine(pushed=[s.idle]),
    "give_up": lambda s: give_up(s.ready, 0),
    "retry": lambda s: retry(s.idle, 0),
    "redrive": lambda s: ("redrive", list(s.dead)),
    "redrive_to": lambda s: ("redrive_to", [s.dead[0]], [b"{}"], [None], s.ready),
    "purge_dead_letters": lambda s: ("purge_dead_letters", list(s.dead)),
    "redact": lambda s: redact(s.ready, 0),
    "cancel": lambda s: cancel(s.ready, 0),
    "withdraw": lambda _: ("withdraw", 1),
    "report_progress": lambda s: (
        "report_progress",
        *(*s.lent[0], "t", s.held[1], 0, b"1", 60.0),
    ),
    "erase_result": lambda s: ("erase_result", s.ready, "t"),
    "add_trace": lambda s: ("add_trace", s.ready, "t", None, "seen", ["a"], b"1"),
    "purge": lambda _: purge("orders"),
    "seek": lambda _: seek("orders", "workers", LONG_AGO),
    "subscribe": lambda _: subscribe("orders", "new"),
    "fill": lambda s: ("fill", s.group_id, 1),
    "configure_partition": lambda _: configure_partition("orders", "ready", priority=1),
    "configure": lambda _: configure("orders", lease_seconds=60),
    "delete_queue": lambda _: ("delete_queue", "orders"),
    "delete_group": lambda _: ("delete_group", "orders", "workers"),
    "hold": lambda _: ("hold_archive", "lake"),
    "hold_recalled": lambda _: ("hold_recalled", "orders", "reader", 60.0),
    "open_archive": lambda _: ("open_archive", "other", "orders", "iceberg", "/other"),
    "remember_plan": lambda _: ("remember_plan", "app", 1, 1, 0, 0, False, 2, "{}"),
    "begin_operation": lambda _: ("begin_operation", "purge", "orders", {}, 1, "here", "me"),
    "put_schedule": lambda _: _put_schedule("new", "orders"),
    "put_schedule in another queue": lambda _: _put_schedule("nightly", "elsewhere"),
    "pause_schedule": lambda _: ("pause_schedule", "nightly", True, None),
    "delete_schedule": lambda _: ("delete_schedule", "nightly"),
    "fire": lambda _: _skip("nightly", LONG_AGO),
}
LOCK = "select pg_advisory_xact_lock(hashtext('queen.slot'), $1)"
ALL = 1024
"""The lock of calls with many slots."""
HELD = """
select objid::integer as slot
from pg_locks
where locktype = 'advisory' and classid::bigint = hashtext('queen.slot')::bigint & 4294967295
  and pid = $1 and mode = 'ShareLock' and granted
"""
LEAVE = "update queen.slots set state = 'leaving', moved_to = 'db2' where slot = $1"
ROWS = """
select array[
  (select md5(string_agg(t::text, ',' order by t::text)) from queen.segments t),
  (select md5(string_agg(t::text, ',' order by t::text)) from queen.consumers t),
  (select md5(string_agg(t::text, ',' order by t::text)) from queen.deliveries t),
  (select md5(string_agg(t::text, ',' order by t::text)) from queen.dead_letters t),
  (select md5(string_agg(t::text, ',' order by t::text)) from queen.partitions t),
  (select md5(string_agg(t::text, ',' order by t::text)) from queen.scheduled t),
  (select md5(string_agg(t::text, ',' order by t::text)) from queen.groups t),
  (select md5(string_agg(t::text, ',' order by t::text)) from queen.results t),
  (select md5(string_agg(t::text, ',' order by t::text)) from queen.traces t),
  (select md5(string_agg(t::text, ',' order by t::text)) from queen.queues t),
  (select md5(string_agg(t::text, ',' order by t::text)) from queen.holds t),
  (select md5(string_agg(t::text, ',' order by t::text)) from queen.plans t),
  (select md5(string_agg(t::text, ',' order by t::text)) from queen.archives t),
  (select md5(string_agg(t::text, ',' order by t::text)) from queen.operations t),
  (select md5(string_agg(t::text, ',' order by t::text)) from queen.schedules t)
]
"""


class Lab(NamedTuple):
    """A queue, and connections that move its slot and make calls."""

    mover: "Connection"
    caller: "Connection"
    scene: Scene
    slot: int


@pytest.fixture
async def lab(dsn: str) -> AsyncIterator[Lab]:
    async with AsyncExitStack() as stack:
        connections: list[Connection] = []
        for _ in range(2):
            connections.append(await asyncpg.connect(dsn))
            stack.push_async_callback(connections[-1].close)
        mover, caller = connections
        # With its own short timeout, a combined call could end before the test has seen it wait.
        patient = sql.FUNCTIONS["combine"].replace("  set lock_timeout = '50ms'\n", "")
        assert patient != sql.FUNCTIONS["combine"]
        await mover.execute(patient)
        scene = await arrange(mover, {"ordered": True})
        await run(mover, push(scheduled=[(scene.due, LONG_AGO)]))
        slot = await mover.fetchval("select slot from queen.queues")
        await mover.execute("insert into queen.homes select name, slot from queen.queues")
        await run(mover, _put_schedule("nightly", "orders"))
        await run(mover, ("open_archive", "lake", "orders", "iceberg", "/lake"))
        yield Lab(mover, caller, scene, slot)


async def _run(connection: "Connection", call: Call) -> None:
    await run(connection, call)


@pytest.mark.parametrize("name", CALLS)
async def test_a_call_waits_for_a_move_and_is_rejected(lab: Lab, name: str) -> None:
    before = await lab.mover.fetchval(ROWS)
    async with lab.mover.transaction():
        await lab.mover.execute(LOCK, lab.slot)
        calling = asyncio.create_task(_run(lab.caller, CALLS[name](lab.scene)))
        await waits(lab.mover, lab.caller, calling)
        assert not calling.done(), "the call did not wait for the move"
        await lab.mover.execute(LEAVE, lab.slot)

    with pytest.raises(asyncpg.PostgresError) as raised:
        await calling

    assert raised.value.sqlstate == "QN018"
    assert await lab.mover.fetchval(ROWS) == before


@pytest.mark.parametrize("name", CALLS)
async def test_a_move_waits_for_a_call(lab: Lab, name: str) -> None:
    async with lab.caller.transaction():
        await run(lab.caller, CALLS[name](lab.scene))
        moving = asyncio.create_task(_move(lab.mover, lab.slot))
        await waits(lab.caller, lab.mover, moving)
        assert not moving.done(), "the move did not wait for the call"

    await moving


async def _move(connection: "Connection", slot: int) -> None:
    async with connection.transaction():
        await connection.execute(LOCK, slot)


async def test_a_slot_that_is_gone_is_named(lab: Lab) -> None:
    await lab.mover.execute(
        "update queen.slots set state = 'gone', moved_to = 'db2' where slot = $1", lab.slot
    )

    with pytest.raises(asyncpg.PostgresError, match=f"slot {lab.slot} is in another database"):
        await run(lab.caller, push(lab.scene.idle))


async def test_other_slots_are_not_affected(lab: Lab) -> None:
    await lab.mover.execute(
        "update queen.slots set state = 'leaving', moved_to = 'db2' where slot <> $1", lab.slot
    )

    (stored,) = await run(lab.caller, push(lab.scene.idle))

    assert stored["kind"] == "stored"


async def _partitions(connection: "Connection", count: int) -> list[int]:
    """A partition in each of ``count`` slots, in the order of the slots."""
    found: dict[int, int] = {}
    n = 0
    while len(found) < count:
        n += 1
        await run(connection, configure(f"queue {n}"))
        (row,) = await run(connection, partition_ids(f"queue {n}", "p"))
        found[row["partition_id"] >> 53] = row["partition_id"]
    return [found[slot] for slot in sorted(found)]


async def test_slots_are_entered_in_order(lab: Lab) -> None:
    ids = await _partitions(lab.mover, 12)
    async with lab.mover.transaction():
        await lab.mover.execute(LOCK, ids[7] >> 53)
        calling = asyncio.create_task(_run(lab.caller, push(*reversed(ids))))
        await waits(lab.mover, lab.caller, calling)
        held = await lab.mover.fetch(HELD, lab.caller.get_server_pid())

    await calling
    assert sorted(row["slot"] for row in held) == [each >> 53 for each in ids[:7]]


async def test_a_call_with_many_slots_takes_one_lock(lab: Lab) -> None:
    ids = await _partitions(lab.mover, 30)
    async with lab.caller.transaction():
        await run(lab.caller, push(*ids))
        held = await lab.mover.fetch(HELD, lab.caller.get_server_pid())

    assert [row["slot"] for row in held] == [ALL]

    async with lab.mover.transaction():
        await lab.mover.execute(LOCK, ALL)
        calling = asyncio.create_task(_run(lab.caller, push(*ids)))
        await waits(lab.mover, lab.caller, calling)
        assert not calling.done()
        await lab.mover.execute(LEAVE, ids[20] >> 53)
    with pytest.raises(asyncpg.PostgresError) as raised:
        await calling
    assert raised.value.sqlstate == "QN018"
