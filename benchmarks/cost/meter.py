"""The cost of a run (CPU time, statements, WAL, wake-ups per message) and its noise."""

import os
import re
from collections import Counter
from typing import Final, NamedTuple, Self

import asyncpg

from benchmarks.cost.usage import Machine, Reading, Snapshot
from tests.system.costs.statements import Statements

_CALL: Final = re.compile(r"\b(?:queen|pg)[._](push|pop|ack|cycle|notify)(?:_v\d+)?\(")


class Moment(NamedTuple):
    """Everything that was used until one moment."""

    server: Reading
    postgres: Reading
    bench: Reading
    """Everything that the benchmark has started, with both of the above."""

    machine: Machine
    statements: dict[str, int]
    wal_bytes: int


class Noise(NamedTuple):
    """Shares of the machine's CPU time during a run."""

    foreign: float
    """Used by processes that are not of this benchmark."""

    steal: float
    """Not given to this machine by its host."""

    @classmethod
    def between(cls, before: Moment, after: Moment) -> Self:
        total = after.machine.total - before.machine.total
        busy = after.machine.busy - before.machine.busy
        ours = after.bench.cpu_seconds - before.bench.cpu_seconds
        stolen = after.machine.stolen - before.machine.stolen
        return cls(round(max(0.0, busy - ours) / total, 3), round(stolen / total, 3))


class Cost(NamedTuple):
    """The cost of one message, the mean of a run."""

    server_us: float
    postgres_us: float
    server_wakeups: float
    postgres_wakeups: float
    statements: dict[str, float]
    wal_bytes: float

    @property
    def cpu_us(self) -> float:
        return self.server_us + self.postgres_us

    @classmethod
    def between(cls, before: Moment, after: Moment, messages: float) -> Self:
        server, postgres = after.server, after.postgres
        calls = Counter[str]()
        for text, count in after.statements.items():
            calls[_verb(text)] += count - before.statements.get(text, 0)
        return cls(
            server_us=1e6 * (server.cpu_seconds - before.server.cpu_seconds) / messages,
            postgres_us=1e6 * (postgres.cpu_seconds - before.postgres.cpu_seconds) / messages,
            server_wakeups=server.wakeups_since(before.server) / messages,
            postgres_wakeups=postgres.wakeups_since(before.postgres) / messages,
            statements={verb: count / messages for verb, count in calls.items()},
            wal_bytes=(after.wal_bytes - before.wal_bytes) / messages,
        )


class Meter:
    """Reads what a server, its PostgreSQL and the benchmark have used."""

    def __init__(
        self,
        connection: "asyncpg.Connection[asyncpg.Record]",
        statements: Statements,
        *,
        server: int,
        postgres: int,
    ) -> None:
        self._connection = connection
        self._statements = statements
        self._server = server
        self._postgres = postgres

    async def checkpoint(self) -> None:
        await self._connection.execute("checkpoint")

    async def read(self) -> Moment:
        statements = await self._statements.texts()
        wal = await self._connection.fetchval(
            "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"
        )
        snapshot = Snapshot.take()
        return Moment(
            server=Reading.of(snapshot, self._server),
            postgres=Reading.of(snapshot, self._postgres),
            bench=Reading.of(snapshot, os.getpid()),
            machine=snapshot.machine,
            statements=statements,
            wal_bytes=wal,
        )


def _verb(statement: str) -> str:
    """Return the function of the message plane that a statement calls."""
    found = _CALL.search(statement)
    return found[1] if found else "other"
