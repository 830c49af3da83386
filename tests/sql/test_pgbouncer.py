"""Everything works through PgBouncer in transaction mode, where a connection keeps no state."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from urllib.parse import urlsplit

import asyncpg
import pytest

from queen import errors
from queen.engine.engine import Engine
from tests.engine.helpers import ack_all, asleep, drain, extend, item, pop, pop_later, push, values
from tests.sql.pgbouncer import PgBouncer, program
from tests.support.postgres import Server

QUEUE = "orders"
CALLS = 600
POOL_SIZE = 3

pytestmark = pytest.mark.skipif(program() is None, reason="pgbouncer is not installed")


@pytest.fixture(scope="module")
def pgbouncer(postgres: Server) -> Iterator[PgBouncer]:
    with PgBouncer(postgres.dsn(), pool_size=POOL_SIZE) as pgbouncer:
        yield pgbouncer


@pytest.fixture
def pooled_dsn(pgbouncer: PgBouncer, dsn: str) -> str:
    """The database of the test, through PgBouncer."""
    return pgbouncer.dsn(urlsplit(dsn).path.removeprefix("/"))


@pytest.fixture
async def engines(pooled_dsn: str) -> AsyncIterator[list[Engine]]:
    """Two engines, as in two processes."""
    engines = [await Engine.open(pooled_dsn, is_pooled=True) for _ in range(2)]
    yield engines
    for engine in engines:
        await engine.close()


async def test_connections_really_share_servers(pooled_dsn: str) -> None:
    """Otherwise the tests below prove nothing."""
    connections = [
        await asyncpg.connect(pooled_dsn, statement_cache_size=0) for _ in range(POOL_SIZE * 3)
    ]
    pids = {
        pid
        for connection in connections
        for pid in [await connection.fetchval("select pg_backend_pid()")]
    }
    for connection in connections:
        await connection.close()

    assert len(pids) <= POOL_SIZE


async def test_600_concurrent_calls_succeed_and_leave_no_messages(engines: list[Engine]) -> None:
    taken: list[int] = []

    async def call(number: int) -> None:
        engine = engines[number % 2]
        if number % 3 == 0:
            await push(engine, QUEUE, number, partition=f"p{number % 7}")
            return
        deliveries = await pop(engine, QUEUE, batch=3, partitions=2)
        taken.extend(values(deliveries))
        await ack_all(engine, deliveries)

    # Create the queue before the first pop.
    await push(engines[0], QUEUE, 0, partition="p0")
    await asyncio.gather(*(call(number) for number in range(1, CALLS + 1)))
    taken += await drain(engines[0], QUEUE)

    assert sorted(taken) == [0, *(n for n in range(1, CALLS + 1) if n % 3 == 0)]
    assert await drain(engines[1], QUEUE) == []


async def test_every_verb_works(engines: list[Engine]) -> None:
    one, other = engines
    await one.queues.configure(QUEUE, {"retry_delay_ms": 0})
    await push(one, QUEUE, 1, 2)
    (delivery,) = await pop(other, QUEUE, batch=2)
    assert delivery.lease_id is not None
    await extend(other, delivery.lease_id, seconds=600)
    await other.release(delivery.lease_id)
    (delivery,) = await pop(one, QUEUE, batch=2)
    assert delivery.lease_id is not None
    await one.ack(delivery.lease_id, [0])
    await one.transact(items=[item(QUEUE, 3)], required_leases=[delivery.lease_id])
    await one.ack(delivery.lease_id)
    await one.queues.seek(QUEUE, None, to_start=True)

    assert await drain(other, QUEUE) == [1, 2, 3]


async def test_a_waiting_pop_is_woken_by_a_push_of_the_same_process(
    engines: list[Engine],
) -> None:
    waiting = asyncio.create_task(pop_later(engines[0], QUEUE))
    await asleep(engines[0], 1)

    await push(engines[0], QUEUE, "here")

    assert values(await waiting) == ["here"]


async def test_a_waiting_pop_is_soon_woken_by_a_push_of_another_process(
    engines: list[Engine],
) -> None:
    await push(engines[1], QUEUE, "before")
    await drain(engines[0], QUEUE)
    waiting = asyncio.create_task(pop_later(engines[0], QUEUE, seconds=20))
    await asleep(engines[0], 1)

    await push(engines[1], QUEUE, "there")

    # Without a connection to listen on there is no notification, so the slow poll finds it.
    assert values(await waiting) == ["there"]


async def test_errors_leave_the_connections_usable(engines: list[Engine]) -> None:
    engine = engines[0]
    for _ in range(20):
        with pytest.raises(errors.InvalidOption):
            await engine.queues.configure(QUEUE, {"retry_limit": -1})

    await push(engine, QUEUE, 1)
    assert await drain(engine, QUEUE) == [1]


def test_processes_use_the_same_server_one_after_the_other(pooled_dsn: str) -> None:
    """asyncpg counts prepared statements per process, and PgBouncer keeps them on its server."""
    environment = {**os.environ, "DATABASE_URL": pooled_dsn, "QUEEN_DB_PGBOUNCER": "true"}
    for command in ("status", "up"):
        done = subprocess.run(
            [sys.executable, "-m", "queen", "migrate", command],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
