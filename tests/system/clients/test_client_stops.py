"""SIGTERM: current messages are finished, the rest is released, and buffers are flushed."""

import asyncio
from pathlib import Path

from queen import Queen
from tests.support.server import Server, until
from tests.system.clients.client_processes import Client
from tests.system.clients.client_worker import Task


async def test_a_terminated_consumer_finishes_releases_and_flushes(
    dsn: str, tmp_path: Path
) -> None:
    async with Server(dsn) as server, Queen(server.base_url) as queen:
        work = queen.queue("work")
        await work.config({"leaseTime": 300}).create()
        for partition in "ab":
            items = [
                {"data": f"{partition}{n}", "transactionId": f"{partition}{n}"} for n in range(5)
            ]
            await work.partition(partition).push(items)
        log = str(tmp_path / "log")
        client = Client(Task(role="slow", urls=[server.base_url], log=log))
        await client.start()

        async def has_begun() -> bool:
            return len(client.marked("h")) == 2

        await until(has_begun, seconds=30)
        code = await client.terminate()
        rest = await work.batch(10).partitions(2).pop()
        made = await queen.queue("made").batch(10).pop()

    assert code == 0
    assert sorted(client.marked("h")) == sorted(client.marked("a")) == ["a0", "b0"]
    # They were released, and did not expire: the lease lasts five minutes.
    assert sorted((each.data, each.attempt) for each in rest) == sorted(
        (f"{partition}{n}", 1) for partition in "ab" for n in range(1, 5)
    )
    assert sorted(each.data for each in made) == ["a0", "b0"]


async def test_a_second_signal_ends_it_immediately(dsn: str, tmp_path: Path) -> None:
    async with Server(dsn) as server, Queen(server.base_url) as queen:
        await queen.queue("work").push([{"data": 1, "transactionId": "t"}])
        log = str(tmp_path / "log")
        client = Client(Task(role="slow", urls=[server.base_url], log=log))
        await client.start()

        async def has_begun() -> bool:
            return len(client.marked("h")) == 1

        await until(has_begun, seconds=30)
        first = asyncio.create_task(client.terminate())
        await asyncio.sleep(0.1)  # Two signals at the same time could arrive as one.
        code = await client.terminate(seconds=10)
        await first
        (again,) = await queen.queue("work").pop()

    assert code == 0
    assert client.marked("a") == []
    assert again.attempt == 1
