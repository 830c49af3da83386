"""Three servers under load, one of which is repeatedly killed."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from queen import Message, Queen
from tests.support.server import Server, until


async def run(dsn: str, *, seconds: float) -> None:
    servers = [Server(dsn) for _ in range(3)]
    try:
        await servers[0].start()  # The first server creates the tables.
        await asyncio.gather(*(server.start() for server in servers[1:]))
        await _under_load(servers, seconds)
    finally:
        for server in servers:
            await server.close()


async def _under_load(servers: list[Server], seconds: float) -> None:
    urls = [server.base_url for server in servers]
    stop = asyncio.Event()
    handled: Counter[str] = Counter()
    failures: list[BaseException] = []
    async with Queen(urls, retry_delay_millis=200, retry_attempts=10) as queen:
        work = queen.queue("work")
        await work.config({"leaseTime": 10, "retryDelay": 0, "retryLimit": 100}).create()

        async def handle(message: Message[Any]) -> None:
            handled[message.data] += 1

        def failed(message: Message[Any], error: BaseException) -> None:
            failures.append(error)

        consumption = (
            work.batch(10).each().concurrency(8).renew_lease().on_error(failed).start(handle)
        )

        async def produce(name: int) -> int:
            number = 0
            while not stop.is_set():
                await work.partition(str(name)).push([{"data": f"{name}-{number}"}])
                number += 1
            return number

        producers = [asyncio.create_task(produce(name)) for name in range(4)]
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        turn = 0
        while loop.time() < end:
            await asyncio.sleep(2)
            server = servers[turn % 3]
            turn += 1
            server.kill()
            await server.start()
        stop.set()
        counts = await asyncio.gather(*producers)

        async def is_all_handled() -> bool:
            return len(handled) == sum(counts)

        await until(is_all_handled, seconds=60)
        await consumption.stop()
        expected = {f"{name}-{n}" for name, count in enumerate(counts) for n in range(count)}
        left = await work.batch(10).partitions(4).pop()

    assert sum(counts) > 50 * seconds / 10
    assert failures == []
    assert handled.keys() == expected
    assert {name: count for name, count in handled.items() if count > 1} == {}
    assert left == []


@pytest.mark.timeout(180)
async def test_no_error_reaches_a_handler_and_no_push_is_lost(dsn: str) -> None:
    await run(dsn, seconds=6)


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_minute_of_kills_loses_no_push(dsn: str) -> None:
    await run(dsn, seconds=60)
