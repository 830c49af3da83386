"""PostgreSQL is stopped under load and the server is killed: confirmed pushes are stored."""

import asyncio
import contextlib
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from queen.store.migrations import migrate
from tests.support.postgres import Postgres
from tests.support.server import Server, until

PRODUCERS = 20


class Producer:
    """Pushes to its own partition, one request after the other, and records the responses."""

    def __init__(self, server: Server, number: int, per_second: float) -> None:
        self.server = server
        self.partition = f"p{number}"
        self.kind = ("producer", "transaction", "plain")[number % 3]
        self.per_second = per_second
        self.accepted: list[int] = []
        self.doubtful: set[int] = set()
        self.statuses: dict[int, int] = {}
        self.is_stopped = False

    async def run(self) -> None:
        n = 0
        next_at = time.monotonic()
        while not self.is_stopped:
            n += 1
            if await self._push(n):
                self.accepted.append(n)
            else:
                self.doubtful.add(n)
            next_at += 1 / self.per_second
            await asyncio.sleep(max(0.0, next_at - time.monotonic()))

    async def _push(self, n: int) -> bool:
        """
        Push until it is accepted. False if the outcome is unknown and a repeat could be a
        duplicate.
        """
        body: dict[str, Any] = {
            "items": [{"queue": "orders", "partition": self.partition, "payload": n}]
        }
        if self.kind == "producer":
            body |= {"producerId": self.partition, "sequence": n}
        elif self.kind == "transaction":
            body["items"][0]["transactionId"] = f"{self.partition}-{n}"
        while True:
            try:
                reply = await self.server.post("/push", body)
            except aiohttp.ClientConnectorError:
                await asyncio.sleep(0.05)
                continue  # No server received it.
            except (aiohttp.ClientError, TimeoutError):
                if self.kind == "plain":
                    return False
                await asyncio.sleep(0.05)
                continue
            self.statuses[reply.status] = self.statuses.get(reply.status, 0) + 1
            if reply.status in (201, 202):
                return True
            assert reply.status == 503, reply
            if reply.body["applied"] is None and self.kind == "plain":
                return False
            await asyncio.sleep(0.05)


def kill_all(server: Server) -> None:
    """Kill the server and all its processes immediately."""
    pid = server.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    server.kill()
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(child), signal.SIGKILL)


async def relaunched(server: Server) -> None:
    """Start the server on its old port, with or without its database."""
    server.launch()

    async def is_alive() -> bool:
        try:
            return (await server.get("/livez")).status == 200
        except aiohttp.ClientError:
            return False

    await until(is_alive, seconds=60)


async def drained(server: Server) -> None:
    async def is_drained() -> bool:
        reply = await server.get("/status/buffers")
        return reply.status == 200 and not reply.body["buffering"]

    await until(is_drained, seconds=60)


async def stored(producers: list[Producer], *, more: int) -> None:
    """Wait until `more` further pushes went directly to the database."""

    def count() -> int:
        return sum(each.statuses.get(201, 0) for each in producers)

    wanted = count() + more

    async def are_stored() -> bool:
        return count() >= wanted

    await until(are_stored, seconds=60)


async def delivered(server: Server) -> dict[str, list[int]]:
    """All messages by partition, in delivery order."""
    found: dict[str, list[int]] = {}
    query = {"batch": 10_000, "partitions": 100, "autoAck": True}
    while (reply := await server.post("/pop/queue/orders", query)).status == 200:
        for message in reply.body["messages"]:
            found.setdefault(message["partition"], []).append(message["data"])
    assert reply.status == 204, reply
    return found


async def run(
    folder: Path, *, outages: int, seconds: float, per_second: float, minimum: dict[int, int]
) -> None:
    seed = random.SystemRandom().randrange(10**9)
    rng = random.Random(seed)
    print(f"seed {seed}", flush=True)
    with Postgres() as postgres:
        dsn = postgres.create_database("queen")
        await migrate(dsn)
        environment = {"FILE_BUFFER_DIR": str(folder / "buffer"), "NUM_WORKERS": "2"}
        async with Server(dsn, environment) as server:
            producers = [Producer(server, n, per_second / PRODUCERS) for n in range(PRODUCERS)]
            tasks = [asyncio.create_task(each.run()) for each in producers]
            await asyncio.sleep(rng.uniform(0.3, 1.0))
            for _ in range(outages):
                await asyncio.to_thread(rng.choice((postgres.stop, postgres.kill)))
                until_killed = seconds * rng.uniform(0.3, 0.6)
                await asyncio.sleep(until_killed)
                kill_all(server)
                await relaunched(server)
                await asyncio.sleep(seconds - until_killed)
                await asyncio.to_thread(postgres.start)
                # In the middle of the replay.
                await asyncio.sleep(rng.uniform(0.0, 0.5))
                kill_all(server)
                await relaunched(server)
                await drained(server)
                await stored(producers, more=round(1.2 * per_second))
            for each in producers:
                each.is_stopped = True
            await asyncio.gather(*tasks)
            await drained(server)
            found = await delivered(server)
        statuses: dict[int, int] = {}
        for each in producers:
            for status, count in each.statuses.items():
                statuses[status] = statuses.get(status, 0) + count
            given = found.get(each.partition, [])
            surely = [n for n in given if n not in each.doubtful]
            assert surely == each.accepted, each.partition
            assert len(set(given)) == len(given), each.partition
            assert each.kind == "plain" or not each.doubtful
        print({"seed": seed, **statuses}, flush=True)
        # Below these minimums, the check proves nothing.
        short = {status: n for status, n in minimum.items() if statuses.get(status, 0) < n}
        assert not short, f"invalid: {statuses}"


@pytest.mark.timeout(120)
async def test_an_outage_with_a_kill_loses_and_duplicates_no_message(tmp_path: Path) -> None:
    await run(tmp_path, outages=1, seconds=3, per_second=300, minimum={201: 50, 202: 200})


@pytest.mark.slow
@pytest.mark.timeout(1_200)
async def test_ten_outages_of_thirty_seconds_lose_and_duplicate_no_message(tmp_path: Path) -> None:
    await run(
        tmp_path, outages=10, seconds=30, per_second=1_000, minimum={201: 10_000, 202: 50_000}
    )
