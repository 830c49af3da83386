"""
Measure the SDK in one process, against a server with one worker on the same machine.

Compares buffered with unbuffered single pushes, measures consuming with acks, and compares the CPU
time of a request with that of bare aiohttp for the same bytes. The last line is one JSON object.
"""

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import aiohttp
import asyncpg
import msgspec
import uvloop

from benchmarks.http import cpu_seconds
from benchmarks.load import SETTINGS, machine, payloads
from queen import Message, Queen
from queen.store.migrations import migrate
from queen.wire.messages import PushItem, PushRequest
from tests.support.postgres import Postgres
from tests.support.server import Server

BATCH: Final = 100
CONCURRENCY: Final = 10
PARTITIONS: Final = 100
BUFFER: Final = {"message_count": 500, "time_millis": 1000}


class Bench:
    """One server and one client. Each point has its own queue."""

    def __init__(self, server: Server, queen: Queen, arguments: argparse.Namespace) -> None:
        self.server = server
        self._queen = queen
        self._messages: int = arguments.messages
        self._requests: int = arguments.requests
        self._data = [msgspec.json.decode(each) for each in payloads(1_000, seed=7)]
        self._number = 0

    async def queue(self) -> str:
        self._number += 1
        name = f"client{self._number}"
        await self._queen.queue(name).create()
        return name

    async def unbuffered(self) -> float:
        """Push one by one, as a simple producer does."""
        name = await self.queue()
        count = self._requests
        began = time.perf_counter()
        for number in range(count):
            await self._queen.queue(name).push([{"data": self._data[number % 1_000]}])
        return count / (time.perf_counter() - began)

    async def buffered(self) -> float:
        """Push the same with `buffer`, including the final flush."""
        name = await self.queue()
        count = self._messages
        began = time.perf_counter()
        for number in range(count):
            await (
                self._queen.queue(name).buffer(BUFFER).push([{"data": self._data[number % 1_000]}])
            )
            if number % 500 == 0:
                await asyncio.sleep(0)  # A producer yields now and then.
        await self._queen.flush_all_buffers()
        return count / (time.perf_counter() - began)

    async def consume(self) -> float:
        """Consume until all messages are handled and acked."""
        name = await self.queue()
        each = self._messages // PARTITIONS
        items = [{"data": self._data[number % 1_000]} for number in range(each)]
        for partition in range(PARTITIONS):
            await self._queen.queue(name).partition(f"p{partition}").push(items)
        handled = 0

        async def handler(messages: list[Message[Any]]) -> None:
            nonlocal handled
            for message in messages:
                _ = message.data["order"]
            handled += len(messages)

        work = self._queen.queue(name).batch(BATCH).concurrency(CONCURRENCY)
        began = time.perf_counter()
        await work.limit(each * PARTITIONS).consume(handler)
        rate = handled / (time.perf_counter() - began)
        assert handled == each * PARTITIONS
        assert await self._queen.queue(name).pop() == []
        return rate

    async def request_cost(self) -> float:
        """CPU time of this process to push one message, as a multiple of aiohttp's."""
        name = await self.queue()
        item = {"data": self._data[0]}
        await self._queen.queue(name).push([item])
        url = f"{self.server.base_url}/api/v1/push"
        payload = msgspec.json.encode(self._data[0])
        body = msgspec.json.encode(
            PushRequest(
                items=[PushItem(queue=name, payload=msgspec.Raw(payload))],
                producer_id=f"sdk-{'0' * 32}",
                sequence=None,
            )
        ).replace(b'"producerId":"sdk-' + b"0" * 32 + b'",', b"")
        headers = {"Content-Type": "application/json"}
        queue = self._queen.queue(name)

        async def ours() -> None:
            await queue.push([item])

        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

            async def bare() -> None:
                async with session.post(url, data=body, headers=headers) as response:
                    assert response.status == 201
                    await response.read()

            await bare()
            # In turns, so that other load on the machine affects both.
            costs: dict[str, list[float]] = {"ours": [], "bare": []}
            for _ in range(10):
                costs["bare"].append(await _cpu_seconds(bare, self._requests // 10))
                costs["ours"].append(await _cpu_seconds(ours, self._requests // 10))
        return statistics.median(a / b for a, b in zip(costs["ours"], costs["bare"], strict=True))


async def _cpu_seconds(call: Callable[[], Awaitable[None]], count: int) -> float:
    began = time.process_time()
    for _ in range(count):
        await call()
    return time.process_time() - began


async def rounds(
    bench: Bench, arguments: argparse.Namespace, admin: "asyncpg.Connection[asyncpg.Record]"
) -> dict[str, float]:
    """Run every point in rounds. Returns the medians, and the median of each round's ratio."""
    points = {
        "unbuffered_rate": bench.unbuffered,
        "buffered_rate": bench.buffered,
        "consume_rate": bench.consume,
        "request_cost_vs_aiohttp": bench.request_cost,
    }
    figures: dict[str, list[float]] = {name: [] for name in points}
    for round_ in range(arguments.rounds):
        for name, point in points.items():
            await admin.execute("checkpoint")
            ours, servers = time.process_time(), cpu_seconds(bench.server.pid)
            figures[name].append(await point())
            print(
                f"round {round_ + 1} {name}: {figures[name][-1]:,.2f}; seconds of CPU: "
                f"client {time.process_time() - ours:.2f}, "
                f"server {cpu_seconds(bench.server.pid) - servers:.2f}",
                flush=True,
            )
    pairs = zip(figures["buffered_rate"], figures["unbuffered_rate"], strict=True)
    return {
        "buffered_vs_unbuffered": round(statistics.median(a / b for a, b in pairs), 1),
        "unbuffered_rate": round(statistics.median(figures["unbuffered_rate"])),
        "buffered_rate": round(statistics.median(figures["buffered_rate"])),
        "consume_rate": round(statistics.median(figures["consume_rate"])),
        "request_cost_vs_aiohttp": round(statistics.median(figures["request_cost_vs_aiohttp"]), 2),
    }


async def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    with Postgres(SETTINGS) as postgres:
        dsn = postgres.create_database("bench")
        await migrate(dsn)
        admin = await asyncpg.connect(dsn)
        version = await admin.fetchval("show server_version")
        async with (
            Server(dsn, {"LOG_LEVEL": "warning"}) as server,
            Queen(server.base_url) as queen,
        ):
            figures = await rounds(Bench(server, queen, arguments), arguments, admin)
        await admin.close()
    return {
        **figures,
        "configuration": {
            **machine(),
            "postgresql": version,
            "settings": SETTINGS,
            "rounds": arguments.rounds,
            "messages": arguments.messages,
            "requests": arguments.requests,
            "buffer": BUFFER,
            "consume": {"batch": BATCH, "concurrency": CONCURRENCY, "partitions": PARTITIONS},
            "workers": 1,
            "payload_bytes": round(statistics.mean(map(len, payloads(1000, seed=7)))),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--requests", type=int, default=1_000)
    arguments = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result = runner.run(measure(arguments))
    configuration = result["configuration"]
    print("\n" + "\n".join(f"{name}: {value}" for name, value in configuration.items()))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
