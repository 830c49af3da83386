"""Pops with autoAck that end during a search: their messages reach a consumer."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import asyncpg

from queen.engine.engine import Engine
from tests.cluster.places import ONE
from tests.engine.helpers import PATIENT, drain, pop, push, until, values


@asynccontextmanager
async def slow_claims(dsn: str) -> AsyncGenerator[asyncpg.Connection]:
    """Claims wait in the database until the end of this block."""
    connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction():
            await connection.execute("lock table queen.segments in access exclusive mode")
            yield connection
    finally:
        await connection.close()


async def claims_wait(connection: asyncpg.Connection) -> None:
    async def is_waiting() -> bool:
        query = "select exists (select 1 from pg_locks where not granted)"
        return await connection.fetchval(query)

    await until(is_waiting)


async def test_a_pop_that_times_out_in_a_search_returns_what_it_acknowledged(
    dsn: str,
) -> None:
    async with await Engine.open(dsn, settings=PATIENT) as engine:
        await push(engine, ONE, 1, 2, 3)
        assert values(await pop(engine, ONE, group="other", subscription_mode="all", batch=9))
        async with slow_claims(dsn) as connection:
            popping = asyncio.create_task(
                pop(engine, ONE, auto_ack=True, wait=True, timeout_seconds=0.2, batch=10)
            )
            await claims_wait(connection)
            await asyncio.wait([popping], timeout=0.4)

        found = values(await popping)

        assert found + await drain(engine, ONE, auto_ack=True) == [1, 2, 3]


async def test_an_engine_that_closes_returns_what_a_search_acknowledged(
    dsn: str,
) -> None:
    engine = await Engine.open(dsn, settings=PATIENT)
    async with await Engine.open(dsn, settings=PATIENT) as other:
        await push(other, ONE, 1, 2, 3)
        async with slow_claims(dsn) as connection:
            popping = asyncio.create_task(
                pop(engine, ONE, auto_ack=True, wait=True, timeout_seconds=60, batch=10)
            )
            await claims_wait(connection)
            closing = asyncio.create_task(engine.close())
            await asyncio.wait([popping], timeout=0.2)

        found = values(await popping)
        await closing

        assert found + await drain(other, ONE, auto_ack=True) == [1, 2, 3]
