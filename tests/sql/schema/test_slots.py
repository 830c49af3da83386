"""A database that was in use keeps its ids, and places all queues in slot 0."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
import pytest

from queen import errors, sql
from queen.engine.engine import Engine
from queen.store.migrations import migrate, pending, script
from tests.engine.helpers import push
from tests.sql.schema.earlier import earlier
from tests.support.postgres import Server

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

BEFORE = {
    "partition_ids": Path(__file__).with_name("before_slots.sql").read_text("utf-8"),
    "new_queue": None,
}
PARTITION = """
select p.partition_id
from queen.partition_ids(array['orders'], array['p'], array[0::smallint], true, null) p
"""
SLOTS = "select distinct slot from queen.queues"


@pytest.fixture
async def previous(postgres: Server) -> AsyncIterator["Connection"]:
    """A connection to a database with the schema of the previous release."""
    async with earlier(postgres, before="0031", functions=BEFORE) as connection:
        yield connection


async def test_a_database_in_use_stays_in_slot_0(previous: "Connection", postgres: Server) -> None:
    partition_id = await previous.fetchval(PARTITION)
    dsn = postgres.dsn(await previous.fetchval("select current_database()"))

    assert (await migrate(dsn))[0] == "0031_slots"

    async with await Engine.open(dsn) as engine:
        (first,) = await push(engine, "orders", 1, partition="p")
        (other,) = await push(engine, "other", 1, partition="p")
    assert (first.partition_id, other.partition_id) == (
        f"0.{partition_id}",
        f"0.{partition_id + 1}",
    )
    assert [row["slot"] for row in await previous.fetch(SLOTS)] == [0]


async def test_a_server_that_runs_keeps_new_queues_in_slot_0(
    previous: "Connection", postgres: Server
) -> None:
    await previous.execute(
        "insert into queen.instances (id, host, pid, version, started_at, seen_at, waiters)"
        " values ('older', 'host', 1, '0.9', now(), now(), 0)"
    )
    dsn = postgres.dsn(await previous.fetchval("select current_database()"))
    await migrate(dsn)

    async with await Engine.open(dsn) as engine:
        await push(engine, "orders", 1)

    assert [row["slot"] for row in await previous.fetch(SLOTS)] == [0]


async def test_an_empty_database_uses_the_hashed_slots(
    previous: "Connection", postgres: Server
) -> None:
    dsn = postgres.dsn(await previous.fetchval("select current_database()"))
    await migrate(dsn)

    async with await Engine.open(dsn) as engine:
        await push(engine, "orders", 1)

    (row,) = await previous.fetch(SLOTS)
    assert 1 <= row["slot"] <= 959


@pytest.mark.parametrize("is_used", [False, True])
async def test_the_previous_release_does_not_start_with_hashed_slots(
    postgres: Server, previous: "Connection", monkeypatch: pytest.MonkeyPatch, is_used: bool
) -> None:
    if is_used:
        await previous.fetchval(PARTITION)
    dsn = postgres.dsn(await previous.fetchval("select current_database()"))
    await migrate(dsn)

    monkeypatch.setattr(sql, "MIGRATIONS", {n: t for n, t in sql.MIGRATIONS.items() if n < "0031"})
    if is_used:
        assert await pending(dsn) == []
    else:
        with pytest.raises(errors.DatabaseUnsafe, match="0031_slots"):
            await pending(dsn)


async def test_the_script_of_the_migrations_marks_them_too(
    previous: "Connection", postgres: Server
) -> None:
    dsn = postgres.dsn(await previous.fetchval("select current_database()"))

    await previous.execute(await script(dsn))

    mark = await previous.fetchval(
        "select checksum from queen.migrations where name = '0031_slots'"
    )
    assert mark.endswith(" breaking")
    assert await pending(dsn) == []
