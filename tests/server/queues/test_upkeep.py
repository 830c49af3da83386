"""Effects of background tasks, as a client of a server sees them."""

from queen.engine.upkeep.loop import DUTIES
from tests.support.calls import configure, data, pop, push
from tests.support.clock import Clock
from tests.support.server import Server, until

QUICK = {
    "RETENTION_INTERVAL": "100",
    "EVICTION_INTERVAL": "100",
    "QUEEN_UPKEEP_LOOK_SECONDS": "0.1",
}
"""Settings for frequent background tasks."""


async def left(server: Server, clock: Clock, queue: str, *wanted: object) -> None:
    """Wait until the queue has exactly these payloads."""

    async def are_left() -> bool:
        await clock.advance(seconds=0.2)
        body = (await server.get("/messages", queue=queue)).body
        return data(body["messages"])[::-1] == [*wanted]

    await until(are_left, seconds=15)


async def test_retention_deletes_old_and_completed_messages(dsn: str, clock: Clock) -> None:
    async with Server(dsn, QUICK) as server:
        await configure(server, "aged", retentionEnabled=True, retentionSeconds=60)
        await configure(server, "done", retentionEnabled=True, completedRetentionSeconds=60)
        await configure(server, "kept", retentionSeconds=60, completedRetentionSeconds=60)
        for queue in ("aged", "done", "kept"):
            await push(server, queue, 1)
            await push(server, queue, 2)
            assert data(await pop(server, queue, autoAck=True)) == [1]
        await clock.advance(seconds=61)
        await push(server, "aged", 3)

        await left(server, clock, "aged", 3)
        await left(server, clock, "done", 2)
        await left(server, clock, "kept", 1, 2)


async def test_max_wait_time_dead_letters_messages_that_wait_too_long(
    dsn: str, clock: Clock
) -> None:
    async with Server(dsn, QUICK) as server:
        await configure(server, "q", maxWaitTimeSeconds=60)
        await push(server, "q", 1)
        await pop(server, "q", consumerGroup="g", autoAck=True)
        await push(server, "q", 2)
        await clock.advance(seconds=61)

        async def is_evicted() -> bool:
            await clock.advance(seconds=0.2)
            letters = (await server.get("/dlq", queue="q")).body["messages"]
            return [(each["data"], each["reason"]) for each in letters] == [(2, "evicted")]

        await until(is_evicted, seconds=15)
        assert await pop(server, "q", consumerGroup="g") == []


async def test_partition_retention_deletes_an_empty_partition(dsn: str, clock: Clock) -> None:
    async with Server(dsn, QUICK) as server:
        await configure(
            server,
            "q",
            retentionEnabled=True,
            retentionSeconds=60,
            partitionRetentionSeconds=100_000,
        )
        (before,) = await push(server, "q", 1)
        await clock.advance(seconds=61)
        await left(server, clock, "q")
        await clock.advance(seconds=100_000)

        async def is_removed() -> bool:
            await clock.advance(seconds=0.2)
            return not (await server.get("/resources/queues/q/partitions")).body["partitions"]

        await until(is_removed, seconds=15)
        (after,) = await push(server, "q", 2)
        assert after["id"] != before["id"]
        assert data(await pop(server, "q")) == [2]


async def test_upkeep_reports_its_work(dsn: str, clock: Clock) -> None:
    async with Server(dsn, QUICK) as server:

        async def are_done() -> bool:
            duties = (await server.get("/system/upkeep")).body["duties"]
            return len(duties) == len(DUTIES) and all(each["lastSuccessAt"] for each in duties)

        await until(are_done, seconds=15)
        (duty, *_) = (await server.get("/system/upkeep")).body["duties"]
        assert (duty["name"], duty["error"], duty["lagSeconds"]) == ("audit", None, 0)
