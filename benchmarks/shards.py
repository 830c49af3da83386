"""
Measure how single pushes scale with databases whose disks are slow.

Each commit waits for the disk. With every database, the load has the same number of additional
callers. Each caller pushes to a queue of one database, and waits for the response. One server
process serves all of them. So the rate can grow with the databases only if each push waits for its
own database, and the CPU time per message shows what each additional database costs.

The last line is one JSON object. Ratios are taken in each round, and their median is printed.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final, NamedTuple
from uuid import uuid4

import msgspec
import uvloop

from benchmarks.cost.usage import Reading, Snapshot
from benchmarks.http_load import Push
from benchmarks.load import machine
from benchmarks.slow_disk import slow_disk
from queen.store.cluster.joining import join
from queen.store.migrations import connected
from tests.cluster.places import slot_of
from tests.support.postgres import Postgres
from tests.support.server import Server

COUNTS: Final = (1, 2, 4)
SETTINGS: Final = {"shared_buffers": "32MB", "max_wal_size": "1GB", "max_connections": 60}
WARM_SECONDS: Final = 4.0
"""Meanwhile the server opens and plans its connections."""


class Run(NamedTuple):
    """The result of one load."""

    rate: float
    server_us: float
    postgres_us: float

    @property
    def cpu_us(self) -> float:
        """CPU time per message."""
        return self.server_us + self.postgres_us


class ShardBench:
    """One server process over one, two or four databases."""

    def __init__(self, postgres: Sequence[Postgres], callers: int, seconds: float) -> None:
        self._postgres = postgres
        self._callers = callers
        self._seconds = seconds

    async def run(self, count: int) -> Run:
        """Push to this number of databases."""
        name = f"bench_{uuid4().hex}"
        chosen = self._postgres[:count]
        databases = {f"db{n}": each.create_database(name) for n, each in enumerate(chosen)}
        await join(databases)
        try:
            async with Server(databases, {"LOG_LEVEL": "warning"}) as server:
                queues = await _queues(databases)
                await self._push(server, queues, WARM_SECONDS)
                return await self._measured(server, queues)
        finally:
            for each in chosen:
                each.drop_database(name)

    async def _measured(self, server: Server, queues: tuple[str, ...]) -> Run:
        before, before_postgres = self._read(server)
        rate = await self._push(server, queues, self._seconds)
        after, after_postgres = self._read(server)
        messages = rate * self._seconds
        return Run(
            rate,
            1e6 * (after - before) / messages,
            1e6 * (after_postgres - before_postgres) / messages,
        )

    def _read(self, server: Server) -> tuple[float, float]:
        """CPU seconds of the server, and of all databases."""
        snapshot = Snapshot.take()
        databases = sum(Reading.of(snapshot, each.pid).cpu_seconds for each in self._postgres)
        return Reading.of(snapshot, server.pid).cpu_seconds, databases

    async def _push(self, server: Server, queues: tuple[str, ...], seconds: float) -> float:
        """Messages per second of a load in its own process."""
        task = Push(
            port=server.port,
            queues=queues,
            batch=1,
            connections=self._callers * len(queues),
            seconds=seconds,
        )
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "benchmarks.http_load",
            msgspec.json.encode(task).decode(),
            stdout=subprocess.PIPE,
        )
        out, _ = await process.communicate()
        said: dict[str, Any] = json.loads(out.splitlines()[-1])
        if process.returncode or said["failed"]:
            raise RuntimeError(f"the load failed: exit code {process.returncode}, {said}")
        return said["rate"]


async def _queues(databases: Mapping[str, str]) -> tuple[str, ...]:
    """The name of a queue in each database."""
    names: list[str] = []
    for dsn in databases.values():
        async with connected(dsn) as connection:
            rows = await connection.fetch("select slot from queen.slots where state = 'owned'")
        owned = {row["slot"] for row in rows}
        names.append(next(name for n in range(10_000) if slot_of(name := f"q{n}") in owned))
    return tuple(names)


async def measure(arguments: argparse.Namespace) -> dict[str, object]:
    runs: dict[int, list[Run]] = {count: [] for count in COUNTS}
    with ExitStack() as stack:
        with slow_disk(arguments.fsync_ms):
            postgres = [
                stack.enter_context(Postgres(SETTINGS, in_memory=True)) for _ in range(max(COUNTS))
            ]
        bench = ShardBench(postgres, arguments.callers, arguments.seconds)
        for number in range(arguments.rounds):
            # The order alternates, so that a busy moment doesn't always affect the same count.
            for count in COUNTS if number % 2 == 0 else reversed(COUNTS):
                run = await bench.run(count)
                runs[count].append(run)
                print(
                    f"round {number + 1}, {count} databases: {run.rate:,.0f} pushes/s,"
                    f" {run.cpu_us:.0f} µs each",
                    flush=True,
                )
    return {
        "test": "T9",
        **{
            f"rate_{count}_vs_1": _ratio([each.rate for each in runs[count]], runs[1], "rate")
            for count in COUNTS[1:]
        },
        "cpu_4_vs_1": _ratio([each.cpu_us for each in runs[4]], runs[1], "cpu_us"),
        "rates": {
            count: round(statistics.median(run.rate for run in runs[count])) for count in COUNTS
        },
        "server_us": _medians(runs, "server_us"),
        "postgres_us": _medians(runs, "postgres_us"),
        "configuration": {
            **machine(),
            "fsync_ms": arguments.fsync_ms,
            "callers_per_database": arguments.callers,
            "rounds": arguments.rounds,
            "seconds": arguments.seconds,
        },
    }


def _ratio(values: Sequence[float], ones: Sequence[Run], field: str) -> float:
    ratios = (value / getattr(one, field) for value, one in zip(values, ones, strict=True))
    return round(statistics.median(ratios), 2)


def _medians(runs: Mapping[int, Sequence[Run]], field: str) -> dict[int, int]:
    return {
        count: round(statistics.median(getattr(run, field) for run in found))
        for count, found in runs.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.shards", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0, help="length of one run")
    parser.add_argument("--fsync-ms", type=float, default=5.0, help="delay of each fdatasync")
    parser.add_argument("--callers", type=int, default=3, help="concurrent pushes per database")
    arguments = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result = runner.run(measure(arguments))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
