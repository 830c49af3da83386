"""How the engine connects: timeouts, application name, and detection of another server."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from queen.engine.engine import Engine
from queen.errors import DatabaseUnavailable, Overloaded, QueenError
from queen.settings import Settings
from queen.store.connection.database import Database
from queen.store.connection.options import Connecting
from queen.store.migrations import migrate
from tests.engine.helpers import drain, extend, lease, pop, pop_one, push, until
from tests.support.gate import Gate
from tests.support.postgres import Postgres


@contextlib.asynccontextmanager
async def locked(dsn: str, table: str) -> AsyncGenerator[None]:
    """Hold locks on all rows of a table."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(f"begin; select from {table} for update")
        yield
    finally:
        await connection.close()


async def connections(dsn: str, name: str) -> int:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(
            "select count(*) from pg_stat_activity"
            " where application_name = $1 and datname = current_database()",
            name,
        )
    finally:
        await connection.close()


@contextlib.asynccontextmanager
async def noted_warming(dsn: str) -> AsyncGenerator[Callable[[], Awaitable[int]]]:
    """Record which connections are warmed. Yields a function that counts all others."""
    connection = await asyncpg.connect(dsn)
    await connection.execute("create table warmed (pid int)")
    await connection.execute(
        "create or replace function queen.warm() returns void language sql as"
        " 'insert into public.warmed values (pg_backend_pid())'"
    )

    async def unwarmed() -> int:
        return await connection.fetchval(
            "select count(*) from pg_stat_activity where application_name = 'queen'"
            " and datname = current_database() and pid not in (select pid from warmed)"
        )

    try:
        yield unwarmed
    finally:
        await connection.close()


async def test_connections_have_the_name_of_the_application(dsn: str) -> None:
    async with await Engine.open(dsn, settings=Settings(app_name="shop")) as engine:
        await push(engine, "orders", 1)

        assert await connections(dsn, "shop") >= 1

        async def is_listening() -> bool:
            return await connections(dsn, "shop notifications") == 1

        await until(is_listening)


async def test_connections_above_the_first_are_closed_after_the_idle_time(dsn: str) -> None:
    short = Settings(db_idle_timeout_ms=100, app_name="short")
    kept = Settings(db_idle_timeout_ms=0, app_name="kept")
    async with (
        await Engine.open(dsn, settings=short) as one,
        await Engine.open(dsn, settings=kept) as other,
    ):
        for engine in (one, other):
            await asyncio.gather(*(engine.store.database.fetch("now") for _ in range(3)))

        async def are_closed() -> bool:
            return await connections(dsn, "short") == 1

        await until(are_closed)
        # The engine itself may have needed one more.
        assert await connections(dsn, "kept") >= 3


async def test_connections_of_a_server_are_warmed_before_use(dsn: str) -> None:
    settings = Settings(app_name="warm")
    async with await Engine.open(dsn, settings=settings, connections=4, is_warmed=True) as engine:
        await push(engine, "orders", *range(10))

        async def have_grown() -> bool:
            # Many more at once than there are connections.
            await asyncio.gather(*(engine.store.messages.ack([]) for _ in range(50)))
            return await connections(dsn, "warm") == 4

        await until(have_grown)

        assert await drain(engine, "orders") == list(range(10))
        connection = await asyncpg.connect(dsn)
        made = await connection.fetch("select name from queen.queues")
        await connection.close()
        assert [row["name"] for row in made] == ["orders"]


async def test_a_connection_that_replaces_an_idle_one_is_warmed_before_use(dsn: str) -> None:
    async with noted_warming(dsn) as unwarmed:
        database = await Database.open(
            dsn, Connecting(connections=9, idle_seconds=1, is_warmed=True)
        )
        try:

            async def have_grown() -> bool:
                await asyncio.gather(*(database.fetch("now") for _ in range(50)))
                return await connections(dsn, "queen") == 3

            async def is_one_left() -> bool:
                return await connections(dsn, "queen") == 1

            async def have_grown_warm() -> bool:
                return await have_grown() and await unwarmed() == 0

            await until(have_grown)
            await until(is_one_left)
            await until(have_grown_warm)
        finally:
            await database.close()


async def test_a_database_that_cannot_be_warmed_is_used_unwarmed(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute("drop function queen.warm()")
    await connection.close()
    async with await Engine.open(dsn, is_warmed=True) as engine:
        await push(engine, "orders", 1)

        assert await drain(engine, "orders") == [1]


async def test_connections_that_cannot_be_warmed_are_used_anyway(dsn: str) -> None:
    """Otherwise a wait for a lock on the first connection would delay all others."""
    connection = await asyncpg.connect(dsn)
    await connection.execute("drop function queen.warm()")
    await connection.close()
    async with await Engine.open(dsn, connections=4, is_warmed=True) as engine:
        await push(engine, "orders", 1)
        held = await pop_one(engine, "orders")
        async with locked(dsn, "queen.deliveries"):
            stuck = [asyncio.create_task(extend(engine, lease(held))) for _ in range(3)]
            async with asyncio.timeout(8):
                for _ in range(20):
                    await engine.store.database.fetch("now")
        await asyncio.gather(*stuck)


async def test_waiting_for_a_connection_is_bounded(dsn: str) -> None:
    settings = Settings(db_connection_timeout_ms=200)
    async with await Engine.open(dsn, settings=settings, connections=1) as engine:
        await push(engine, "orders", 1)
        held = await pop_one(engine, "orders")
        async with locked(dsn, "queen.deliveries"):
            stuck = asyncio.create_task(extend(engine, lease(held)))
            while engine.store.database._pool.free:  # noqa: ASYNC110 # pyright: ignore[reportPrivateUsage]
                await asyncio.sleep(0.01)
            begun = time.monotonic()
            with pytest.raises(DatabaseUnavailable):
                await engine.store.database.fetch("now")
            assert time.monotonic() - begun < 8
        await stuck


async def test_the_duration_of_a_call_is_bounded(dsn: str) -> None:
    async with await Engine.open(dsn, settings=Settings(db_statement_timeout_ms=200)) as engine:
        await push(engine, "orders", 1)
        held = await pop_one(engine, "orders")
        async with locked(dsn, "queen.deliveries"):
            begun = time.monotonic()
            with pytest.raises(Overloaded):
                await extend(engine, lease(held))
            assert time.monotonic() - begun < 8


@pytest.mark.parametrize(("retries", "calls"), [(0, 1), (2, 3)])
async def test_a_failed_call_is_retried_up_to_max_retries(
    dsn: str, retries: int, calls: int
) -> None:
    database = await Database.open(dsn, Connecting(max_retries=retries))
    connection = await asyncpg.connect(dsn)
    await connection.execute(
        "create or replace function queen.now () returns timestamptz language plpgsql as"
        " $$ begin raise exception using errcode = '40001'; end $$"
    )
    await connection.close()
    before = database.statements

    with pytest.raises(Overloaded):
        await database.fetch("now")

    assert database.statements - before == calls
    await database.close()


async def test_calls_that_wait_for_a_lock_leave_connections_to_others(dsn: str) -> None:
    async with await Engine.open(dsn, connections=3) as engine:
        await push(engine, "orders", 1)
        await push(engine, "others", 1)
        held = await pop_one(engine, "orders")
        async with locked(dsn, "queen.deliveries"):
            stuck = [asyncio.create_task(extend(engine, lease(held))) for _ in range(10)]
            await asyncio.sleep(0)
            async with asyncio.timeout(8):
                await push(engine, "others", 2)
                await pop(engine, "others", group="g")
        outcomes = await asyncio.gather(*stuck, return_exceptions=True)
        assert not [each for each in outcomes if isinstance(each, BaseException)]


async def test_another_server_under_the_same_name_is_detected(dsn: str, tmp_path: Path) -> None:
    with Postgres(in_memory=True) as other:
        other_dsn = await asyncio.to_thread(other.create_database, urlsplit(dsn).path[1:])
        await migrate(other_dsn)
        async with Gate.open(dsn, tmp_path) as gate, await Engine.open(gate.dsn) as engine:
            await push(engine, "first", 0)
            await push(engine, "orders", 1)
            assert engine.segments.size_bytes > 0
            gate.lead_to(other_dsn)
            gate.cut()

            async def is_stored() -> bool:
                with contextlib.suppress(QueenError):
                    return (await push(engine, "orders", 2))[0].status == "queued"
                return False

            await until(is_stored)

            # Here, no queue has the id that "orders" had there, and its cached messages are not
            # served.
            assert await drain(engine, "orders") == [2]


async def test_a_connection_attempt_without_response_does_not_delay_a_later_one(
    dsn: str, tmp_path: Path
) -> None:
    """Its packets were lost, so it gets no response after the network is back either."""
    async with Gate.open(dsn, tmp_path) as gate:
        database = await Database.open(gate.dsn)
        gate.swallow(True)
        gate.cut()
        with contextlib.suppress(QueenError):  # Its connection is closed.
            await database.fetch("databases")
        call = asyncio.create_task(database.fetch("databases"))

        async def is_ignored() -> bool:
            return gate.ignored > 0

        await until(is_ignored)
        gate.swallow(False)

        async with asyncio.timeout(3):
            assert await call == []
        await database.close()
