"""Subscribing to many queues takes one statement, and delays no other pop."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

import asyncpg
import pytest

from queen import errors
from queen.engine.engine import Engine
from queen.settings import Settings
from tests.engine.helpers import pop, pop_one, push, until, values


async def test_a_pop_that_waits_to_subscribe_blocks_no_other_claim(dsn: str) -> None:
    async with await Engine.open(dsn, settings=Settings(pop_lanes=1)) as engine:
        await push(engine, "busy", 1)
        await push(engine, "free", 2)
        await pop(engine, "free", group="g", auto_ack=True)
        await push(engine, "free", 3)
        connection = await asyncpg.connect(dsn)
        async with connection.transaction():
            await connection.execute(
                "select pg_advisory_xact_lock(hashtextextended('queen.queue', id))"
                " from queen.queues where name = 'busy'"
            )
            waits = asyncio.create_task(pop(engine, "busy", group="new"))

            async def is_waiting() -> bool:
                return await connection.fetchval(
                    "select exists (select from pg_locks where locktype = 'advisory'"
                    " and not granted and database ="
                    " (select oid from pg_database where datname = current_database()))"
                )

            await until(is_waiting)
            assert values(await pop_one(engine, "free", group="g")) == [3]
            assert not waits.done()
        await connection.close()
        assert values(await waits) == [1]


async def test_groups_of_many_queues_are_found_by_one_statement(dsn: str) -> None:
    async with await Engine.open(dsn) as engine:
        for number in range(30):
            await engine.queues.configure(f"q{number}", {}, namespace="n")
        await pop(engine, namespace="n", group="g")
    async with await Engine.open(dsn) as engine:
        sent: list[str] = []

        @contextmanager
        def note(call: str) -> Generator[None]:
            sent.append(call)
            yield

        engine.store.database.span = note
        for mode in (None, "all"):
            sent.clear()
            await pop(engine, namespace="n", group="g", subscription_mode=mode)
            assert (sent.count("find_groups"), sent.count("subscribe")) == (1, 0)
        with pytest.raises(errors.SubscriptionConflict):
            await pop(engine, namespace="n", group="g", subscription_mode="new")
