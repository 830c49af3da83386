"""
What open dashboards cost the server: its rate of pushes with fifty of them and with none, in turns.

Each is the overview as a browser has it open while messages move: a WebSocket, and the requests
that the page makes every five seconds and every fifteen. They run in a process of their own, which
shares the machine with the server: what the browsers would cost elsewhere is in the figure. The
last line is one JSON object.
"""

import argparse
import asyncio
import json
import random
import statistics
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import uvloop

from benchmarks.http import Bench, cpu_seconds
from benchmarks.http_load import Push, connections
from benchmarks.load import SETTINGS, machine
from queen.engine.engine import Engine
from queen.store.migrations import migrate
from tests.postgres import Postgres
from tests.server.server import Server

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

BAR = 0.98
QUEUES = 200
CONNECTIONS = {1: 256, 100: 32}
NOW = (
    "/resources/overview",
    "/resources/queues?sort=-oldestAgeSeconds&limit=20",
    "/resources/queues?sort=-deadLetters&limit=20",
    "/status/buffers",
)
"""What the overview asks for again while messages move."""
PAST = (
    "/analytics/series?metric=pushed,popped,acked,nacked,deadLettered,depth,lag,oldestAgeSeconds,"
    "waitMillis,processingMillis"
)
"""Its charts."""
SHARED_SECONDS = 2
NOW_SECONDS = 5.0
PAST_SECONDS = 15.0


async def open_dashboards(port: int, count: int) -> None:
    """Until this process is ended."""
    base = f"http://127.0.0.1:{port}"

    async def ask_again(paths: tuple[str, ...], seconds: float) -> None:
        asked = [
            f"GET /api/v1{path} HTTP/1.1\r\nhost: localhost\r\naccept-encoding: gzip\r\n"
            f"cache-control: max-age={SHARED_SECONDS}\r\n\r\n"
            for path in paths
        ]
        await asyncio.sleep(random.uniform(0, seconds))
        (line,) = await connections(port, 1)
        while True:
            for each in asked:
                answer = await line.ask(each.encode())
                if answer[9:12] != b"200":
                    raise RuntimeError(answer[:500].decode())
            await asyncio.sleep(seconds)

    async def listen(session: aiohttp.ClientSession) -> None:
        async with session.ws_connect(f"{base}/ws/dashboard") as socket:
            events = ["message.processed", "system.stats", "operation.updated"]
            await socket.send_json({"subscribe": events})
            async for _ in socket:
                pass
        raise RuntimeError("the server closed a WebSocket")

    async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(listen(session))
            group.create_task(ask_again(NOW, NOW_SECONDS))
            group.create_task(ask_again((PAST,), PAST_SECONDS))


@asynccontextmanager
async def dashboards(port: int, count: int) -> "AsyncGenerator[None]":
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.dashboards", "--open", str(port), "--count", str(count)
    )
    try:
        await asyncio.sleep(2)  # Their sockets are open, and the first answers there.
        yield
        if process.returncode is not None:
            raise RuntimeError(f"the dashboards ended with {process.returncode}")
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    with Postgres(SETTINGS) as postgres:
        dsn = postgres.create_database("bench")
        await migrate(dsn)
        async with Server(dsn) as server, await Engine.open(dsn) as engine:
            bench = Bench(server, engine, arguments.seconds)
            for number in range(QUEUES):
                item = {"queue": f"shop{number}", "payload": number}
                await server.post("/push", {"items": [item]})

            async def push(batch: int) -> float:
                queue = bench.queue()
                await server.post("/push", {"items": [{"queue": queue, "payload": 0}]})
                task = Push(
                    port=server.port,
                    queue=queue,
                    batch=batch,
                    connections=CONNECTIONS[batch],
                    seconds=arguments.seconds,
                )
                return (await bench.load(task))["rate"]

            async with dashboards(server.port, arguments.count):
                before = cpu_seconds(server.pid)
                await asyncio.sleep(15)
                idle_cpu = (cpu_seconds(server.pid) - before) / 15
            print(f"{arguments.count} dashboards of an idle server: {idle_cpu:.3f} of a core")
            ratios: dict[int, list[float]] = {batch: [] for batch in CONNECTIONS}
            for round_ in range(arguments.rounds):
                for batch, found in ratios.items():
                    rates: dict[bool, float] = {}
                    for is_watched in (round_ % 2 == 0, round_ % 2 == 1):
                        if is_watched:
                            async with dashboards(server.port, arguments.count):
                                rates[True] = await push(batch)
                        else:
                            await asyncio.sleep(2)
                            rates[False] = await push(batch)
                    found.append(rates[True] / rates[False])
                    print(
                        f"round {round_ + 1} push {batch}: {rates[True]:,.0f} msg/s watched,"
                        f" {rates[False]:,.0f} alone, {found[-1]:.3f}",
                        flush=True,
                    )
    result: dict[str, Any] = {"bench": "dashboards", **machine(), "bar": BAR}
    result |= {"count": arguments.count, "rounds": arguments.rounds, "seconds": arguments.seconds}
    result["idle_cpu"] = round(idle_cpu, 3)
    for batch, found in ratios.items():
        result[f"push_{batch}_ratio"] = round(statistics.median(found), 3)
        result[f"push_{batch}_rounds"] = [round(each, 3) for each in found]
    result["is_met"] = all(result[f"push_{batch}_ratio"] >= BAR for batch in ratios)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--open", type=int, metavar="PORT", help="be the dashboards of a server")
    arguments = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if arguments.open is not None:
            runner.run(open_dashboards(arguments.open, arguments.count))
            return
        result = runner.run(measure(arguments))
    print(json.dumps(result))
    sys.exit(0 if result["is_met"] else 1)


if __name__ == "__main__":
    main()
