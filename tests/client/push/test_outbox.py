"""Pushes inside the application's own transaction, with every supported driver."""

import asyncio
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine

from queen import Queen, errors, outbox

ITEMS: list[dict[str, Any]] = [
    {"data": {"n": 1}, "transactionId": "t-1", "headers": {"a": "b"}},
    {"data": None},
]


async def arrived(queen: Queen, name: str) -> list[Any]:
    """Both messages, after a server has moved them to the log."""
    found: list[Any] = []
    async with asyncio.timeout(20):
        while len(found) < 2:
            try:
                found += await queen.queue(name).batch(10).wait(True).timeout_millis(5_000).pop()
            except errors.QueueNotFound:
                continue
            await queen.ack(found)
    return found


def check(messages: list[Any]) -> None:
    assert [message.data for message in messages] == [{"n": 1}, None]
    assert [message.partition for message in messages] == ["p", "p"]
    assert (messages[0].transaction_id, messages[0].headers) == ("t-1", {"a": "b"})


async def test_asyncpg(queen: Queen, dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        transaction = connection.transaction()
        await transaction.start()
        await outbox.push(connection, "never", ITEMS)
        await transaction.rollback()
        async with connection.transaction():
            await outbox.push(connection, "orders", ITEMS, partition="p")
    finally:
        await connection.close()

    check(await arrived(queen, "orders"))
    with pytest.raises(errors.QueueNotFound):
        await queen.queue("never").pop()


async def test_psycopg(queen: Queen, dsn: str) -> None:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await outbox.push(connection, "orders", ITEMS, partition="p")
    check(await arrived(queen, "orders"))

    def without_await() -> None:
        with psycopg.connect(dsn) as connection:
            outbox.push_sync(connection, "others", ITEMS, partition="p")

    await asyncio.to_thread(without_await)
    check(await arrived(queen, "others"))


async def test_sqlalchemy(queen: Queen, dsn: str) -> None:
    url = dsn.replace("postgresql://", "postgresql+asyncpg://")
    engine = create_async_engine(url)
    async with engine.begin() as connection:
        await outbox.push(connection, "orders", ITEMS, partition="p")
    await engine.dispose()
    check(await arrived(queen, "orders"))

    def without_await() -> None:
        sync = sqlalchemy.create_engine(dsn.replace("postgresql://", "postgresql+psycopg://"))
        with sync.begin() as connection:
            outbox.push_sync(connection, "others", ITEMS, partition="p")
        sync.dispose()

    await asyncio.to_thread(without_await)
    check(await arrived(queen, "others"))


async def test_an_item_is_checked_before_it_is_sent(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        with pytest.raises(errors.InvalidItem, match="did you mean"):
            await outbox.push(connection, "orders", [{"data": 1, "header": {}}])
        with pytest.raises(errors.BadRequest, match="not a supported connection"):
            await outbox.push(object(), "orders", [{"data": 1}])
    finally:
        await connection.close()
