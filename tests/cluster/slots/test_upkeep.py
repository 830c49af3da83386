"""Background tasks after a move. A move stores messages of many ages at once."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from queen.cluster.cluster import Cluster
from queen.engine.upkeep.loop import Upkeep
from queen.settings import Settings
from tests.cluster.moves import Members, run
from tests.cluster.places import ONE
from tests.engine.helpers import pop, push
from tests.support.clock import Clock

TASKS = Settings(retention_interval_ms=10_000, eviction_interval_ms=1_000)


@pytest.fixture
async def members(databases: dict[str, str]) -> AsyncIterator[Members]:
    async with Members.connected(databases) as members:
        yield members


@pytest.fixture
async def clocks(databases: dict[str, str]) -> AsyncIterator[list[Clock]]:
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(await Clock.install(databases[each]))
            for each in ("main", "two")
        ]


async def advance(clocks: list[Clock], seconds: float) -> None:
    for each in clocks:
        await each.advance(seconds=seconds)


async def run_tasks(cluster: Cluster, database: str) -> None:
    upkeep = Upkeep(cluster.engines[database].core, TASKS)
    while await upkeep.look():
        pass


@pytest.mark.parametrize("kind", ["retention_seconds", "completed_retention_seconds"])
async def test_retention_removes_all_messages_that_have_moved(
    cluster: Cluster, members: Members, clocks: list[Clock], kind: str
) -> None:
    main, two = cluster.engines["main"], cluster.engines["two"]
    await main.queues.configure(ONE, {"retention_enabled": True, kind: 600})
    await push(main, ONE, 1)
    await advance(clocks, 300)
    await push(main, ONE, 2)
    await pop(main, ONE, auto_ack=True, batch=10)
    slot = await members.slot(ONE)
    await run(members.move(slot, "main", "two"))
    count = "select count(*) from queen.segments where body is not null"

    for seconds, left in (400, 1), (4_000, 0):
        await advance(clocks, seconds)
        await run_tasks(cluster, "two")
        assert await members.value("two", count) == left
    assert await pop(two, ONE, group="g", subscription_mode="all") == []


async def test_evictions_remove_all_messages_that_have_moved(
    cluster: Cluster, members: Members, clocks: list[Clock]
) -> None:
    main = cluster.engines["main"]
    await main.queues.configure(ONE, {"max_wait_seconds": 600})
    await push(main, ONE, 0)
    await pop(main, ONE, auto_ack=True)
    await push(main, ONE, 1)
    await advance(clocks, 300)
    await push(main, ONE, 2)
    slot = await members.slot(ONE)
    await run(members.move(slot, "main", "two"))

    for seconds, left in (400, 1), (4_000, 2):
        await advance(clocks, seconds)
        await run_tasks(cluster, "two")
        assert await members.value("two", "select count(*) from queen.dead_letters") == left
