"""
Measure what servers that prefer databases save, if clients know all servers.

Two servers share two databases, each on a PostgreSQL server. A client with both URLs pushes single
messages to many queues at the same time. In turns, each server prefers one of the databases, or
none. Without preferences, the pushes to a database are divided among both servers, so each
statement stores fewer.

The last line is one JSON object. Ratios are taken in each round, and their median is printed.
"""

import argparse
import asyncio
import json
import re
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from typing import Final, NamedTuple
from uuid import uuid4

import uvloop

from benchmarks.cost.usage import Reading, Snapshot
from benchmarks.load import machine
from queen import Queen
from queen.client.transport.http import HttpTransport
from queen.client.transport.preferences import Preferences
from queen.store.cluster.joining import join
from tests.cluster.places import slot_of
from tests.support.postgres import Postgres
from tests.support.server import Server, until

SETTINGS: Final = {"shared_buffers": "32MB", "max_wal_size": "1GB", "max_connections": 60}
WARM_SECONDS: Final = 2.0
_CALLS: Final = r'queen_db_call_seconds_count\{call="(?:push|combine)[^"]*"\} (\S+)'


class Run(NamedTuple):
    """The result of one load."""

    rate: float
    statements: float
    """Statements that store messages, per message."""
    cpu_us: float
    """CPU time of both servers and databases per message."""


class PreferenceBench:
    """Two servers over two databases."""

    def __init__(self, postgres: Sequence[Postgres], producers: int, seconds: float) -> None:
        self._postgres = postgres
        self._producers = producers
        self._seconds = seconds

    async def run(self, databases: Mapping[str, str], *, prefer: bool) -> Run:
        """Push to all queues at the same time."""
        servers = [Server(databases, {"LOG_LEVEL": "warning"}) for _ in databases]
        for server, name in zip(servers, databases, strict=True):
            if prefer:
                server.environment["QUEEN_PREFERRED_DATABASES"] = name
                server.environment["QUEEN_ADVERTISED_URL"] = server.base_url
        async with AsyncExitStack() as stack:
            for server in servers:
                await stack.enter_async_context(server)
            queen = await stack.enter_async_context(Queen([each.base_url for each in servers]))
            queues = _queues(self._producers)
            await self._push(queen, queues, WARM_SECONDS)
            preferences = _preferences(queen)
            preferences.refresh()  # Now all servers have reported.
            if prefer:
                await until(lambda: _is_active(preferences))
            await self._push(queen, queues, WARM_SECONDS)
            return await self._measured(servers, queen, queues)

    async def _measured(
        self, servers: Sequence[Server], queen: Queen, queues: Sequence[str]
    ) -> Run:
        statements, cpu = await _statements(servers), self._cpu(servers)
        count = await self._push(queen, queues, self._seconds)
        statements = await _statements(servers) - statements
        cpu = self._cpu(servers) - cpu
        return Run(count / self._seconds, statements / count, 1e6 * cpu / count)

    def _cpu(self, servers: Sequence[Server]) -> float:
        snapshot = Snapshot.take()
        return sum(
            Reading.of(snapshot, each.pid).cpu_seconds for each in (*servers, *self._postgres)
        )

    async def _push(self, queen: Queen, queues: Sequence[str], seconds: float) -> int:
        """The number of messages that were stored."""
        ends_at = time.monotonic() + seconds
        counts = await asyncio.gather(*(_produce(queen, each, ends_at) for each in queues))
        return sum(counts)


async def _produce(queen: Queen, name: str, ends_at: float) -> int:
    queue, count = queen.queue(name), 0
    while time.monotonic() < ends_at:
        await queue.push([{"data": count}])
        count += 1
    return count


def _preferences(queen: Queen) -> Preferences:
    transport = queen.transport
    assert isinstance(transport, HttpTransport)
    assert transport.preferences is not None
    return transport.preferences


async def _is_active(preferences: Preferences) -> bool:
    return preferences.is_active


async def _statements(servers: Sequence[Server]) -> float:
    found = 0.0
    for server in servers:
        reply = await server.request("GET", "/metrics", headers={"Accept": "text/plain"})
        text: str = reply.body.decode()
        found += sum(map(float, re.findall(_CALLS, text)))
    return found


def _queues(count: int) -> list[str]:
    """Names of queues, as many in each database."""
    names = [f"q{n}" for n in range(100 * count)]
    halves = [[name for name in names if slot_of(name) % 2 == half] for half in (0, 1)]
    return [*halves[0][: count // 2], *halves[1][: count // 2]]


async def _main(rounds: int, producers: int, seconds: float) -> None:
    print(machine())
    found: dict[bool, list[Run]] = {False: [], True: []}
    with ExitStack() as stack:
        postgres = [stack.enter_context(Postgres(SETTINGS)) for _ in range(2)]
        bench = PreferenceBench(postgres, producers, seconds)
        for number in range(rounds):
            for prefer in (False, True) if number % 2 == 0 else (True, False):
                name = f"bench_{uuid4().hex}"
                databases = {
                    f"db{n}": each.create_database(name) for n, each in enumerate(postgres)
                }
                await join(databases)
                run = await bench.run(databases, prefer=prefer)
                for each in postgres:
                    each.drop_database(name)
                found[prefer].append(run)
                print(f"round {number + 1}, prefer {prefer}: {run}", flush=True)
    ratios = {
        field: statistics.median(
            getattr(new, field) / getattr(old, field)
            for old, new in zip(found[False], found[True], strict=True)
        )
        for field in Run._fields
    }
    print(json.dumps({"rounds": rounds, "producers": producers, "ratios": ratios}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--producers", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=4.0)
    options = parser.parse_args()
    uvloop.run(_main(options.rounds, options.producers, options.seconds))
