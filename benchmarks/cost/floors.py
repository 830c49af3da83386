"""
The least that a request and a statement cost in Python, at the rate of an open loop.

A process that waits between calls pays more per call than one that is busy all the time, so a
floor is only comparable with a run at the same rate.
"""

import asyncio
import os
import sys
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

import asyncpg

from benchmarks.cost.usage import Reading, Snapshot
from benchmarks.http_load import connections, pushing
from tests.support.ports import free_port

SERVERS: Final = ("raw", "uvicorn")
CONNECTIONS: Final = 64
START_SECONDS: Final = 20.0
END_SECONDS: Final = 10.0
REQUESTS_PER_MESSAGE: Final = 3
"""Push, pop and ack."""


class Floors(NamedTuple):
    """CPU microseconds, each of one call."""

    raw_us: float
    """A request to a protocol of asyncio, in the server."""

    uvicorn_us: float
    """A request to an empty application of uvicorn, in the server."""

    select_us: float
    """`select 1` with asyncpg, in the client and PostgreSQL."""

    insert_us: float
    """One row with a durable commit, in the client and PostgreSQL."""

    @property
    def message_us(self) -> float:
        """Three of the cheapest requests and one durable row."""
        return REQUESTS_PER_MESSAGE * self.raw_us + self.insert_us


class FloorBench:
    """Two servers and a connection of asyncpg, without Queen."""

    def __init__(
        self,
        servers: dict[str, tuple[int, int]],
        connection: "asyncpg.Connection[asyncpg.Record]",
        seconds: float,
    ) -> None:
        self._servers = servers
        self._connection = connection
        self._seconds = seconds

    async def floors(self, rate: float) -> Floors:
        requests = {name: await self._request(name, rate) for name in SERVERS}
        sleep = await self._call(lambda: asyncio.sleep(0), rate)
        select = await self._call(lambda: self._connection.fetch("select 1"), rate)
        row = "insert into floor (payload) values ($1) returning id"
        insert = await self._call(lambda: self._connection.fetch(row, b"x" * 20), rate)
        return Floors(
            raw_us=requests["raw"],
            uvicorn_us=requests["uvicorn"],
            select_us=select - sleep,
            insert_us=insert - sleep,
        )

    async def _request(self, name: str, rate: float) -> float:
        port, pid = self._servers[name]
        free = deque(await connections(port, CONNECTIONS))
        request = pushing("floor", 0, [b'{"n":12345}'])
        before = _cpu_seconds(pid)
        sent = 0

        async def send() -> None:
            nonlocal sent
            if free:
                connection = free.popleft()
                sent += 1
                connection.ask(request).add_done_callback(lambda _: free.append(connection))

        await self._at(rate, send)
        async with asyncio.timeout(END_SECONDS):
            while len(free) < CONNECTIONS:  # noqa: ASYNC110 - a condition, bounded
                await asyncio.sleep(0.01)
        used = _cpu_seconds(pid) - before
        for each in free:
            each.transport.close()
        return 1e6 * used / sent

    async def _call(self, call: Callable[[], Awaitable[object]], rate: float) -> float:
        pids = (os.getpid(), self._connection.get_server_pid())
        before = sum(map(_cpu_seconds, pids))
        count = await self._at(rate, call)
        return 1e6 * (sum(map(_cpu_seconds, pids)) - before) / count

    async def _at(self, rate: float, call: Callable[[], Awaitable[object]]) -> int:
        """Run calls one after another at scheduled times. Returns their number."""
        count = max(1, int(rate * self._seconds))
        started = time.perf_counter()
        for number in range(count):
            if (wait := started + number / rate - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            await call()
        return count


@asynccontextmanager
async def floor_bench(dsn: str, seconds: float) -> AsyncGenerator[FloorBench]:
    """Start the servers, and connect to a database."""
    servers: dict[str, tuple[int, int]] = {}
    started: list[asyncio.subprocess.Process] = []
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(
            "create table floor (id bigint generated always as identity primary key, "
            "payload bytea not null)"
        )
        for name in SERVERS:
            port = free_port()
            command = (sys.executable, "-m", "benchmarks.cost.floor_server", str(port), name)
            started.append(await asyncio.create_subprocess_exec(*command))
            servers[name] = (port, started[-1].pid)
        for port, _ in servers.values():
            await _listening(port)
        yield FloorBench(servers, connection, seconds)
    finally:
        for process in started:
            process.kill()
            await process.wait()
        await connection.close()


async def _listening(port: int) -> None:
    async with asyncio.timeout(START_SECONDS):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return


def _cpu_seconds(pid: int) -> float:
    return Reading.of(Snapshot.take(), pid).cpu_seconds
