"""While PostgreSQL is unavailable, pushes go to disk. Afterwards they are stored in order, once."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec import structs

from queen import errors
from queen.engine.engine import Engine
from queen.settings import Settings
from tests.engine.buffer.helpers import drained
from tests.engine.helpers import (
    ack_all,
    drain,
    item,
    pop,
    pop_later,
    push,
    until,
    values,
)
from tests.support.postgres import Postgres


async def test_pushes_are_buffered_during_an_outage_and_stored_afterwards(
    own: Postgres, engine: Engine
) -> None:
    (first,) = await push(engine, "orders", 0)
    await asyncio.to_thread(own.stop)

    answers = [(await push(engine, "orders", n))[0] for n in range(1, 20)]
    await asyncio.to_thread(own.start)
    await drained(engine)
    (last,) = await push(engine, "orders", 20)

    assert {answer.status for answer in answers} == {"buffered"}
    assert all(answer.id is None and answer.transaction_id for answer in answers)
    assert (first.offset, last.offset) == (0, 20)
    assert await drain(engine, "orders") == [*range(21)]


async def test_a_waiting_pop_waits_for_the_database_and_other_pops_fail(
    own: Postgres, engine: Engine
) -> None:
    await push(engine, "orders", 0)
    waiting = asyncio.create_task(pop_later(engine, "later", seconds=30))
    await asyncio.to_thread(own.stop)
    with pytest.raises(errors.QueenError):
        await pop(engine, "orders")
    await push(engine, "later", 1)
    also = asyncio.create_task(pop_later(engine, "orders", seconds=30))
    await asyncio.sleep(0)
    await asyncio.to_thread(own.start)

    assert values(await waiting) == [1]
    assert values(await also) == [0]


async def test_the_buffer_of_a_killed_process_is_stored_by_the_next(
    own: Postgres, dsn: str, settings: Settings
) -> None:
    engine = await Engine.open(dsn, settings=settings)
    await push(engine, "orders", 0)
    await asyncio.to_thread(own.stop)
    await push(engine, "orders", 1, 2)
    await engine.close()

    async with await Engine.open(dsn, settings=settings, is_away=True) as engine:
        assert engine.push_fallback.is_buffering
        await push(engine, "orders", 3)
        await asyncio.to_thread(own.start)
        await drained(engine)
        assert await drain(engine, "orders") == [0, 1, 2, 3]


async def test_a_batch_whose_response_was_lost_is_stored_once(
    own: Postgres, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await push(engine, "orders", 0)
    await asyncio.to_thread(own.stop)
    for n in range(1, 6):
        await engine.push([item("orders", n)], producer_id="p", sequence=n)
        await push(engine, "orders", -n)
    store = engine.store.messages.push
    lost: list[None] = []

    async def losing(columns: object) -> object:
        rows = await store(columns)  # pyright: ignore[reportArgumentType]
        if len(lost) < 1:
            lost.append(None)
            raise errors.OutcomeUnknown("lost")
        return rows

    monkeypatch.setattr(engine.store.messages, "push", losing)
    await asyncio.to_thread(own.start)
    await drained(engine)

    assert len(lost) == 1
    assert await drain(engine, "orders") == [0, 1, -1, 2, -2, 3, -3, 4, -4, 5, -5]


async def test_a_request_that_its_producer_sent_twice_is_stored_once(
    own: Postgres, engine: Engine
) -> None:
    await engine.push([item("orders", 1)], producer_id="p", sequence=1)
    await asyncio.to_thread(own.stop)
    for n in (1, 2, 2, 3, 3, 3, 4):
        await engine.push([item("orders", n)], producer_id="p", sequence=n)
    await asyncio.to_thread(own.start)
    await drained(engine)
    assert await drain(engine, "orders") == [1, 2, 3, 4]


async def test_a_producer_that_continued_at_another_server_loses_no_message(
    own: Postgres, dsn: str, engine: Engine
) -> None:
    await engine.push([item("orders", 1)], producer_id="p", sequence=1)
    engine.hold_pushes(True)
    await engine.push([item("orders", 2)], producer_id="p", sequence=2)
    await engine.push([item("orders", 3, transaction_id="t3")], producer_id="p", sequence=3)
    async with await Engine.open(dsn) as other:
        # The response to its third request was lost.
        await other.push([item("orders", 3, transaction_id="t3")], producer_id="p", sequence=3)
        await other.push([item("orders", 4)], producer_id="p", sequence=4)
    engine.hold_pushes(False)
    await drained(engine)
    assert await drain(engine, "orders") == [1, 3, 4, 2]


async def test_two_requests_with_the_same_number_are_both_stored(
    own: Postgres, dsn: str, engine: Engine
) -> None:
    engine.hold_pushes(True)
    await engine.push([item("orders", "buffered")], producer_id="p", sequence=1)
    async with await Engine.open(dsn) as other:
        await other.push([item("orders", "stored")], producer_id="p", sequence=1)
    engine.hold_pushes(False)
    await drained(engine)

    assert await drain(engine, "orders") == ["stored", "buffered"]


async def test_a_repeat_of_a_buffered_request_returns_its_place(
    own: Postgres, engine: Engine
) -> None:
    await push(engine, "orders", 0)
    engine.hold_pushes(True)
    sent = [item("orders", 1), item("orders", 2, transaction_id="mine")]
    buffered = await engine.push(sent, producer_id="p", sequence=1, scope="acme")
    engine.hold_pushes(False)
    await drained(engine)

    again = await engine.push(sent, producer_id="p", sequence=1, scope="acme")

    assert [each.status for each in buffered] == ["buffered"] * 2
    assert [(each.status, each.offset) for each in again] == [("queued", 1), ("queued", 2)]
    assert [each.transaction_id for each in again] == [each.transaction_id for each in buffered]


async def test_only_a_message_that_is_due_too_late_fails(own: Postgres, engine: Engine) -> None:
    await push(engine, "orders", 0)
    engine.hold_pushes(True)
    late = item("orders", "late", available_at=datetime(2999, 1, 1, tzinfo=UTC))
    await engine.push([item("orders", 1), late])
    await engine.push([late, item("orders", "never")], producer_id="p", sequence=1)
    engine.hold_pushes(False)
    await drained(engine)
    assert engine.buffer is not None
    assert len(engine.buffer.folder.failed()) == 2
    assert await drain(engine, "orders") == [0, 1]


async def test_the_gate_opens_under_load_too(own: Postgres, engine: Engine) -> None:
    await push(engine, "orders", 0)
    await asyncio.to_thread(own.stop)
    answers: list[str] = []
    is_stopped = False

    async def produce(partition: str) -> None:
        n = 0
        while not is_stopped:
            n += 1
            (answer,) = await push(engine, "orders", n, partition=partition)
            answers.append(answer.status)

    tasks = [asyncio.create_task(produce(f"p{number}")) for number in range(10)]
    await asyncio.to_thread(own.start)

    async def is_open() -> bool:
        return answers[-100:].count("queued") == 100

    try:
        await until(is_open, seconds=20)
    finally:
        is_stopped = True
        await asyncio.gather(*tasks)
    await drained(engine)
    assert "buffered" in answers
    for number in range(10):
        values_of = await drain(engine, "orders", partition=f"p{number}")
        assert values_of == [*range(1, len(values_of) + 1)]


async def test_two_engines_with_one_buffer_directory_keep_one_order(
    own: Postgres, dsn: str, settings: Settings
) -> None:
    async with (
        await Engine.open(dsn, settings=settings) as one,
        await Engine.open(dsn, settings=settings) as other,
    ):
        await push(one, "orders", 0)
        await asyncio.to_thread(own.stop)
        for n in range(1, 21):
            await push((one, other)[n % 2], "orders", n)
        await asyncio.to_thread(own.start)
        for n in range(21, 200):
            await push((one, other)[n % 2], "orders", n)
        await drained(one)
        assert not other.push_fallback.is_buffering
        assert await drain(one, "orders") == [*range(200)]
        assert one.buffer is not None
        assert one.buffer.folder.files() == []


async def test_maintenance_buffers_pushes_and_its_end_stores_them(engine: Engine) -> None:
    await push(engine, "orders", 0)
    engine.hold_pushes(True)
    (answer,) = await push(engine, "orders", 1)
    assert engine.replayer is not None
    with pytest.raises(errors.DatabaseUnavailable):
        await engine.replayer.flush()
    engine.hold_pushes(False)
    await drained(engine)

    assert answer.status == "buffered"
    assert await drain(engine, "orders") == [0, 1]


async def test_without_a_buffer_directory_pushes_are_rejected(own: Postgres, dsn: str) -> None:
    async with await Engine.open(dsn) as engine:
        await push(engine, "orders", 0)
        await asyncio.to_thread(own.stop)

        async def is_refused() -> bool:
            try:
                await push(engine, "orders", 1)
            except errors.DatabaseUnavailable:
                return True
            except errors.OutcomeUnknown:
                return False
            return False

        await until(is_refused)


async def test_requests_that_cannot_be_stored_are_kept_and_can_be_retried(
    own: Postgres, engine: Engine
) -> None:
    await engine.queues.configure("free", {"ordered": False})
    await push(engine, "free", 0, priority=1)
    await asyncio.to_thread(own.stop)
    await push(engine, "free", 1, priority=2)
    await push(engine, "orders", 2)
    await asyncio.to_thread(own.start)
    # The first replay finds the queue changed.
    engine.hold_pushes(True)

    async def is_back() -> bool:
        return not engine.store.database.is_away

    await until(is_back, seconds=20)
    await engine.queues.configure("free", {"ordered": True})
    engine.hold_pushes(False)
    await drained(engine)
    assert engine.buffer is not None
    assert len(engine.buffer.folder.failed()) == 1
    assert await drain(engine, "orders") == [2]

    await ack_all(engine, await pop(engine, "free", batch=10, partitions=10))
    await engine.queues.configure("free", {"ordered": False})
    assert await engine.buffer.retry_failed() == 1
    await drained(engine)
    assert engine.buffer.folder.failed() == []
    assert await drain(engine, "free") == [1]


async def test_the_buffer_stores_messages_of_encrypted_queues_only_encrypted(
    own: Postgres, dsn: str, settings: Settings, tmp_path: Path
) -> None:
    key = structs.replace(settings, encryption_key="ab" * 32)
    async with await Engine.open(dsn, settings=key) as engine:
        await engine.queues.configure("secrets", {"encrypted": True})
        await push(engine, "secrets", "first")
        await asyncio.to_thread(own.stop)

        await push(engine, "secrets", "canary in a coal mine")

        files = [each for each in (tmp_path / "buffer").rglob("*") if each.is_file()]
        assert any(each.stat().st_size > 100 for each in files)
        assert not any(b"canary" in each.read_bytes() for each in files)
        await asyncio.to_thread(own.start)
        await drained(engine)
        assert await drain(engine, "secrets") == ["first", "canary in a coal mine"]


async def test_an_encrypted_queue_is_not_buffered_without_a_key(
    own: Postgres, dsn: str, engine: Engine
) -> None:
    await engine.queues.configure("secrets", {"encrypted": True})
    await engine.catalogue.queues({"secrets"})
    engine.catalogue.forget()  # As a listener that has just connected does.
    await asyncio.to_thread(own.stop)

    (answer,) = await push(engine, "secrets", "canary")

    assert (answer.status, answer.code) == ("failed", "encryption_unavailable")
    assert not engine.push_fallback.is_buffering


async def test_an_item_that_was_set_aside_is_stored_by_a_retry(
    own: Postgres, engine: Engine
) -> None:
    """The other items are stored under the producer's number, which does not cover this one."""
    await engine.queues.configure("free", {"ordered": False})
    await push(engine, "free", 0, priority=1)
    engine.hold_pushes(True)
    sent = [item("orders", 1), item("free", 2, priority=2)]
    await engine.push(sent, producer_id="p", sequence=1)
    await engine.queues.configure("free", {"ordered": True})
    engine.hold_pushes(False)
    await drained(engine)
    assert engine.buffer is not None
    assert len(engine.buffer.folder.failed()) == 1
    await ack_all(engine, await pop(engine, "free", batch=10, partitions=10))
    await engine.queues.configure("free", {"ordered": False})

    assert await engine.buffer.retry_failed() == 1
    await drained(engine)

    assert await drain(engine, "free") == [2]
    assert await drain(engine, "orders") == [1]
    assert engine.buffer.folder.failed() == []
