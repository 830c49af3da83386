"""A limit of a spread queue holds for all databases together."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from queen.cluster.cluster import Cluster
from queen.cluster.shards import Shards
from queen.engine.engine import Engine
from queen.store.cluster.joining import join
from queen.store.cluster.mover import Move, Mover
from queen.store.cluster.shares import Share
from queen.store.migrations import migrate
from tests.cluster.moves import Members, run
from tests.cluster.places import NAMES, named, slot_of
from tests.cluster.spread.limits import Limited
from tests.cluster.stops import FAIL
from tests.engine.helpers import item, until, values
from tests.support.clock import Clock

RATE = {"rate_max": 30, "rate_ms": 60_000, "rate_per": "queue"}


@pytest.fixture
def orders(cluster: Cluster) -> Limited:
    return Limited(cluster)


COUNT = "select queen.live_leases(d.group_id, true, now(), 100) from queen.deliveries d limit 1"
CALLS = "select sum(calls)::integer from pg_stat_xact_user_functions where funcname = 'is_owned'"


@pytest.fixture
async def members(databases: dict[str, str]) -> AsyncIterator[Members]:
    async with Members.connected(databases) as members:
        yield members


async def test_databases_with_messages_have_equal_shares(orders: Limited) -> None:
    await orders.configure(concurrency_limit=10)
    await orders.push(each=80)
    held = await orders.pop_until(10)

    async def are_equal() -> bool:
        # The first one may have claimed all. It keeps that, and others get what is acknowledged.
        await orders.ack([held.pop(0)])
        held.extend(await orders.pop_until(1))
        assert await orders.live() == 10
        return sorted((await orders.shares()).values()) == [3, 3, 4]

    await until(are_equal, seconds=20)


async def test_the_database_with_messages_gets_the_limit(orders: Limited) -> None:
    await orders.configure(concurrency_limit=10)
    for name in ("two", "three", "main"):
        await orders.push(name)
        held = await orders.pop_until(10)
        assert values(held) == [name] * 10
        await orders.ack(held)


async def test_each_database_has_its_turn_with_a_limit_of_one(orders: Limited) -> None:
    await orders.configure(concurrency_limit=1)
    await orders.push(each=3)
    found: list[str] = []

    async def are_consumed() -> bool:
        held = await orders.pop()
        assert len(held) <= 1
        assert await orders.live() <= 1
        found.extend(values(held))
        await orders.ack(held)
        return len(found) == 9

    await until(are_consumed, seconds=40)
    assert sorted(found) == sorted(3 * NAMES)


async def test_a_rate_is_used_completely_but_once(orders: Limited) -> None:
    await orders.configure(**RATE)
    await orders.push("two", "three", each=40)
    found = await orders.pop_until(30, auto_ack=True)

    assert {*values(found)} == {"two", "three"}
    await orders.push("main")
    await orders.until_shares(lambda shares: shares["two"] < 30, "rate")
    assert await orders.pop() == []
    reports = await orders.reports()
    assert sum(row["rate_reserved"] for row in reports.values()) == 30


async def test_a_process_ends_before_it_raises_a_share(orders: Limited, members: Members) -> None:
    """The sum stays below the limit, and the next round completes the change."""
    await orders.configure(concurrency_limit=9)
    await orders.push("two", each=12)
    held = await orders.pop_until(9)
    await orders.until_shares(lambda found: found["two"] == 9)
    await orders.pop()
    await members.connections["three"].execute(
        FAIL.format(what="update of share_revision", table="limits")
    )
    await orders.push("three")
    await orders.ack(held)
    await orders.until_shares(lambda found: found["two"] < 9)

    assert sum((await orders.shares()).values()) < 9
    left = await orders.pop()
    assert {*values(left)} == {"two"}
    await members.connections["three"].execute("drop trigger fail on queen.limits")
    await orders.pop_until(9 - len(left))
    assert await orders.live() == 9


async def test_the_limit_changes(orders: Limited) -> None:
    await orders.configure(concurrency_limit=9)
    await orders.push(each=20)
    held = await orders.pop_until(9)
    await orders.configure(concurrency_limit=4)
    await orders.until_shares(lambda found: sum(found.values()) <= 4)

    await orders.ack(held[:5])
    assert await orders.pop() == []
    await orders.ack(held[5:])
    held = await orders.pop_until(4)
    await orders.configure(concurrency_limit=12)
    held += await orders.pop_until(8)
    await orders.configure(concurrency_limit=0)
    assert len(await orders.pop()) > 12


async def test_leases_move_with_their_part_of_the_limit(orders: Limited, members: Members) -> None:
    """After a move, the former owner does not claim as many again."""
    await orders.configure(concurrency_limit=6)
    await orders.push("main", each=60)
    held = await orders.pop_until(6)
    moved = held[0]
    slot = slot_of(moved.partition)
    count = sum(slot_of(each.partition) == slot for each in held)
    await run(members.move(slot, "main", "two"))

    assert await orders.pop() == []
    assert await orders.live() == 6
    assert (await orders.reports("two"))["two"]["moved_leases"] == count
    await orders.ack([moved])
    await orders.pop_until(1)
    await orders.ack(held[1:])
    await orders.pop_until(5)
    assert await orders.live() == 6


@pytest.fixture
async def clocks(databases: dict[str, str]) -> AsyncIterator[Callable[[float], Awaitable[None]]]:
    """Advances the clocks of all databases."""
    async with AsyncExitStack() as stack:
        clocks = [
            await stack.enter_async_context(await Clock.install(dsn)) for dsn in databases.values()
        ]

        async def advance(seconds: float) -> None:
            for clock in clocks:
                await clock.advance(seconds=seconds)

        yield advance


async def test_a_share_of_a_rate_is_free_after_its_period(
    orders: Limited, clocks: Callable[[float], Awaitable[None]]
) -> None:
    await orders.configure(rate_max=30, rate_ms=3_600_000, rate_per="queue")
    await orders.push("two", "main", each=40)
    found: list[str] = []

    async def is_used() -> bool:
        await clocks(1)  # Shares move once per second.
        found.extend(values(await orders.pop(auto_ack=True)))
        return len(found) >= 30

    await until(is_used, seconds=20)
    await orders.push("three", each=40)

    async def is_lowered() -> bool:
        await clocks(1)
        assert await orders.pop(auto_ack=True) == []
        reports = (await orders.reports()).values()
        return any(row["rate_reserved"] > row["rate_share"] for row in reports)

    await until(is_lowered, seconds=20)
    assert len(found) == 30
    await clocks(3_600)
    found.clear()
    await until(is_used, seconds=20)
    assert len(found) == 30
    assert "three" in found


async def test_a_database_joins_a_queue_with_a_limit_and_is_removed(
    empty: dict[str, str],
) -> None:
    await migrate(empty["main"])
    async with await Engine.open(empty["main"]) as engine:
        alone = Limited(Cluster({"main": engine}))
        await alone.configure(concurrency_limit=4)
        await alone.push()
        held = await alone.pop_until(4)
    both = {name: empty[name] for name in ("main", "two")}
    await join(both)
    async with AsyncExitStack() as stack:
        engines = {
            name: await stack.enter_async_context(await Engine.open(dsn))
            for name, dsn in both.items()
        }
        cluster = Cluster(engines)
        await cluster.start()
        stack.push_async_callback(cluster.close)
        orders = Limited(cluster)
        assert await orders.pop() == []
        await orders.ack(held)
        held = await orders.pop_until(4)
        name = next(
            each for each in named("two", 99) if cluster.owners.of_slot(slot_of(each)) == "two"
        )
        await cluster.push([item(orders.queue, "there", partition=name) for _ in range(9)])
        found: list[str] = []

        async def is_shared() -> bool:
            await orders.ack([held.pop(0)])
            held.extend(await orders.pop_until(1))
            found.extend(values(held))
            return "there" in found

        await until(is_shared, seconds=20)
        async with Mover(both) as mover:
            while not (await mover.step(Move(slot_of(name), "two", "main"))).is_over:
                pass
            await mover.give([*range(1, 960)], "two", "main")
        await Shards(cluster).remove("two")
        await orders.ack(held)
        assert len(await orders.pop_until(4)) == 4


async def test_late_decisions_and_reports_change_nothing(cluster: Cluster, orders: Limited) -> None:
    await orders.configure(concurrency_limit=9)
    await orders.push("two", each=12)
    await orders.pop_until(9)
    await cluster.shares.close()
    earlier = await orders.reports()
    group_id, revision = earlier["two"]["group_id"], earlier["two"]["revision"]
    two, decide = cluster.engines["two"].store.shares, cluster.first.store.shares.decide

    def wishes(reports: dict[str, Any], **wished: int) -> list[dict[str, Any]]:
        return [
            {"database": name, **row, "concurrency_wish": wished[name]}
            for name, row in reports.items()
        ]

    lower = await decide(group_id, wishes(earlier, main=0, two=5, three=4))
    await two.apply([lower["two"]])
    await two.apply([Share(group_id, revision, None, 9)])
    assert (await orders.shares())["two"] == 5
    # Nine leases are reserved there, whether the report is from before or after the decision.
    for reports in (earlier, await orders.reports()):
        shares = await decide(group_id, wishes(reports, main=0, two=5, three=4))
        assert "three" not in shares or shares["three"].concurrency == 0


async def test_a_pop_calls_no_function_per_lease(orders: Limited, members: Members) -> None:
    """It counts all leases of its group while others wait."""
    await orders.configure(concurrency_limit=10)
    await orders.push("main", each=6)
    await orders.pop_until(6)
    connection = members.connections["main"]
    async with connection.transaction():
        await connection.execute("set local track_functions = 'all'")

        assert await connection.fetchval(COUNT) == 6
        assert not await connection.fetchval(CALLS)
