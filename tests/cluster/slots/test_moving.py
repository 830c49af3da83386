"""A slot moves to another database."""

import random
from collections.abc import AsyncIterator

import asyncpg
import pytest

from queen import errors
from queen.cluster.cluster import Cluster
from queen.store.cluster.tables import LOCAL, SEGMENTS, TABLES
from queen.store.migrations import connected
from tests.cluster.moves import Members, Stopped, run
from tests.cluster.places import ONE
from tests.cluster.user import User, item

OF_DATABASES = {
    "allowances",
    "appender",
    "archive_batches",
    "archives",
    "arrivals",
    "audit",
    "audit_end",
    "audit_start",
    "databases",
    "declarations",
    "definitions",
    "duties",
    "forward_batches",
    "forwards",
    "iceberg_namespace_properties",
    "iceberg_tables",
    "instances",
    "keys",
    "late_minutes",
    "maintenance",
    "migrations",
    "operations",
    "outbox",
    "outdated",
    "pins",
    "pipeline_samples",
    "pipelines",
    "recalled",
    "relay",
    "renumberings",
    "replays",
    "reservations",
    "rewrites",
    "rollup_marks",
    "sampler",
    "scheduler",
    "shares",
    "slots",
    "staged",
    "streams",
    "tickets",
    "workflow_parts",
    "workflow_steps",
    "workflows",
}
"""Tables that don't move with a slot. Archives and streams prevent a move."""
STRIDES = [pytest.param(1, marks=pytest.mark.slow), 13]
"""Every statement of a move, or some of them."""
KEPT = {table.name for table in TABLES if table.is_kept}


@pytest.fixture
async def members(databases: dict[str, str]) -> AsyncIterator[Members]:
    async with Members.connected(databases) as members:
        yield members


@pytest.mark.parametrize("seed", range(12))
async def test_all_rows_of_a_slot_move_while_it_is_used(
    cluster: Cluster, members: Members, seed: int
) -> None:
    """Between all steps, calls change rows of any kind. The new owner has the same rows."""
    await cluster.push([item(0)])
    user = User(cluster.engines["main"], seed)
    dice = random.Random(seed)
    for _ in range(60):
        await user.act()
    slot = await members.slot(ONE)
    move = members.move(slot, "main", "two")
    while True:
        before = await members.rows("main", slot)
        await move.step()
        if await members.owners(slot) == ["two"]:
            break
        for _ in range(dice.randrange(12)):
            await user.act()

    assert await members.rows("two", slot) == before

    while not (await move.step()).is_over:
        pass
    left = await members.rows("main", slot)
    assert {name for name, rows in left.items() if rows} <= KEPT


async def test_every_table_moves_or_belongs_to_a_database(members: Members) -> None:
    rows = await members.connections["main"].fetch(
        "select relname from pg_class where relnamespace = 'queen'::regnamespace"
        " and relkind in ('r', 'p') and not relispartition"
    )
    moved = {table.name for table in (SEGMENTS, *TABLES, *LOCAL)} | {"producers"}
    assert {row["relname"] for row in rows} == moved | OF_DATABASES


async def scene(cluster: Cluster, members: Members) -> int:
    """A slot with rows of many kinds in the first database."""
    await cluster.push([item(0)])
    user = User(cluster.engines["main"], 1)
    for _ in range(60):
        await user.act()
    return await members.slot(ONE)


@pytest.mark.parametrize("stride", STRIDES)
async def test_another_process_continues_wherever_the_mover_ends(
    cluster: Cluster, databases: dict[str, str], members: Members, stride: int
) -> None:
    """The connections of the mover close before each of its statements in turn."""
    slot = await scene(cluster, members)
    source, target = "main", "two"
    expected = await members.rows(source, slot)
    count = 0
    while True:
        async with Members.connected(databases, stop_at=count) as doomed:
            move = doomed.move(slot, source, target)
            try:
                await run(move)
                is_stopped = False
            except (Stopped, asyncpg.InterfaceError):
                is_stopped = True

        await run(members.move(slot, source, target))

        assert await members.owners(slot) == [target]
        assert await members.rows(target, slot) == expected, count
        left = await members.rows(source, slot)
        assert {name for name, rows in left.items() if rows} <= KEPT
        if not is_stopped:
            break
        source, target = target, source
        count += stride
    assert count > 50


@pytest.mark.parametrize("stride", STRIDES)
async def test_a_mover_that_was_replaced_changes_nothing(
    cluster: Cluster,
    databases: dict[str, str],
    members: Members,
    stride: int,
) -> None:
    """It pauses before each of its statements in turn, until another has moved the slot."""
    slot = await scene(cluster, members)
    source, target = "main", "two"
    expected = await members.rows(source, slot)
    count = 0
    while True:
        async with Members.connected(databases, pause_at=count, idle_ms=100) as slow:
            move = slow.move(slot, source, target)
            task = slow.start(run(move))
            is_paused = await slow.paused()
            if is_paused:
                await run(members.move(slot, source, target))
                slow.resume()
            result = await task
            assert result is None or (
                is_paused
                and isinstance(
                    result,
                    errors.SlotMoved
                    | asyncpg.PostgresError
                    | asyncpg.InterfaceError
                    | TimeoutError,
                )
            )

        assert await members.owners(slot) == [target]
        assert await members.rows(target, slot) == expected, count
        if not is_paused:
            break
        source, target = target, source
        count += stride
    assert count > 50


async def test_a_slot_moves_although_messages_arrive_all_the_time(
    cluster: Cluster, members: Members
) -> None:
    await cluster.push([item(0)])
    slot = await members.slot(ONE)
    move = members.move(slot, "main", "two")
    for n in range(10):
        await move.step()
        await cluster.push([item(n)])

    assert await members.owners(slot) == ["two"]


async def test_a_move_waits_for_a_transaction_that_holds_many_messages_back(
    cluster: Cluster, members: Members
) -> None:
    """Messages of later transactions would all be copied while calls wait."""
    await cluster.push([item(0)])
    slot = await members.slot(ONE)
    async with (
        connected(cluster.first.store.database.dsn) as connection,
        connection.transaction(),
    ):
        await connection.execute("select pg_current_xact_id()")
        await cluster.push([item(n, partition=f"p{n}") for n in range(1_100)])
        move = members.move(slot, "main", "two")
        reason = None
        for _ in range(4):
            reason = (await move.step()).waits_for
        assert reason is not None
        assert reason.startswith("a transaction is open in main")
        assert await members.owners(slot) == ["main"]

    await run(move)
    assert await members.owners(slot) == ["two"]


async def test_a_former_owner_that_forgot_the_move_keeps_its_messages(
    cluster: Cluster, members: Members
) -> None:
    """Its standby took over without the end of the move, so it accepted messages again."""
    await cluster.push([item(0)])
    slot = await members.slot(ONE)
    await run(members.move(slot, "main", "two"))
    await members.value(
        "main",
        "update queen.slots set state = 'owned', moved_to = null, epoch = 1 where slot = $1",
        slot,
    )
    await cluster.engines["main"].push([item(1)])

    with pytest.raises(errors.DatabaseUnsafe, match="restored to a state before the move"):
        await run(members.move(slot, "main", "two"))
    assert await members.value("main", "select count(*) from queen.segments") == 1
