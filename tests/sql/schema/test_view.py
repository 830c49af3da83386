"""`queen.messages` shows one row per message, for users of psql."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import uuid4

import asyncpg
import msgspec
import pytest

from queen.engine.engine import Engine
from queen.wire.messages import PushItem
from tests.engine.helpers import drain, item, pop_one, purge, push, settle

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]


@pytest.fixture
async def psql(dsn: str) -> AsyncIterator["Connection"]:
    connection = await asyncpg.connect(dsn)
    yield connection
    await connection.close()


async def look(psql: "Connection", columns: str) -> list[tuple[object, ...]]:
    rows = await psql.fetch(
        f'select {columns} from queen.messages order by queue, partition, priority, "offset"'
    )
    return [tuple(row) for row in rows]


async def test_a_message_is_a_row_with_its_place(engine: Engine, psql: "Connection") -> None:
    await push(engine, "orders", 1, 2, partition="a")
    await push(engine, "orders", 3, partition="a")
    await push(engine, "orders", 4, partition="b")
    await push(engine, "mails", 5)

    assert await look(psql, 'queue, partition, "offset", payload') == [
        ("mails", "Default", 0, "5"),
        ("orders", "a", 0, "1"),
        ("orders", "a", 1, "2"),
        ("orders", "a", 2, "3"),
        ("orders", "b", 0, "4"),
    ]


async def test_payloads_are_shown_as_they_were_sent(engine: Engine, psql: "Connection") -> None:
    sent = [
        '{"b": 1,  "a": 12345678901234567890123}',
        '"grüße ⚡ \\u0041"',
        "[]",
        '"' + "x" * 100_000 + '"',
        " null",
    ]
    await engine.push([PushItem(queue="orders", payload=text.encode()) for text in sent])

    assert await look(psql, "payload") == [(text,) for text in sent]


async def test_extras_are_shown_with_their_message(engine: Engine, psql: "Connection") -> None:
    await engine.push(
        [
            item("orders", 1),
            item("orders", 2, transaction_id="order-2", headers={"grüße": "⚡"}),
            item("orders", 3, trace_id=str(uuid4())),
            item("orders", 4),
        ]
    )
    await push(engine, "orders", 5)

    shown = await look(
        psql,
        "payload, extras ->> 'transactionId', extras -> 'headers' ->> 'grüße', extras is not null",
    )
    assert shown == [
        ("1", None, None, False),
        ("2", "order-2", "⚡", True),
        ("3", None, None, True),
        ("4", None, None, False),
        ("5", None, None, False),
    ]


async def test_partition_id_and_time_equal_those_of_the_delivery(
    engine: Engine, psql: "Connection"
) -> None:
    await push(engine, "orders", 1)
    delivery = await pop_one(engine, "orders")
    (message,) = delivery.messages()

    shown = await look(psql, 'partition_id, "offset", created_at, expires_at')

    assert shown == [(delivery.partition_id, message.offset, message.created_at, None)]


async def test_priority_and_time_to_live_are_shown(engine: Engine, psql: "Connection") -> None:
    await engine.queues.configure("jobs", {"ordered": False})
    await engine.push([item("jobs", 1, priority=7, ttl_seconds=60.0), item("jobs", 2)])

    assert await look(
        psql, "payload, priority, extract(epoch from expires_at - created_at)::integer"
    ) == [("2", 0, None), ("1", 7, 60)]


async def test_settled_messages_are_shown_and_purged_ones_are_not(
    engine: Engine, psql: "Connection"
) -> None:
    await push(engine, "orders", 1, 2, partition="a")
    await push(engine, "orders", 3, partition="a")
    await settle(engine, await pop_one(engine, "orders", batch=2), 0)
    assert await look(psql, "payload") == [("1",), ("2",), ("3",)]

    await purge(engine, "orders")
    assert await look(psql, "payload") == []

    await push(engine, "orders", 4, partition="a")
    assert await look(psql, '"offset", payload') == [(3, "4")]
    assert await drain(engine, "orders") == [4]


async def test_scheduled_messages_are_not_shown_before_their_time(
    engine: Engine, psql: "Connection"
) -> None:
    later = datetime(2100, 1, 1, tzinfo=UTC)
    await engine.push([item("orders", 1, available_at=later), item("orders", 2)])

    assert await look(psql, "payload") == [("2",)]


async def test_users_can_query_values_inside_payloads(engine: Engine, psql: "Connection") -> None:
    orders = [{"total": total, "items": [{"name": f"book {total}"}]} for total in (5, 50, 500)]
    await engine.push(
        [PushItem(queue="orders", payload=msgspec.json.encode(order)) for order in orders]
    )

    rows = await psql.fetch(
        """
        select payload::jsonb #>> '{items,0,name}' as name
        from queen.messages
        where queue = 'orders' and (payload::jsonb ->> 'total')::integer > 10
        order by "offset"
        """
    )

    assert [row["name"] for row in rows] == ["book 50", "book 500"]
