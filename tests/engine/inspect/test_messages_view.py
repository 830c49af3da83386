"""The view `queen.messages` shows one row per message."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from queen.codec.ids import reference
from queen.engine.engine import Engine
from queen.wire.messages import PushItem
from tests.engine.helpers import item, purge, push

COLUMNS = 'queue, partition, "offset", payload, extras::text, priority'


@pytest.fixture
async def psql(dsn: str) -> "AsyncIterator[asyncpg.Connection[asyncpg.Record]]":
    """A connection of a user with a SQL console."""
    connection = await asyncpg.connect(dsn)
    yield connection
    await connection.close()


async def test_a_message_is_a_row(
    engine: Engine, psql: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    await engine.push(
        [
            item("orders", {"n": 1}, partition="one"),
            item("orders", "żółw", partition="one", transaction_id="t", headers={"k": "v"}),
            item("orders", None, partition="one", trace_id="trace"),
        ]
    )

    rows = await psql.fetch(f'select {COLUMNS} from queen.messages order by "offset"')

    assert [tuple(row) for row in rows] == [
        ("orders", "one", 0, '{"n":1}', None, 0),
        ("orders", "one", 1, '"żółw"', '{"transactionId":"t","headers":{"k":"v"}}', 0),
        ("orders", "one", 2, "null", '{"traceId":"trace"}', 0),
    ]


async def test_payloads_are_shown_as_they_were_sent(
    engine: Engine, psql: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    payloads = [b'"\\u0000"', b'{ "z":1, "a" : 12345678901234567890123 }', b'""', b" 1 "]
    await engine.push([PushItem(queue="orders", payload=each) for each in payloads])

    rows = await psql.fetch('select payload from queen.messages order by "offset"')

    assert [row["payload"].encode() for row in rows] == payloads


async def test_times_priorities_and_offsets_are_shown(
    engine: Engine, psql: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    await engine.queues.configure("jobs", {"ordered": False})
    (pushed,) = await push(engine, "jobs", "a", priority=4, ttl_seconds=60)

    row = await psql.fetchrow("select * from queen.messages")

    assert row is not None
    assert (row["priority"], reference(row["partition_id"])) == (4, pushed.partition_id)
    assert (row["expires_at"] - row["created_at"]).total_seconds() == 60


async def test_purged_messages_are_not_shown(
    engine: Engine, psql: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    await push(engine, "orders", "a", "b")
    await purge(engine, "orders")
    await push(engine, "orders", "c")

    rows = await psql.fetch('select "offset", payload from queen.messages')

    assert [tuple(row) for row in rows] == [(2, '"c"')]


async def test_offsets_are_dense_over_segments(
    engine: Engine, psql: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    for size in (1, 3, 2, 5):
        await push(engine, "orders", *range(size))

    rows = await psql.fetch('select "offset" from queen.messages order by "offset"')

    assert [row["offset"] for row in rows] == list(range(11))
