"""Messages that leave their segment together read it once."""

import json
import random
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import asyncpg
import pytest

from queen.engine.engine import Engine
from queen.wire.messages import Acknowledgment, PushItem
from tests.engine.helpers import dead_letters, lease, pop, pop_one
from tests.support.clock import Clock

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

WORDS = ["alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india"]
COUNT = 1_000


@pytest.fixture
async def connection(dsn: str) -> AsyncIterator["Connection"]:
    connection = await asyncpg.connect(dsn)
    yield connection
    await connection.close()


def items(queue: str) -> list[PushItem]:
    """Messages of about 220 bytes that compress like text, with similar headers."""
    dice = random.Random(1)

    def text() -> str:
        return " ".join(dice.choices(WORDS, k=32))

    return [
        PushItem(
            queue=queue,
            payload=json.dumps({"id": number, "text": text()}).encode(),
            headers={"text": text()},
            transaction_id=f"t{number}",
        )
        for number in range(COUNT)
    ]


async def pages_read(connection: "Connection") -> int:
    """The number of reads of the segments' TOAST table so far, by all sessions."""
    return await connection.fetchval(
        "select toast_blks_hit + toast_blks_read from pg_statio_all_tables"
        " where relid = 'queen.segments'::regclass"
    )


async def report_all(engine: Engine) -> None:
    """End the sessions of an engine, so that they report their statistics."""
    await engine.close()


async def test_an_eviction_reads_a_segment_once(
    dsn: str, clock: Clock, connection: "Connection"
) -> None:
    engine = await Engine.open(dsn)
    await engine.queues.configure("orders", {"max_wait_seconds": 60})
    await engine.push(items("orders"))
    await pop(engine, "orders", partition="another")
    await clock.advance(seconds=61)
    await report_all(engine)
    before = await pages_read(connection)

    engine = await Engine.open(dsn)
    assert await pop(engine, "orders") == []
    letters = await dead_letters(engine, "orders", limit=COUNT + 1)
    await report_all(engine)

    assert [letter["payload"] for letter in letters] == [each.payload for each in items("orders")]
    assert all(b"headers" in letter["extras"] for letter in letters)
    assert await pages_read(connection) - before < COUNT / 2


async def test_acks_by_transaction_id_read_extras_once(dsn: str, connection: "Connection") -> None:
    engine = await Engine.open(dsn)
    await engine.push(items("orders"))
    delivery = await pop_one(engine, "orders", batch=COUNT)
    await report_all(engine)
    before = await pages_read(connection)

    engine = await Engine.open(dsn)
    (answer,) = await engine.acknowledge(
        [Acknowledgment(transaction_id="t7", lease_id=lease(delivery), status="completed")]
    )
    await report_all(engine)

    assert answer.success
    assert await pages_read(connection) - before < COUNT / 2
