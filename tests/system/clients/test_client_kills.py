"""
Producers and consumers are killed and terminated at random.

Acknowledged pushes are never lost. Only messages that a killed consumer had handled but not acked
are handled twice. SIGTERM causes no redelivery.
"""

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest

from queen import Queen
from tests.support.server import Server, until
from tests.system.clients.client_processes import Client
from tests.system.clients.client_worker import Task

PRODUCERS = {"a": "producer", "b": "buffering"}


class Load:
    """Running and ended clients, and their logs."""

    def __init__(self, url: str, folder: Path, count: int) -> None:
        self._url = url
        self._folder = folder
        self._count = count
        self.everybody: list[Client] = []
        self.producers: dict[str, Client] = {}
        self.consumers: list[Client] = []

    async def start_producer(self, name: str) -> None:
        """
        Continue after the last number that is certainly stored. A repeated push is a duplicate.
        """
        stored = [
            int(number)
            for each in self.everybody
            if each.task.name == name
            for number in each.marked("+")
        ]
        task = self._task(PRODUCERS[name], name=name, first=max(stored, default=0))
        self.producers[name] = await self._started(task)

    async def start_consumer(self) -> None:
        self.consumers.append(await self._started(self._task("consumer")))

    def _task(self, role: str, *, name: str = "", first: int = 0) -> Task:
        log = str(self._folder / f"{len(self.everybody)}.log")
        return Task(
            role=role,  # pyright: ignore[reportArgumentType] - one of them
            urls=[self._url],
            log=log,
            name=name,
            first=first,
            last=self._count,
        )

    async def _started(self, task: Task) -> Client:
        client = Client(task)
        self.everybody.append(client)
        await client.start()
        return client

    async def fault(self, chance: random.Random) -> None:
        """End one client, and start another in its place."""
        running = [name for name, each in self.producers.items() if each.is_running]
        is_kill = chance.random() < 0.5
        if running and chance.random() < 0.5:
            name = chance.choice(running)
            await self._end(self.producers[name], is_kill)
            await self.start_producer(name)
        else:
            client = self.consumers.pop(chance.randrange(len(self.consumers)))
            await self._end(client, is_kill)
            await self.start_consumer()

    async def _end(self, client: Client, is_kill: bool) -> None:
        await client.ready()
        if is_kill:
            await client.kill()
        else:
            assert await client.terminate() == 0

    def handled(self) -> "Counter[str]":
        return Counter(id_ for each in self.everybody for id_ in each.marked("h"))

    async def kill_all(self) -> None:
        for each in self.everybody:
            if each.is_running:
                await each.kill()

    def judge(self) -> int:
        """
        Check that every message was handled, and return how many were redelivered after a kill.
        """
        handled = self.handled()
        pushed = {f"{name}-{n}" for name in PRODUCERS for n in range(self._count)}
        assert handled.keys() == pushed
        acked = Counter(id_ for each in self.everybody for id_ in each.marked("a"))
        assert max(acked.values()) == 1
        unacked_by_a_kill = Counter(
            id_
            for each in self.everybody
            if each.was_killed
            for id_ in set(each.marked("h")) - set(each.marked("a"))
        )
        twice = {id_: count - 1 for id_, count in handled.items() if count > 1}
        unexplained = {id_ for id_, count in twice.items() if unacked_by_a_kill[id_] < count}
        assert unexplained == set()
        return sum(twice.values())


async def run(server: Server, folder: Path, *, count: int, faults: int, pause: float) -> int:
    chance = random.Random(7)
    load = Load(server.base_url, folder, count)
    async with Queen(server.base_url) as queen:
        await (
            queen.queue("work")
            .config({"leaseTime": 5, "retryLimit": 100, "retryDelay": 0})
            .create()
        )
    try:
        for name in PRODUCERS:
            await load.start_producer(name)
        for _ in range(3):
            await load.start_consumer()
        for _ in range(faults):
            await load.fault(chance)
            await asyncio.sleep(chance.uniform(0, pause))

        async def is_over() -> bool:
            for name, producer in load.producers.items():
                if not producer.is_running and f"+ {count}" not in producer.lines():
                    await load.start_producer(name)
            return len(load.handled()) == len(PRODUCERS) * count

        await until(is_over, seconds=120)
        for consumer in load.consumers:
            assert await consumer.terminate() == 0
        return load.judge()
    finally:
        await load.kill_all()


@pytest.mark.nightly
async def test_a_few_kills_lose_no_message(dsn: str, tmp_path: Path) -> None:
    async with Server(dsn) as server:
        await run(server, tmp_path, count=1_500, faults=6, pause=0.3)


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_a_hundred_kills_lose_no_message(dsn: str, tmp_path: Path) -> None:
    async with Server(dsn) as server:
        twice = await run(server, tmp_path, count=50_000, faults=100, pause=1.0)
    print(f"{twice} of 100,000 messages were handled twice, all by kills between work and ack")
