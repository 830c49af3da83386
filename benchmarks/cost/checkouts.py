"""Source trees to compare, each with its own PostgreSQL and server, and their costs per message."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import asyncpg

from benchmarks.cost.meter import Cost, Meter, Noise
from benchmarks.http import Bench
from benchmarks.http_load import Mixed, Open, Push
from benchmarks.load import SETTINGS, recycle_wal
from tests.support.postgres import Postgres
from tests.support.server import Server
from tests.system.costs.statements import Statements

MOST_NOISE: Final = 0.1
"""A run with more steal and foreign CPU time than this is repeated."""
_COUNTED: Final = {**SETTINGS, "shared_preload_libraries": "pg_stat_statements"}


class Run(NamedTuple):
    """One run of a point."""

    rate: float
    load: dict[str, Any]
    """The output of the load generator."""

    load_us: float
    cost: Cost
    noise: Noise


class CostBench(Bench):
    """The points of `bench-http` with their costs. Noisy runs are repeated."""

    def __init__(self, server: Server, meter: Meter, seconds: float, attempts: int) -> None:
        super().__init__(server, seconds, open_seconds=seconds)
        self._meter = meter
        self._attempts = attempts
        self._last: Run | None = None

    async def load(self, task: Push | Mixed | Open, transport: str = "http") -> dict[str, Any]:
        before = await self._meter.read()
        said = await super().load(task, transport)
        after = await self._meter.read()
        messages = max(1.0, _messages(task, said))
        self._last = Run(
            rate=messages / task.seconds,
            load=said,
            load_us=1e6 * said["client_cpu_seconds"] / messages,
            cost=Cost.between(before, after, messages),
            noise=Noise.between(before, after),
        )
        return said

    async def checkpoint(self) -> None:
        """Make the WAL files of earlier runs available for reuse."""
        await self._meter.checkpoint()

    async def run(self, point: Callable[[], Awaitable[object]]) -> Run:
        """Return the first quiet run of a point, or else the quietest."""
        runs: list[Run] = []
        while len(runs) < self._attempts:
            await point()
            assert self._last is not None
            runs.append(self._last)
            if sum(runs[-1].noise) <= MOST_NOISE:
                break
            print(f"  noisy run {len(runs)} of {self._attempts}: {runs[-1].noise}", flush=True)
        return min(runs, key=lambda each: sum(each.noise))

    async def open_run(self, rate: float, transport: str = "http") -> Run:
        return await self.run(lambda: super(CostBench, self).open_loop(rate, transport))

    async def open_loop(self, rate: float, transport: str = "http") -> dict[str, Any]:
        return (await self.open_run(rate, transport)).load


@asynccontextmanager
async def checkout(tree: Path, seconds: float, attempts: int) -> AsyncGenerator[CostBench]:
    """Start the server of a source tree, and its own PostgreSQL."""
    with Postgres(_COUNTED) as postgres:
        dsn = postgres.create_database("bench")
        source = str(tree / "src")
        await _migrate(dsn, source)
        environment = {"LOG_LEVEL": "warning", "PYTHONPATH": source}
        connection = await asyncpg.connect(dsn)
        try:
            await recycle_wal(connection)
            async with Server(dsn, environment) as server, Statements.open(dsn) as statements:
                meter = Meter(connection, statements, server=server.pid, postgres=postgres.pid)
                yield CostBench(server, meter, seconds, attempts)
        finally:
            await connection.close()


async def _migrate(dsn: str, source: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "queen",
        "migrate",
        "up",
        stdout=asyncio.subprocess.DEVNULL,
        env={**os.environ, "DATABASE_URL": dsn, "PYTHONPATH": source},
    )
    if code := await process.wait():
        raise RuntimeError(f"the migration of {source} ended with exit code {code}")


def _messages(task: Push | Mixed | Open, said: dict[str, Any]) -> float:
    """Return the number of messages that the server has handled completely."""
    if isinstance(task, Open):
        return int(task.rate * task.seconds) - said["not_arrived"]
    rate: float = said["rate"] if isinstance(task, Push) else min(said["pushed"], said["consumed"])
    return rate * task.seconds
