"""
What open dashboards cost the server: its rate of pushes with fifty of them and with none, in turns.

Each is the overview as a browser has it open while messages move: a WebSocket, and the requests
that the page makes every five seconds and every fifteen. They run in a process of their own, which
shares the machine with the server: what the browsers would cost elsewhere is in the rates. What
they cost the server alone is the CPU that it spends on a message, without them and with them.

Messages are pushed without a break, and dashboards come and go beside it: a load that begins anew
each time differs by more than they cost. Even so the speed of a shared machine changes by more from
one second to the next, so the error of the medians is told. Beside them stands the share of the
server's time that dashboards have while it pushes as fast as it can, which is found by samples of
its stack (py-spy): a slow second is slow for all that is in it. That is what they cost where the
server is what limits pushes: it must be busy. What they ask of PostgreSQL is in the rates alone, so
the bar is met only if both say so. The last line is one JSON object.
"""

import argparse
import asyncio
import json
import math
import random
import re
import statistics
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import Counter
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import aiohttp
import uvloop

from benchmarks.http import cpu_seconds
from benchmarks.http_load import connections, pushing
from benchmarks.load import SETTINGS, machine, payloads
from queen.store.migrations import migrate
from tests.postgres import Postgres
from tests.server.server import Server

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

BAR = 0.98
QUEUES = 200
CONNECTIONS = {1: 256, 100: 32}
PARTITIONS = 16
TURNS = 4
"""Different requests of a connection."""
NOW = ("/resources/overview?worst=20",)
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
REQUESTS_A_SECOND = len(NOW) / NOW_SECONDS + 1 / PAST_SECONDS
"""Of a dashboard."""
DASHBOARDS = re.compile(r"queen/server/(dashboards|answers|pulse)\.py|queen/server/routes/")
"""What is done for them alone."""
PUSHES = re.compile(r"queen/server/verbs/|queen/(engine|store|wire)/")
SAMPLED_SECONDS = 45
SAMPLES_A_SECOND = 200
IDLE_SECONDS = 30
WARM_SECONDS = 3
LEAST_BUSY = 0.9
"""Of a core: with less, something else than the server limits pushes."""
SETTLE_SECONDS = 0.5
"""After dashboards have gone; once they have come, until no answer is from before."""


async def be_dashboards(port: int, count: int) -> None:
    """Open them all and close them again, whenever a line comes in."""
    while sys.stdin.readline():
        connector = aiohttp.TCPConnector(limit=0)
        async with (
            asyncio.TaskGroup() as group,
            aiohttp.ClientSession(connector=connector) as session,
        ):
            opened = [asyncio.Event() for _ in range(count)]
            tasks = [group.create_task(_listen(session, port, each)) for each in opened]
            for _ in opened:
                tasks.append(group.create_task(_ask_again(port, NOW, NOW_SECONDS)))
                tasks.append(group.create_task(_ask_again(port, (PAST,), PAST_SECONDS)))
            for each in opened:
                await each.wait()
            print("opened", flush=True)
            await asyncio.to_thread(sys.stdin.readline)
            for task in tasks:
                task.cancel()
        print("closed", flush=True)


async def _ask_again(port: int, paths: tuple[str, ...], seconds: float) -> None:
    asked = [
        f"GET /api/v1{path} HTTP/1.1\r\nhost: localhost\r\naccept-encoding: gzip\r\n"
        f"cache-control: max-age={SHARED_SECONDS[paths]}\r\n\r\n"
        for path in paths
    ]
    await asyncio.sleep(random.uniform(0, seconds))
    (line,) = await connections(port, 1)
    try:
        while True:
            for each in asked:
                answer = await line.ask(each.encode())
                if answer[9:12] != b"200":
                    raise RuntimeError(answer[:500].decode())
            await asyncio.sleep(seconds)
    finally:
        line.transport.close()


async def _listen(session: aiohttp.ClientSession, port: int, opened: asyncio.Event) -> None:
    async with session.ws_connect(f"http://127.0.0.1:{port}/ws/dashboard") as socket:
        events = ["message.processed", "system.stats", "operation.updated"]
        await socket.send_json({"subscribe": events})
        await socket.receive()
        opened.set()
        async for _ in socket:
            pass
    raise RuntimeError("the server closed a WebSocket")


class Dashboards:
    """All of them, in a process of their own."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @classmethod
    @asynccontextmanager
    async def start(cls, port: int, count: int) -> "AsyncGenerator[Dashboards]":
        command = ("-m", "benchmarks.dashboards", "--be", str(port), "--count", str(count))
        process = await asyncio.create_subprocess_exec(
            sys.executable, *command, stdin=PIPE, stdout=PIPE
        )
        try:
            yield cls(process)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()

    @asynccontextmanager
    async def open(self) -> "AsyncGenerator[None]":
        await self._tell("opened")
        yield
        await self._tell("closed")

    async def _tell(self, expected: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"\n")
        if (await self._process.stdout.readline()).decode().strip() != expected:
            raise RuntimeError("the dashboards ended")


class Load:
    """Pushes without a break, over connections that each wait for their last answer."""

    def __init__(self, server: Server, batch: int) -> None:
        self._server = server
        self.batch = batch
        self._pushed = 0

    @asynccontextmanager
    async def run(self) -> "AsyncGenerator[None]":
        lines = await connections(self._server.port, CONNECTIONS[self.batch])
        messages = payloads(TURNS * self.batch, seed=7)
        bodies = [messages[turn * self.batch :][: self.batch] for turn in range(TURNS)]

        async def push(number: int) -> None:
            queue = f"load{self.batch}"
            asked = [pushing(queue, number % PARTITIONS, body) for body in bodies]
            while True:
                for each in asked:
                    await lines[number].ask(each)
                    self._pushed += self.batch

        pushers = [asyncio.create_task(push(number)) for number in range(len(lines))]
        yield
        for each in pushers:
            each.cancel()
        ended, _ = await asyncio.wait(pushers)
        for line in lines:
            line.transport.close()
        for each in ended:
            if not each.cancelled():
                each.result()
        if any(line.failed for line in lines):
            raise RuntimeError("pushes were refused")

    async def rate(self, seconds: float) -> tuple[float, float]:
        """Messages a second, and those for a second of the server's CPU."""
        pushed, spent, began = self._pushed, cpu_seconds(self._server.pid), time.perf_counter()
        await asyncio.sleep(seconds)
        count = self._pushed - pushed
        took = time.perf_counter() - began
        return count / took, count / (cpu_seconds(self._server.pid) - spent)


async def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    with Postgres(SETTINGS) as postgres:
        dsn = postgres.create_database("bench")
        await migrate(dsn)
        async with (
            Server(dsn) as server,
            Dashboards.start(server.port, arguments.count) as dashboards,
        ):
            for number in range(QUEUES):
                item = {"queue": f"shop{number}", "payload": number}
                await server.post("/push", {"items": [item]})

            async def idle() -> float:
                """What the server takes of a core while nobody pushes."""
                before = cpu_seconds(server.pid)
                await asyncio.sleep(IDLE_SECONDS)
                return (cpu_seconds(server.pid) - before) / IDLE_SECONDS

            idle_cpu_alone = await idle()
            async with dashboards.open():
                idle_cpu = await idle()
            print(
                f"an idle server takes {idle_cpu_alone:.4f} of a core, and {idle_cpu:.4f} with"
                f" {arguments.count} dashboards",
                flush=True,
            )
            ratios: dict[int, list[tuple[float, float]]] = {}
            times: dict[int, Times] = {}
            for batch in CONNECTIONS:
                load = Load(server, batch)
                async with load.run():
                    await asyncio.sleep(WARM_SECONDS)
                    ratios[batch] = await in_turns(load, dashboards, arguments)
                    async with dashboards.open():
                        times[batch] = await sampled(server, load)
                    print(f"push {batch}: {times[batch]}", flush=True)
    result: dict[str, Any] = {"bench": "dashboards", **machine(), "bar": BAR}
    result |= {"count": arguments.count, "rounds": arguments.rounds, "seconds": arguments.seconds}
    result |= {"idle_cpu": round(idle_cpu, 4), "idle_cpu_alone": round(idle_cpu_alone, 4)}
    for batch, found in ratios.items():
        for name, each in zip(("ratio", "cpu_ratio"), zip(*found, strict=True), strict=True):
            result[f"push_{batch}_{name}"] = round(statistics.median(each), 3)
            # Of a median, where they are spread as by many small causes.
            error = 1.25 * statistics.stdev(each) / math.sqrt(len(each))
            result[f"push_{batch}_{name}_error"] = round(error, 3)
    # A request of a dashboard takes of HTTP what that of one message does.
    asked = arguments.count * REQUESTS_A_SECOND
    heard = asked * times[1].common / (times[1].requests + asked)
    shares = {batch: (each.dashboards + heard) / each.busy for batch, each in times.items()}
    for batch, share in shares.items():
        samples = SAMPLED_SECONDS * SAMPLES_A_SECOND * times[batch].busy
        result |= {
            f"push_{batch}_share": round(share, 4),
            f"push_{batch}_share_error": round(math.sqrt(share / samples), 4),
            f"push_{batch}_busy": round(times[batch].busy, 3),
            f"push_{batch}_requests": round(times[batch].requests),
        }
    result["is_met"] = all(
        share <= 1 - BAR
        and times[batch].busy >= LEAST_BUSY
        and result[f"push_{batch}_ratio"] >= BAR
        for batch, share in shares.items()
    )
    return result


class Times(NamedTuple):
    """Of a core of the server, while it pushes as fast as it can and dashboards are open."""

    busy: float
    dashboards: float
    """For them alone."""
    common: float
    """Of HTTP and the event loop: for all requests, a second."""
    requests: float
    """That pushed, a second."""


def by_purpose(path: Path) -> Counter[str]:
    """Samples of the stack; what is neither for dashboards nor for pushes is common."""
    found: Counter[str] = Counter()
    for line in path.read_text().splitlines():
        stack, _, count = line.rpartition(" ")
        if DASHBOARDS.search(stack):
            found["dashboards"] += int(count)
        elif PUSHES.search(stack):
            found["pushes"] += int(count)
        else:
            found["common"] += int(count)
    return found


async def sampled(server: Server, load: Load) -> Times:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "stacks")
        options = ["--format", "raw", "--rate", str(SAMPLES_A_SECOND), "--output", path]
        process = await asyncio.create_subprocess_exec(
            *(Path(sys.executable).with_name("py-spy"), "record", "--pid", str(server.pid)),
            *("--duration", str(SAMPLED_SECONDS), *options),
            stdout=DEVNULL,
        )
        rate, _ = await load.rate(SAMPLED_SECONDS)
        if await process.wait():
            raise RuntimeError(f"py-spy ended with {process.returncode}")
        found = by_purpose(path)
    samples = SAMPLED_SECONDS * SAMPLES_A_SECOND
    return Times(
        busy=found.total() / samples,
        dashboards=found["dashboards"] / samples,
        common=found["common"] / samples,
        requests=rate / load.batch,
    )


async def in_turns(
    load: Load, dashboards: Dashboards, arguments: argparse.Namespace
) -> list[tuple[float, float]]:
    """Rates with dashboards as shares of those without, by the clock and by the server's CPU."""
    found: list[tuple[float, float]] = []

    async def watched() -> tuple[float, float]:
        async with dashboards.open():
            await asyncio.sleep(max(SHARED_SECONDS.values()))
            return await load.rate(arguments.seconds)

    async def alone() -> tuple[float, float]:
        await asyncio.sleep(SETTLE_SECONDS)
        return await load.rate(arguments.seconds)

    for number in range(arguments.rounds):
        if number % 2:
            (rate, own), (rate_alone, own_alone) = await watched(), await alone()
        else:
            (rate_alone, own_alone), (rate, own) = await alone(), await watched()
        found.append((rate / rate_alone, own / own_alone))
        print(
            f"round {number + 1} push {load.batch}: {rate:,.0f} msg/s watched,"
            f" {rate_alone:,.0f} alone, {found[-1][0]:.3f}; for a second of the"
            f" server's CPU {own:,.0f} and {own_alone:,.0f}, {found[-1][1]:.3f}",
            flush=True,
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--be", type=int, metavar="PORT", help="be the dashboards of a server")
    arguments = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if arguments.be is not None:
            runner.run(be_dashboards(arguments.be, arguments.count))
            return
        result = runner.run(measure(arguments))
    print(json.dumps(result))
    sys.exit(0 if result["is_met"] else 1)


if __name__ == "__main__":
    main()
