"""Keys of the previous release stay known after migration 0028, and while its servers run."""

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from queen.engine.engine import Engine
from queen.store.migrations import migrate
from tests.engine.helpers import push
from tests.sql.schema.earlier import earlier
from tests.support.postgres import Server

HERE = Path(__file__).parent
BEFORE = {
    "push": (HERE / "before_key_blocks.sql").read_text("utf-8"),
    "partition_ids": (HERE / "before_slots.sql").read_text("utf-8"),
    **dict.fromkeys(("dedup_blocks", "push_keys", "new_queue")),
}
PUSH = """
select p.kind, p."offset"
from queen.push(
  array[$1::bigint], array[1], array['1'::bytea], array['\\x0000000001000000'::bytea], null, null,
  queen.dedup_key($1, $2), array[1], array[0], array[1]
) p
"""
"""As a server of the previous release."""
PARTITION = """
select p.partition_id
from queen.partition_ids(array['orders'], array['{}'], array[0::smallint], true, null) p
"""


@pytest.fixture
async def previous(postgres: Server) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    """A connection to a database with the schema of the previous release."""
    async with earlier(postgres, before="0028", functions=BEFORE) as connection:
        yield connection


async def test_keys_of_the_previous_release_are_duplicates(
    previous: "asyncpg.Connection[asyncpg.Record]", postgres: Server
) -> None:
    partition_id = await previous.fetchval(PARTITION.format("p"))
    older = await previous.prepare(PUSH)
    for n in range(20):
        assert await older.fetchrow(partition_id, f"old {n}") == ("stored", n)
    dsn = postgres.dsn(await previous.fetchval("select current_database()"))

    assert (await migrate(dsn))[0] == "0028_key_blocks"

    async with await Engine.open(dsn) as engine:
        for n in range(20):
            (known,) = await push(engine, "orders", 1, partition="p", transaction_id=f"old {n}")
            assert (known.status, known.offset) == ("duplicate", n)
        (new,) = await push(engine, "orders", 1, partition="p", transaction_id="new")
        assert (new.status, new.offset) == ("queued", 20)
        # A server of the previous release has not been replaced yet.
        assert await older.fetchrow(partition_id, "new") == ("duplicate", 20)
        assert await older.fetchrow(partition_id, "old 7") == ("duplicate", 7)
        assert await older.fetchrow(partition_id, "later") == ("stored", 21)
        (later,) = await push(engine, "orders", 1, partition="p", transaction_id="later")
        assert (later.status, later.offset) == ("duplicate", 21)


async def test_a_partition_of_the_new_release_has_no_rows_to_search(
    previous: "asyncpg.Connection[asyncpg.Record]", postgres: Server
) -> None:
    await previous.fetchval(PARTITION.format("old"))
    dsn = postgres.dsn(await previous.fetchval("select current_database()"))
    await migrate(dsn)

    async with await Engine.open(dsn) as engine:
        await push(engine, "orders", 1, partition="new", transaction_id="t")

    names = await previous.fetch(
        "select p.name from queen.dedup_rows r join queen.partitions p on p.id = r.partition_id"
    )
    assert [row["name"] for row in names] == ["old"]
