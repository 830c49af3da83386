"""
What open dashboards cost the server: its rate of pushes with fifty of them and with none, in turns.

Each is the overview as a browser has it open while messages move: a WebSocket, and the requests
that the page makes every five seconds and every fifteen. They run in a process of their own, which
shares the machine with the server: what the browsers would cost elsewhere is in the rates. What
they cost the server alone is the CPU that it spends on a message, without them and with them. The
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
SHARED_SECONDS: dict[tuple[str, ...], int] = {NOW: 4, (PAST,): 10}
"""How old an answer may be."""
NOW_SECONDS = 5.0
PAST_SECONDS = 15.0
IDLE_SECONDS = 30


async def open_dashboards(port: int, count: int) -> None:
    """Until this process is ended."""
    base = f"http://127.0.0.1:{port}"

    async def ask_again(paths: tuple[str, ...], seconds: float) -> None:
        asked = [
            f"GET /api/v1{path} HTTP/1.1\r\nhost: localhost\r\naccept-encoding: gzip\r\n"
            f"cache-control: max-age={SHARED_SECONDS[paths]}\r\n\r\n"
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

            async def push(batch: int) -> tuple[float, float]:
                """Messages a second, and those for a second of the server's CPU."""
                queue = bench.queue()
                await server.post("/push", {"items": [{"queue": queue, "payload": 0}]})
                task = Push(
                    port=server.port,
                    queue=queue,
                    batch=batch,
                    connections=CONNECTIONS[batch],
                    seconds=arguments.seconds,
                )
                before = cpu_seconds(server.pid)
                rate: float = (await bench.load(task))["rate"]
                spent = cpu_seconds(server.pid) - before
                return rate, rate * arguments.seconds / spent

            async def idle() -> float:
                """What the server takes of a core while nobody pushes."""
                before = cpu_seconds(server.pid)
                await asyncio.sleep(IDLE_SECONDS)
                return (cpu_seconds(server.pid) - before) / IDLE_SECONDS

            idle_cpu_alone = await idle()
            async with dashboards(server.port, arguments.count):
                idle_cpu = await idle()
            print(
                f"an idle server takes {idle_cpu_alone:.4f} of a core, and {idle_cpu:.4f} with"
                f" {arguments.count} dashboards",
                flush=True,
            )
            ratios: dict[int, list[tuple[float, float]]] = {batch: [] for batch in CONNECTIONS}
            for round_ in range(arguments.rounds):
                for batch, found in ratios.items():
                    rates: dict[bool, tuple[float, float]] = {}
                    for is_watched in (round_ % 2 == 0, round_ % 2 == 1):
                        if is_watched:
                            async with dashboards(server.port, arguments.count):
                                rates[True] = await push(batch)
                        else:
                            await asyncio.sleep(2)
                            rates[False] = await push(batch)
                    (rate, own), (rate_alone, own_alone) = rates[True], rates[False]
                    found.append((rate / rate_alone, own / own_alone))
                    print(
                        f"round {round_ + 1} push {batch}: {rate:,.0f} msg/s watched,"
                        f" {rate_alone:,.0f} alone, {found[-1][0]:.3f}; for a second of the"
                        f" server's CPU {own:,.0f} and {own_alone:,.0f}, {found[-1][1]:.3f}",
                        flush=True,
                    )
    result: dict[str, Any] = {"bench": "dashboards", **machine(), "bar": BAR}
    result |= {"count": arguments.count, "rounds": arguments.rounds, "seconds": arguments.seconds}
    result |= {"idle_cpu": round(idle_cpu, 4), "idle_cpu_alone": round(idle_cpu_alone, 4)}
    for batch, found in ratios.items():
        result[f"push_{batch}_ratio"] = round(statistics.median(each for each, _ in found), 3)
        result[f"push_{batch}_cpu_ratio"] = round(statistics.median(own for _, own in found), 3)
        result[f"push_{batch}_rounds"] = [round(each, 3) for each, _ in found]
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
