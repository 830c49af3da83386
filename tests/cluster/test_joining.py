"""Databases join: which slots each owns, which ids are unique, and which are rejected."""

import pytest

from queen import errors, sql
from queen.engine.engine import Engine
from queen.store.cluster.joining import join, missing
from queen.store.migrations import connected, migrate
from tests.engine.helpers import pop_one, push, values

SLOTS = "select slot, state, moved_to from queen.slots order by slot"


async def owned(dsn: str) -> set[int]:
    """The slots that a database owns."""
    async with connected(dsn) as connection:
        return {row["slot"] for row in await connection.fetch(SLOTS) if row["state"] == "owned"}


async def test_each_slot_has_one_owner(databases: dict[str, str]) -> None:
    main, two, three = [await owned(dsn) for dsn in databases.values()]

    assert not main & two
    assert not (main | two) & three
    assert main | two | three == set(range(1024))
    assert {len(main & set(range(1, 960))), len(two), len(three)} <= {319, 320}
    async with connected(databases["main"]) as connection:
        told = {row["slot"]: row["moved_to"] for row in await connection.fetch(SLOTS)}
    assert {slot for slot, owner in told.items() if owner == "two"} == two
    assert {slot for slot, owner in told.items() if owner == "three"} == three


async def test_joining_again_changes_nothing(databases: dict[str, str]) -> None:
    before = [await owned(dsn) for dsn in databases.values()]

    assert await join(databases) == []
    assert await missing(databases) == []
    assert [await owned(dsn) for dsn in databases.values()] == before


async def test_missing_steps_are_listed(empty: dict[str, str]) -> None:
    await migrate(empty["main"])

    assert await missing(empty) == ["two: join", "three: join"]
    assert await missing({"main": empty["main"]}) == []


@pytest.mark.parametrize("step", ["leave", "own"])
async def test_an_interrupted_step_is_completed(empty: dict[str, str], step: str) -> None:
    """After each step, at most one database owns the slots, and a repeat completes the move."""
    two = {name: empty[name] for name in ("main", "two")}
    await join(two)
    async with connected(empty["main"]) as leader, connected(empty["two"]) as follower:
        given = await leader.fetchrow(
            "select slot, epoch from queen.slots where state = 'owned' and slot > 0 limit 1"
        )
        assert given is not None
        slot, epoch = given["slot"], given["epoch"]
        assert await leader.fetch("select queen.leave_slots($1, 'two')", [slot])
        if step == "own":
            await follower.execute("select queen.own_slots($1, $2)", [slot], [epoch])
        main, other = await owned(empty["main"]), await owned(empty["two"])
        assert slot not in main
        assert (slot in other) == (step == "own")

        await join(two)

        assert slot in await owned(empty["two"])
        row = await leader.fetchrow("select state, moved_to from queen.slots where slot = $1", slot)
        assert row is not None
        assert tuple(row) == ("gone", "two")


async def test_slots_that_two_processes_give_are_closed_by_their_own(
    empty: dict[str, str],
) -> None:
    """If one of them dies, the other has not closed slots that no database owns."""
    two = {name: empty[name] for name in ("main", "two")}
    await join(two)
    async with connected(empty["main"]) as leader, connected(empty["two"]) as follower:
        query = "select slot from queen.slots where state = 'owned' and slot > 0 order by 1 limit 2"
        first, second = [row["slot"] for row in await leader.fetch(query)]
        leave = sql.CALLS["leave_slots"]
        (given,) = await leader.fetch(leave, [first], "two")
        arguments = [given["slot"]], [given["epoch"]]
        await follower.execute(sql.CALLS["own_slots"], *arguments)
        await leader.fetch(leave, [second], "two")  # Another process does so, and dies.

        await leader.execute(sql.CALLS["close_given_slots"], *arguments, "two")
        await join(two)

    assert {first, second} <= await owned(empty["two"])
    assert not {first, second} & await owned(empty["main"])


async def test_queues_stay_in_the_first_database(empty: dict[str, str]) -> None:
    await migrate(empty["main"])
    async with await Engine.open(empty["main"]) as engine:
        await push(engine, "orders", 1)
        used = await engine.store.database.fetch("find_homes", ["orders"])
        assert used == []

    await join(empty)

    async with await Engine.open(empty["main"]) as engine:
        assert (await engine.store.homes.find(["orders"])).keys() == {"orders"}
        assert values(await pop_one(engine, "orders")) == [1]


async def test_a_database_with_queues_cannot_join(empty: dict[str, str]) -> None:
    await migrate(empty["two"])
    async with await Engine.open(empty["two"]) as engine:
        await push(engine, "orders", 1)

    with pytest.raises(errors.DatabaseUnsafe, match="two cannot join main: it has queues already"):
        await join(empty)


async def test_a_database_does_not_join_under_two_names(databases: dict[str, str]) -> None:
    wrong = {**databases, "three": databases["two"]}

    with pytest.raises(errors.DatabaseUnsafe, match="leads to database two"):
        await join(wrong)


async def test_no_database_may_be_left_out(databases: dict[str, str]) -> None:
    alone = {"main": databases["main"]}
    for prepare in (join, missing):
        with pytest.raises(errors.DatabaseUnsafe, match="shares its queues with three, two"):
            await prepare(alone)
    swapped = {name: databases[name] for name in ("two", "main", "three")}
    with pytest.raises(errors.DatabaseUnsafe, match="two is listed first"):
        await missing(swapped)


async def test_ids_without_a_slot_differ(databases: dict[str, str]) -> None:
    found: list[set[int]] = []
    for number, dsn in enumerate(databases.values()):
        async with connected(dsn) as connection:
            ids = {
                await connection.fetchval("select nextval('queen.queues_id_seq')") for _ in range(3)
            }
        assert {each % 1024 for each in ids} == {number}
        found.append(ids)
    assert len(set[int]().union(*found)) == 9


async def test_ids_do_not_repeat_those_of_the_first_database(empty: dict[str, str]) -> None:
    await migrate(empty["main"])
    async with connected(empty["main"]) as connection:
        await connection.execute("select setval('queen.dead_letters_id_seq', 5000)")

    await join(empty)

    for number, dsn in enumerate(empty.values()):
        async with connected(dsn) as connection:
            id_ = await connection.fetchval("select nextval('queen.dead_letters_id_seq')")
        assert id_ > 5000
        assert id_ % 1024 == number


async def test_a_queue_needs_a_home(databases: dict[str, str]) -> None:
    """A server that is connected to only one database can't create a queue in it."""
    async with await Engine.open(databases["two"]) as engine:
        with pytest.raises(errors.SlotMoved):
            await push(engine, "orders", 1)


async def test_an_upgrade_also_checks_that_no_database_is_left_out(
    databases: dict[str, str],
) -> None:
    async with connected(databases["main"]) as connection:
        await connection.execute("delete from queen.migrations where name = 'functions'")

    with pytest.raises(errors.DatabaseUnsafe, match="shares its queues with three, two"):
        await join({"main": databases["main"]})


async def test_new_connections_of_each_database_are_warmed(databases: dict[str, str]) -> None:
    """Also if most slots, or all of them, are in other databases."""
    for dsn in databases.values():
        async with connected(dsn) as connection:
            for _ in range(5):
                await connection.execute("select queen.warm()")
            for table in ("queues", "homes", "segments"):
                assert await connection.fetchval(f"select count(*) from queen.{table}") == 0
    async with connected(databases["two"]) as connection:
        await connection.execute("update queen.slots set state = 'gone', moved_to = 'main'")
        await connection.execute("select queen.warm()")
