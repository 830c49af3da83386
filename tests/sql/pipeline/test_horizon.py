"""The transaction that readers of whole queues wait for is named, wherever it is open."""

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import asyncpg
import pytest

from queen.horizon import holder
from tests.sql.calls import run
from tests.support.postgres import Postgres, Server

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server of its own: no other test holds its horizon back, and it allows to prepare."""
    settings = {"max_prepared_transactions": 2, "wal_level": "logical"}
    with Postgres(settings, in_memory=True) as server:
        yield server


@pytest.fixture
def other(server: Server) -> str:
    return server.create_database(f"other_{uuid4().hex[:8]}")


@pytest.fixture
async def writer(other: str) -> AsyncIterator["Connection"]:
    connection = await asyncpg.connect(other)
    yield connection
    await connection.close()


@pytest.fixture
async def reader(server: Server) -> AsyncIterator["Connection"]:
    connection = await asyncpg.connect(server.dsn())
    yield connection
    await connection.close()


async def found(connection: "Connection") -> list[Any]:
    return await run(connection, ("horizon_holder",))


async def test_a_transaction_of_another_database_holds_the_horizon_back(
    reader: "Connection", writer: "Connection"
) -> None:
    assert await found(reader) == []
    await writer.execute("begin; create table t ()")
    database = await writer.fetchval("select current_database()")

    (row,) = await found(reader)

    assert (row["kind"], row["pid"]) == ("session", writer.get_server_pid())
    assert holder(row).startswith(f"pid {row['pid']} of database {database} since ")
    assert 0 <= row["age_seconds"] < 60
    await writer.execute("rollback")
    assert await found(reader) == []


async def test_a_role_that_may_not_see_the_start_gets_the_rest(
    server: Server, reader: "Connection", writer: "Connection"
) -> None:
    await reader.execute("create role weak login")
    weak = await asyncpg.connect(server.dsn(), user="weak")
    await writer.execute("begin; create table t ()")

    (row,) = await found(weak)

    assert row["started_at"] is None
    assert holder(row).startswith(f"pid {writer.get_server_pid()} of database other_")
    assert holder(row).endswith("(user postgres; its start is hidden from this role)")
    await weak.close()


async def test_a_prepared_transaction_holds_the_horizon_back(
    reader: "Connection", writer: "Connection"
) -> None:
    await writer.execute("begin; create table t (); prepare transaction 'move-42'")

    (row,) = await found(reader)

    assert holder(row).startswith("prepared transaction move-42 of database other_")
    await writer.execute("rollback prepared 'move-42'")


async def test_a_reading_transaction_and_a_replication_slot_do_not(
    reader: "Connection", writer: "Connection"
) -> None:
    """They only delay vacuum."""
    await reader.execute("select pg_create_logical_replication_slot('slot', 'pgoutput')")
    await writer.execute("begin transaction isolation level repeatable read; table pg_class")
    await reader.execute("create table public.later ()")
    horizon = "select pg_snapshot_xmin(s) = pg_snapshot_xmax(s) from pg_current_snapshot() s"

    assert await found(reader) == []
    assert await reader.fetchval(horizon)
    await reader.execute("select pg_drop_replication_slot('slot')")
