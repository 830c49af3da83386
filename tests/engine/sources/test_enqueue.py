"""`queen.enqueue` stores a message in the application's transaction, and pushes it after commit."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from queen.engine.engine import Engine
from queen.settings import Settings
from queen.store.outbox import Outbox
from queen.wire.messages import PopRequest
from tests.engine.helpers import until, values

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]


@pytest.fixture
async def application(dsn: str) -> "AsyncGenerator[Connection]":
    connection = await asyncpg.connect(dsn)
    yield connection
    await connection.close()


@pytest.fixture
async def slow(dsn: str) -> "AsyncGenerator[Connection]":
    """A connection of another application, whose transaction stays open."""
    connection = await asyncpg.connect(dsn)
    yield connection
    await connection.close()


async def enqueue(connection: "Connection", payload: object, partition: str = "Default") -> None:
    await connection.execute(
        "select queen.enqueue('orders', $1, partition => $2)", json.dumps(payload), partition
    )


async def take(engine: Engine, count: int) -> list[Any]:
    """The first `count` messages, in delivery order."""
    got: list[Any] = []
    async with asyncio.timeout(10):
        while len(got) < count:
            request = PopRequest(
                queue="orders", batch=1000, partitions=100, wait=True, auto_ack=True
            )
            got += values(await engine.pop(request))
    return got


async def nothing_is_left(connection: "Connection") -> bool:
    return not await connection.fetchval("select count(*) from queen.outbox")


async def is_asleep(connection: "Connection") -> bool:
    return not await connection.fetchval("select is_awake from queen.appender")


async def test_an_enqueued_message_is_delivered_after_the_commit(
    engine: Engine, application: "Connection"
) -> None:
    await engine.queues.configure("orders")
    async with application.transaction():
        await enqueue(application, {"n": 1})
        await enqueue(application, {"n": 2})

    assert await take(engine, 2) == [{"n": 1}, {"n": 2}]
    await until(lambda: nothing_is_left(application))


async def test_a_payload_is_delivered_byte_for_byte(
    engine: Engine, application: "Connection"
) -> None:
    await engine.queues.configure("orders")
    text = '{"z": 123456789012345678901234567890,  "a":null,"u":"\\u0000é"}'
    await application.execute("select queen.enqueue('orders', $1)", text)

    async with asyncio.timeout(10):
        (delivery,) = await engine.pop(PopRequest(queue="orders", wait=True))
    assert bytes(delivery.payloads()[0]).decode() == text


async def test_a_rolled_back_message_is_never_delivered(
    engine: Engine, application: "Connection"
) -> None:
    await engine.queues.configure("orders")
    transaction = application.transaction()
    await transaction.start()
    await enqueue(application, "never")
    await transaction.rollback()
    await enqueue(application, "comes")

    assert await take(engine, 1) == ["comes"]
    await until(lambda: nothing_is_left(application))


async def test_a_transaction_that_stays_open_delays_no_other(
    engine: Engine, application: "Connection", slow: "Connection"
) -> None:
    await engine.queues.configure("orders")
    transaction = slow.transaction()
    await transaction.start()
    await enqueue(slow, "first put down", "p")
    for number in range(20):
        await enqueue(application, number, "p")

    assert await take(engine, 20) == list(range(20))
    await transaction.commit()
    assert await take(engine, 1) == ["first put down"]


async def test_a_transaction_that_outlasts_the_appender_is_moved(
    engine: Engine,
    application: "Connection",
    slow: "Connection",
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The appender was awake when it enqueued, so it sent no notification."""
    monkeypatch.setattr("queen.engine.sources.outbox._AWAKE_SECONDS", 0.05)
    await engine.queues.configure("orders")
    await enqueue(application, 1)
    assert await take(engine, 1) == [1]
    transaction = slow.transaction()
    await transaction.start()
    await enqueue(slow, 2)
    await until(lambda: is_asleep(application))

    await transaction.commit()

    assert await take(engine, 1) == [2]


async def test_two_transactions_that_outlast_the_appender_are_moved(
    engine: Engine,
    application: "Connection",
    slow: "Connection",
    dsn: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither sent a notification. When the first one is moved, the second one is still open."""
    monkeypatch.setattr("queen.engine.sources.outbox._AWAKE_SECONDS", 0.05)
    await engine.queues.configure("orders")
    await enqueue(application, 1)
    assert await take(engine, 1) == [1]
    slower = await asyncpg.connect(dsn)
    transactions = [slow.transaction(), slower.transaction()]
    for number, (each, transaction) in enumerate(zip((slow, slower), transactions, strict=True), 2):
        await transaction.start()
        await enqueue(each, number)
    await until(lambda: is_asleep(application))

    await transactions[0].commit()
    assert await take(engine, 1) == [2]
    await until(lambda: is_asleep(application))
    await transactions[1].commit()

    async with asyncio.timeout(5):  # The longest pause between two searches is 2 seconds.
        assert await take(engine, 1) == [3]
    await slower.close()


async def test_going_to_sleep_waits_for_all_transactions_with_an_id(
    engine: Engine, application: "Connection", slow: "Connection"
) -> None:
    """Including one whose ID directly follows the last one that ended."""
    transaction, ended = slow.transaction(), application.transaction()
    await ended.start()
    await application.execute("select pg_current_xact_id()")
    await transaction.start()
    await enqueue(slow, 1)
    await ended.commit()
    outbox = engine.store.outbox

    next_xid = await outbox.next_xid()

    assert await outbox.open_xid() < next_xid
    await transaction.commit()
    assert await outbox.open_xid() >= next_xid


async def test_a_long_transaction_is_polled_only_now_and_then(
    engine: Engine,
    application: "Connection",
    slow: "Connection",
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may belong to any database of the cluster. Later messages do not wait for it."""
    monkeypatch.setattr("queen.engine.sources.outbox._AWAKE_SECONDS", 0.05)
    await engine.queues.configure("orders")
    transaction = slow.transaction()
    await transaction.start()
    await slow.execute("select pg_current_xact_id()")
    await enqueue(application, 1)
    assert await take(engine, 1) == [1]
    await until(lambda: is_asleep(application))
    looks = 0
    open_xid = engine.store.outbox.open_xid

    async def look() -> int:
        nonlocal looks
        looks += 1
        return await open_xid()

    async def has_looked() -> bool:
        return looks >= 8

    monkeypatch.setattr(engine.store.outbox, "open_xid", look)
    began = time.monotonic()
    await until(has_looked, seconds=30)

    assert time.monotonic() - began > 0.3  # Not every 5 ms.
    await enqueue(application, 2)
    assert await take(engine, 1) == [2]
    await transaction.rollback()


async def test_two_processes_move_each_message_once(
    engine: Engine, application: "Connection", dsn: str
) -> None:
    await engine.queues.configure("orders")
    async with await Engine.open(dsn) as other:
        for start in range(0, 300, 30):
            async with application.transaction():
                for number in range(start, start + 30):
                    await enqueue(application, number, f"p{number % 7}")
            engine.outbox_mover.wake()
            other.outbox_mover.wake()
        got = await take(engine, 300)
        await until(lambda: nothing_is_left(application))
    assert sorted(got) == list(range(300))
    stored = await application.fetchval("select sum(message_count) from queen.segments")
    assert stored == 300
    for remainder in range(7):
        mine = [number for number in got if number % 7 == remainder]
        assert mine == sorted(mine)


async def test_a_known_transaction_id_is_stored_once(
    engine: Engine, application: "Connection"
) -> None:
    await engine.queues.configure("orders")
    for _ in range(3):
        await application.execute(
            "select queen.enqueue('orders', '1', transaction_id => 'only once')"
        )
    await enqueue(application, "last")

    assert await take(engine, 2) == [1, "last"]
    await until(lambda: nothing_is_left(application))
    assert await application.fetchval("select sum(message_count) from queen.segments") == 2


async def test_a_full_queue_or_a_schema_does_not_lose_committed_messages(
    engine: Engine, application: "Connection"
) -> None:
    await engine.queues.configure("orders", {"max_size": 1, "schema": {"type": "integer"}})
    for each in (1, 2, "three"):
        await enqueue(application, each)

    assert await take(engine, 3) == [1, 2, "three"]


async def test_a_message_that_cannot_be_pushed_is_set_aside_with_its_reason(
    engine: Engine, application: "Connection"
) -> None:
    await engine.queues.configure("orders")
    await application.execute("select queen.enqueue('orders', '1', priority => 5)")
    await enqueue(application, "good")

    assert await take(engine, 1) == ["good"]
    (row,) = await application.fetch("select error from queen.outbox")
    assert "unordered" in row["error"]


async def test_a_name_that_only_a_server_rejects_blocks_no_other_message(
    engine: Engine, application: "Connection"
) -> None:
    """SQL accepts it because it strips only spaces, not all white space."""
    await engine.queues.configure("orders")
    async with application.transaction():
        await application.execute("select queen.enqueue($1, '1')", "\u00a0orders")
        await enqueue(application, "good")

    assert await take(engine, 1) == ["good"]
    (row,) = await application.fetch("select error from queen.outbox")
    assert "outer spaces" in row["error"]


async def test_more_messages_than_a_request_allows_are_moved(
    dsn: str, application: "Connection"
) -> None:
    async with await Engine.open(dsn, settings=Settings(max_items=10)) as engine:
        await engine.queues.configure("orders")
        async with application.transaction():
            for number in range(25):
                await enqueue(application, number)

        assert await take(engine, 25) == list(range(25))


async def test_messages_that_another_process_moved_block_no_others(
    dsn: str, application: "Connection", monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The other process moved the first of two after this one read both, so this step was rolled back.
    """
    async with application.transaction():
        await enqueue(application, "of the other")
        await enqueue(application, "left")
    read = Outbox.read

    async def read_and_lose(outbox: Outbox, first_xid: int, limit: int) -> list[Any]:
        rows = await read(outbox, first_xid, limit)
        if len(rows) == 2:
            await application.execute("delete from queen.outbox where id = $1", rows[0]["id"])
            await enqueue(application, "later")
            monkeypatch.undo()
        return rows

    monkeypatch.setattr(Outbox, "read", read_and_lose)
    async with await Engine.open(dsn) as engine:
        await engine.queues.configure("orders")
        assert await take(engine, 2) == ["left", "later"]


async def test_a_message_enqueued_after_a_commit_is_delivered_after_it(
    dsn: str, application: "Connection", slow: "Connection"
) -> None:
    """The order of transaction IDs does not matter: one may have waited for a lock of the other."""
    await application.execute("create table orders (id integer)")
    transaction = slow.transaction()
    await transaction.start()
    await slow.execute("insert into orders values (1)")
    await enqueue(application, "first")
    await enqueue(slow, "second")
    await transaction.commit()

    async with await Engine.open(dsn) as engine:
        await engine.queues.configure("orders")
        assert await take(engine, 2) == ["first", "second"]


async def test_a_delay_is_respected(engine: Engine, application: "Connection") -> None:
    await engine.queues.configure("orders")
    await application.execute("select queen.enqueue('orders', '1', delay_seconds => 0.5)")
    begun = asyncio.get_running_loop().time()

    assert await take(engine, 1) == [1]
    assert asyncio.get_running_loop().time() - begun > 0.4


@pytest.mark.parametrize(
    "call",
    [
        "'', '1'",
        "'__x', '1'",
        "' x', '1'",
        "'x', null",
        "E'a\\nb', '1'",
        "'x', '1', partition => ''",
    ],
)
async def test_an_invalid_name_is_rejected_immediately(
    engine: Engine, application: "Connection", call: str
) -> None:
    with pytest.raises(asyncpg.PostgresError) as refused:
        await application.execute(f"select queen.enqueue({call})")
    assert refused.value.sqlstate == "QN015"


async def test_a_payload_that_is_not_json_is_rejected_immediately(
    application: "Connection",
) -> None:
    with pytest.raises(asyncpg.InvalidTextRepresentationError):
        await application.execute("select queen.enqueue('orders', '{')")


async def test_a_process_closes_while_a_message_is_enqueued(dsn: str) -> None:
    """The wake-up and the close happen in one iteration of the event loop."""
    for _ in range(5):
        engine = await Engine.open(dsn)
        engine.outbox_mover.wake()
        async with asyncio.timeout(10):
            await engine.close()


async def test_an_old_transaction_is_polled_less_and_less_often(
    engine: Engine,
    application: "Connection",
    slow: "Connection",
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []
    until_woken = engine.outbox_mover.until_woken

    async def note(seconds: float) -> None:
        if seconds <= 2.0:  # The safety poll waits longer.
            pauses.append(seconds)
            seconds = 0.0
        await until_woken(seconds)

    open_ = slow.transaction()
    await open_.start()
    await slow.execute("select pg_current_xact_id()")
    monkeypatch.setattr(engine.outbox_mover, "until_woken", note)
    await enqueue(application, 1)
    assert await take(engine, 1) == [1]

    async def is_patient() -> bool:
        return any(1.0 <= pause <= 2.0 for pause in pauses)

    await until(is_patient, seconds=30)
    await open_.rollback()
    assert pauses.index(max(pauses)) < 15
