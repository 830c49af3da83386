"""How calls share the connections of a process: order, cancelled calls, failures, and closing."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from queen.errors import Draining, OutcomeUnknown
from queen.store.connection.connection import Connection
from queen.store.connection.database import Database
from queen.store.connection.options import Connecting
from queen.store.connection.pool import Pool
from tests.engine.connection.test_connections import connections, locked
from tests.engine.helpers import until
from tests.support.gate import Gate


@pytest.fixture
async def single(dsn: str) -> AsyncIterator[Database]:
    """A database with one connection."""
    database = await Database.open(dsn, Connecting(connections=1, application_name="single"))
    yield database
    await database.close()


@contextlib.asynccontextmanager
async def stuck(dsn: str, database: Database) -> "AsyncGenerator[asyncio.Task[Any]]":
    """A call that waits for a lock, on the only connection."""
    await database.fetch("set_maintenance", "pop", False, "")
    async with locked(dsn, "queen.maintenance"):
        call = asyncio.create_task(database.fetch("set_maintenance", "pop", False, ""))

        async def is_waiting() -> bool:
            return await waiting_for_locks(dsn) == 1

        await until(is_waiting)
        yield call


async def waiting_for_locks(dsn: str) -> int:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(
            "select count(*) from pg_stat_activity"
            " where wait_event_type = 'Lock' and datname = current_database()"
        )
    finally:
        await connection.close()


async def test_calls_get_the_connection_in_the_order_in_which_they_asked(
    dsn: str, single: Database
) -> None:
    order: list[int] = []

    async def call(number: int) -> None:
        await single.fetch("now")
        order.append(number)

    async with stuck(dsn, single) as first:
        calls = [asyncio.create_task(call(number)) for number in range(20)]
        await asyncio.sleep(0)
    await asyncio.gather(first, *calls)

    assert order == list(range(20))
    assert await connections(dsn, "single") == 1


async def test_a_cancelled_call_is_stopped_and_its_connection_is_used_again(
    dsn: str, single: Database
) -> None:
    async with stuck(dsn, single) as call:
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

        async def is_stopped() -> bool:
            return await waiting_for_locks(dsn) == 0

        await until(is_stopped)
        assert await single.fetch("now")

    assert await connections(dsn, "single") == 1


async def test_a_cancelled_transaction_is_rolled_back(dsn: str) -> None:
    """As behind PgBouncer, where a call is a transaction of several round trips."""
    how = Connecting(connections=1, is_pooled=True)
    database = await Database.open(dsn, how)
    async with stuck(dsn, database) as call:
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await database.fetch("now")

    # The cancelled call holds no lock any more.
    assert await database.fetch("set_maintenance", "pop", False, "")
    await database.close()


async def test_a_cancelled_call_that_waits_for_a_connection_leaves_it_to_the_next(
    dsn: str, single: Database
) -> None:
    async with stuck(dsn, single) as first:
        waiting = [asyncio.create_task(single.fetch("now")) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
    await first
    waiting[1].cancel()

    assert await waiting[2]
    assert await single.fetch("now")


async def test_a_connection_that_arrives_together_with_a_cancellation_is_passed_on() -> None:
    connection = FakeConnection()
    pool = pool_of(connection)
    assert await pool.wait() is connection
    waiting = [asyncio.create_task(pool.wait()) for _ in range(2)]
    await asyncio.sleep(0)

    pool.give(as_connection(connection))
    waiting[0].cancel()

    assert await asyncio.wait_for(waiting[1], 1) is connection
    assert pool.waiting == 0


async def test_callers_that_wait_for_the_first_connection_get_its_error() -> None:
    pool = Pool(failing, warm=nothing_to_plan, most=5, idle_seconds=0, timeout_seconds=5)
    outcomes = await asyncio.gather(*(pool.wait() for _ in range(5)), return_exceptions=True)

    assert [type(each) for each in outcomes] == [ConnectionRefusedError] * 5


async def test_a_caller_cancelled_while_it_connects_is_replaced_by_the_next() -> None:
    connection = FakeConnection()
    attempts: list[int] = []

    async def connect() -> Connection:
        attempts.append(1)
        if len(attempts) == 1:
            await asyncio.Event().wait()
        return as_connection(connection)

    pool = Pool(connect, warm=nothing_to_plan, most=5, idle_seconds=0, timeout_seconds=5)
    first = asyncio.create_task(pool.wait())
    second = asyncio.create_task(pool.wait())
    await asyncio.sleep(0)
    first.cancel()

    assert await asyncio.wait_for(second, 1) is connection


async def test_a_lost_connection_makes_room_for_a_caller_that_waits() -> None:
    one, other = FakeConnection(), FakeConnection()
    pool = pool_of(one, other)
    await pool.wait()
    waiting = asyncio.create_task(pool.wait())
    await asyncio.sleep(0)

    one.terminate()
    pool.give(as_connection(one))

    assert await asyncio.wait_for(waiting, 1) is other
    assert pool.size == 1


async def test_connections_in_use_are_closed_after_they_expire() -> None:
    connections = [FakeConnection() for _ in range(3)]
    pool = pool_of(*connections, most=2)
    used, free = [await pool.wait() for _ in range(2)]
    pool.give(free)

    pool.expire()
    assert [each.is_closed() for each in connections[:2]] == [False, True]
    pool.give(used)

    assert used.is_closed()
    assert pool.size == 0
    assert await pool.wait() is connections[2]


async def test_callers_do_not_wait_for_silent_connections_that_are_planned(
    dsn: str, tmp_path: Path
) -> None:
    is_planning = asyncio.Event()

    async def plan(connection: Connection) -> None:
        is_planning.set()
        await connection.execute("select pg_sleep(60)")

    async with Gate.open(dsn, tmp_path) as gate:

        async def connect() -> Connection:
            return await asyncpg.connect(gate.dsn, connection_class=Connection)

        pool = Pool(connect, warm=plan, most=5, idle_seconds=0, timeout_seconds=30)
        lent = await pool.wait()
        waiting = asyncio.create_task(pool.wait())
        await is_planning.wait()
        gate.fall_silent()

        lent.terminate()  # Its call got no response in time.
        pool.give(lent)
        pool.expire()

        connection = await asyncio.wait_for(waiting, 5)
        assert await connection.fetchval("select 1") == 1
        pool.give(connection)
        await pool.close()


async def test_an_attempt_that_connects_while_the_pool_closes_leaves_no_connection() -> None:
    connection = FakeConnection()
    may_connect = asyncio.Event()

    async def connect() -> Connection:
        await may_connect.wait()
        return as_connection(connection)

    database = Database("", Connecting())
    database._pool = pool = Pool(  # pyright: ignore[reportPrivateUsage]
        connect, warm=None, most=1, idle_seconds=0, timeout_seconds=5
    )
    late = asyncio.create_task(database.fetch("now"))
    await asyncio.sleep(0)
    await pool.close()
    may_connect.set()

    with pytest.raises(Draining):
        await late
    assert connection.is_closed()


async def test_calls_after_the_end_are_rejected_and_running_ones_finish(dsn: str) -> None:
    database = await Database.open(dsn, Connecting(connections=2))
    async with stuck(dsn, database) as call:
        closing = asyncio.create_task(database.close())
        await asyncio.sleep(0)
        with pytest.raises(Draining):
            await database.fetch("now")
    assert await call
    await closing


async def test_the_types_of_arguments_are_read_once_per_process(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The query for types takes 2.5 ms in each session."""
    database = await Database.open(dsn, Connecting(connections=3))
    call = ("segments", [1], [0])
    await database.fetch(*call)
    asked: list[object] = []
    read = asyncpg.Connection._introspect_types  # pyright: ignore

    async def note(connection: Any, oids: Any, timeout: Any) -> Any:  # noqa: ANN401, ASYNC109
        asked.append(oids)
        return await read(connection, oids, timeout)  # pyright: ignore

    monkeypatch.setattr(asyncpg.Connection, "_introspect_types", note)
    database._pool.expire()  # pyright: ignore[reportPrivateUsage]
    await database.fetch(*call)
    await database.close()

    assert asked == []


async def test_a_connection_whose_planning_takes_too_long_is_used_without_delay(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its planning is cancelled, and calls must not wait for that."""
    monkeypatch.setattr("queen.store.connection.connector._WARM_SECONDS", 0.2)
    connection = await asyncpg.connect(dsn)
    await connection.execute(
        "create or replace function queen.warm () returns void language sql as"
        " $$ select pg_sleep(60) $$"
    )
    await connection.close()
    async with asyncio.timeout(8):
        database = await Database.open(dsn, Connecting(is_warmed=True))
        assert await database.fetch("now")
        await database.close()


async def test_a_call_without_a_response_is_ended_by_the_common_timer(dsn: str) -> None:
    how = Connecting(connections=1, statement_seconds=1, silence_seconds=0.2)
    database = await Database.open(dsn, how)
    connection = await asyncpg.connect(dsn)
    await connection.execute(
        "create or replace function queen.now () returns timestamptz language plpgsql as"
        " $$ begin perform pg_sleep(10); return clock_timestamp(); end $$"
    )
    async with asyncio.timeout(5):
        with pytest.raises(OutcomeUnknown, match="no response within"):
            await database.fetch("now")
    await connection.close()
    await database.close()


async def failing() -> Connection:
    await asyncio.sleep(0)
    raise ConnectionRefusedError


async def nothing_to_plan(connection: Connection) -> None:
    del connection


async def test_a_caller_cancelled_while_a_connection_is_returned_ends_as_cancelled() -> None:
    pool = pool_of(FakeConnection())
    lent = await pool.wait()
    waiter = asyncio.create_task(pool.wait())
    await asyncio.sleep(0)

    waiter.cancel()
    pool.give(lent)

    with pytest.raises(asyncio.CancelledError):
        await waiter
    assert await pool.wait() is lent


def pool_of(*connections: "FakeConnection", most: int = 1) -> Pool:
    left = iter(connections)

    async def connect() -> Connection:
        return as_connection(next(left))

    return Pool(connect, warm=None, most=most, idle_seconds=0, timeout_seconds=5)


def as_connection(connection: "FakeConnection") -> Connection:
    return connection  # pyright: ignore


class FakeConnection:
    """A connection without a server."""

    def __init__(self) -> None:
        self._is_closed = False

    def is_closed(self) -> bool:
        return self._is_closed

    def terminate(self) -> None:
        self._is_closed = True

    async def close(self) -> None:
        self._is_closed = True
