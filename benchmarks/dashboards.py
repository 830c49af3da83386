"""
Measure the cost of open dashboards for a server, against a second server without dashboards.

Two servers, each with its own database, share one core equally, and both get pushes continuously.
Fifty dashboards watch one server, then the other, in turns. The speed of a shared machine changes
by a fifth from one second to the next, but equally for both, so the difference between the servers
is the cost of the dashboards. Everything else runs on the other cores.

The cost of dashboards does not depend on the server's share of a core, so a server with half a core
loses twice the share of its pushes. The cost is the CPU time of the watched server beyond the CPU
time that its pushes would take on the other: if both are busy, half of the loss. The benchmark
passes if the cost is below the bar by two standard errors. The load of dashboards on PostgreSQL
slows both servers equally and is not included. With `--count 0`, no dashboard is open, and the
result is the difference between two equal servers.

A dashboard is the overview page during traffic: a WebSocket, and the page's requests every five and
every fifteen seconds. The last line is one JSON object.
"""

import argparse
import asyncio
import json
import math
import os
import random
import statistics
import sys
import time
from asyncio.subprocess import PIPE, Process
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import aiohttp
import uvloop

from benchmarks.http import cpu_seconds
from benchmarks.http_load import connections, pushing
from benchmarks.load import SETTINGS, machine, payloads
from queen.store.migrations import migrate
from tests.support.postgres import Postgres
from tests.support.server import Server

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

BAR = 0.02
"""Maximum cost: the share of its pushes that a server with its own core may lose."""
QUEUES = 200
CONNECTIONS = {1: 256, 100: 32}
MOVING = 16
"""Number of queues that get pushes."""
TURNS = 4
"""Different requests per connection."""
IDLE_SECONDS = 30
WARM_SECONDS = 3
LEAST_BUSY = 0.9
"""Minimum use of the shared core. Below it, something else limits pushes."""


class Question(NamedTuple):
    """A request that a page repeats."""

    path: str
    age: int
    """Maximum age of a response, in seconds."""
    seconds: float
    """Interval between requests."""
    hours: int = 0
    """Length of the time range, up to the end of this minute."""

    @property
    def request(self) -> bytes:
        path = self.path
        if self.hours:
            end = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
            start = end - timedelta(hours=self.hours)
            path += f"&from={start:%Y-%m-%dT%H:%M:%SZ}&to={end:%Y-%m-%dT%H:%M:%SZ}"
        return (
            f"GET /api/v1{path} HTTP/1.1\r\nhost: localhost\r\naccept-encoding: gzip\r\n"
            f"cache-control: max-age={self.age}\r\n\r\n"
        ).encode()


QUESTIONS = (
    Question("/resources/overview?worst=20", age=4, seconds=5.0),
    Question(
        "/analytics/series?metric=pushed,popped,acked,nacked,deadLettered,depth,lag,"
        "oldestAgeSeconds,waitMillis,processingMillis",
        age=10,
        seconds=15.0,
        hours=1,
    ),
)
"""Requests of the overview during traffic: its tiles and its charts."""


async def be_dashboards(port: int, count: int) -> None:
    """Open all dashboards, and close them again, at each line of input."""
    while sys.stdin.readline():
        connector = aiohttp.TCPConnector(limit=0)
        async with (
            asyncio.TaskGroup() as group,
            aiohttp.ClientSession(connector=connector) as session,
        ):
            opened = [asyncio.Event() for _ in range(count)]
            tasks = [group.create_task(_listen(session, port, each)) for each in opened]
            for _ in opened:
                tasks.extend(group.create_task(_ask_again(port, each)) for each in QUESTIONS)
            for each in opened:
                await each.wait()
            print("opened", flush=True)
            await asyncio.to_thread(sys.stdin.readline)
            for task in tasks:
                task.cancel()
        print("closed", flush=True)


async def _ask_again(port: int, question: Question) -> None:
    await asyncio.sleep(random.uniform(0, question.seconds))
    (line,) = await connections(port, 1)
    try:
        while True:
            answer = await line.ask(question.request)
            if answer[9:12] != b"200":
                raise RuntimeError(answer[:500].decode())
            await asyncio.sleep(question.seconds)
    finally:
        line.transport.close()


async def _listen(session: aiohttp.ClientSession, port: int, opened: asyncio.Event) -> None:
    # People open their dashboards at different times.
    await asyncio.sleep(random.uniform(0, QUESTIONS[0].seconds))
    async with session.ws_connect(f"http://127.0.0.1:{port}/ws/dashboard") as socket:
        events = ["message.processed", "system.stats", "operation.updated"]
        await socket.send_json({"subscribe": events, "seconds": 5})
        await socket.receive()
        opened.set()
        async for _ in socket:
            pass
    raise RuntimeError("the server closed a WebSocket")


class Dashboards:
    """All dashboards, in one process."""

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


class Counts(NamedTuple):
    """The totals of one side so far."""

    pushed: float
    server: float
    """Seconds of CPU."""
    at: float

    def since(self, before: "Counts") -> "Counts":
        return Counts(*(now - then for now, then in zip(self, before, strict=True)))


class Side:
    """A server with its own database, its dashboards, and its pushes."""

    def __init__(self, server: Server, dashboards: Dashboards) -> None:
        self.server = server
        self.dashboards = dashboards
        self._pushed = 0

    @classmethod
    @asynccontextmanager
    async def start(cls, dsn: str, core: int, count: int) -> "AsyncGenerator[Side]":
        await migrate(dsn)
        async with Server(dsn) as server, Dashboards.start(server.port, count) as dashboards:
            for thread in os.listdir(f"/proc/{server.pid}/task"):
                os.sched_setaffinity(int(thread), {core})
            for number in range(QUEUES):
                item = {"queue": f"shop{number}", "payload": number}
                await server.post("/push", {"items": [item]})
            yield cls(server, dashboards)

    @asynccontextmanager
    async def pushes(self, batch: int) -> "AsyncGenerator[None]":
        """Push continuously over connections that each wait for their last response."""
        lines = await connections(self.server.port, CONNECTIONS[batch])
        messages = payloads(TURNS * batch, seed=7)
        bodies = [messages[turn * batch :][:batch] for turn in range(TURNS)]

        async def push(number: int) -> None:
            asked = [pushing(f"shop{number % MOVING}", 0, body) for body in bodies]
            while True:
                for each in asked:
                    await lines[number].ask(each)
                    self._pushed += batch

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
            raise RuntimeError("pushes were rejected")

    def counts(self) -> Counts:
        return Counts(self._pushed, cpu_seconds(self.server.pid), time.perf_counter())

    async def idle(self) -> float:
        """Return the share of a core that the server uses without pushes."""
        before = self.counts()
        await asyncio.sleep(IDLE_SECONDS)
        found = self.counts().since(before)
        return found.server / found.at


class Round(NamedTuple):
    """A watched server compared with the other one at the same time."""

    ratio: float
    """Ratio of their push rates."""
    cost: float
    """Share of a core that it uses beyond the cost of its pushes."""
    busy: float
    """Use of the shared core."""


async def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    first, *rest = sorted(os.sched_getaffinity(0))
    if not rest:
        raise RuntimeError("needs two cores: one for the servers, and one for everything else")
    os.sched_setaffinity(0, rest)
    with Postgres(SETTINGS) as postgres:
        dsns = [postgres.create_database(name) for name in ("left", "right")]
        async with (
            Side.start(dsns[0], first, arguments.count) as left,
            Side.start(dsns[1], first, arguments.count) as right,
        ):
            idle_cpu_alone = await left.idle()
            async with left.dashboards.open():
                idle_cpu = await left.idle()
            print(
                f"an idle server uses {idle_cpu_alone:.4f} of a core, and {idle_cpu:.4f} with"
                f" {arguments.count} dashboards",
                flush=True,
            )
            rounds: dict[int, list[Round]] = {}
            for batch in CONNECTIONS:
                async with left.pushes(batch), right.pushes(batch):
                    await asyncio.sleep(WARM_SECONDS)
                    rounds[batch] = [
                        each
                        for _ in range(arguments.pairs)
                        for each in (
                            await held_against(left, right, batch, arguments.seconds),
                            await held_against(right, left, batch, arguments.seconds),
                        )
                    ]
    result: dict[str, Any] = {"bench": "dashboards", **machine(), "bar": BAR}
    result |= {"count": arguments.count, "pairs": arguments.pairs, "seconds": arguments.seconds}
    result |= {"idle_cpu": round(idle_cpu, 4), "idle_cpu_alone": round(idle_cpu_alone, 4)}
    for batch, found in rounds.items():
        # Each side is watched once per pair, which cancels a difference between the servers.
        pairs = [*zip(found[::2], found[1::2], strict=True)]
        ratios = [math.sqrt(one.ratio * other.ratio) for one, other in pairs]
        costs = [(one.cost + other.cost) / 2 for one, other in pairs]
        # The error of a median, for normally distributed values.
        error = 1.25 * statistics.stdev(costs) / math.sqrt(len(costs))
        result |= {
            f"push_{batch}_ratio": round(statistics.median(ratios), 4),
            f"push_{batch}_cost": round(statistics.median(costs), 4),
            f"push_{batch}_error": round(error, 4),
            f"push_{batch}_busy": round(statistics.median(each.busy for each in found), 3),
        }
    result["is_met"] = all(
        result[f"push_{batch}_cost"] + 2 * result[f"push_{batch}_error"] <= BAR
        and result[f"push_{batch}_busy"] >= LEAST_BUSY
        for batch in rounds
    )
    return result


async def held_against(watched: Side, alone: Side, batch: int, seconds: float) -> Round:
    async with watched.dashboards.open():
        # Wait until cached responses have expired.
        await asyncio.sleep(max(each.age for each in QUESTIONS))
        before = watched.counts(), alone.counts()
        await asyncio.sleep(seconds)
        with_them = watched.counts().since(before[0])
        without = alone.counts().since(before[1])
    rates = [each.pushed / each.at for each in (with_them, without)]
    found = Round(
        ratio=rates[0] / rates[1],
        cost=(with_them.server - with_them.pushed * without.server / without.pushed) / with_them.at,
        busy=with_them.server / with_them.at + without.server / without.at,
    )
    print(
        f"push {batch}: {rates[0]:,.0f} msg/s watched, {rates[1]:,.0f} beside it,"
        f" {found.ratio:.3f}; cost {found.cost:.4f} of a core, servers busy {found.busy:.3f}",
        flush=True,
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--be", type=int, metavar="PORT", help="run the dashboards of a server")
    arguments = parser.parse_args()
    if arguments.pairs < 2:
        parser.error("at least two pairs are needed to estimate the error")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if arguments.be is not None:
            runner.run(be_dashboards(arguments.be, arguments.count))
            return
        result = runner.run(measure(arguments))
    print(json.dumps(result))
    sys.exit(0 if result["is_met"] else 1)


if __name__ == "__main__":
    main()
