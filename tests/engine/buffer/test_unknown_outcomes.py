"""A buffered push that may be stored already is stored once, or set aside."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from uuid import uuid4

import asyncpg
import pytest
from msgspec import structs

from queen import errors
from queen.engine.buffer.file_buffer import BufferedItem, BufferedPush
from queen.engine.engine import Engine
from queen.engine.upkeep.loop import Upkeep
from queen.settings import Settings
from tests.engine.buffer.helpers import drained
from tests.engine.helpers import drain, item, push, until
from tests.support.clock import Clock
from tests.support.postgres import Postgres

DAY = 86_400


def lose_answer(engine: Engine, monkeypatch: pytest.MonkeyPatch, own: Postgres) -> None:
    """Store the next push, but stop the database before its response."""
    store = engine.store.messages.push

    async def losing(columns: object) -> object:
        await store(columns)  # pyright: ignore[reportArgumentType]
        monkeypatch.undo()
        await asyncio.to_thread(own.stop)
        raise errors.OutcomeUnknown("lost")

    monkeypatch.setattr(engine.store.messages, "push", losing)


@pytest.fixture
async def clocked(dsn: str) -> str:
    """A database with a clock that tests move."""
    async with await Clock.install(dsn):
        return dsn


async def advance(dsn: str, *, days: float) -> None:
    async with Clock(await asyncpg.connect(dsn)) as clock:
        await clock.advance(seconds=days * DAY)


@contextlib.asynccontextmanager
async def back(
    own: Postgres, engine: Engine, monkeypatch: pytest.MonkeyPatch, *, days: float
) -> AsyncGenerator[None]:
    """Restart the database `days` later by all clocks. At the end, the buffer is stored."""
    engine.hold_pushes(True)
    await asyncio.to_thread(own.start)
    await advance(engine.store.database.dsn, days=days)
    now, now_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: now() + days * DAY)
    monkeypatch.setattr(time, "time_ns", lambda: now_ns() + int(days * DAY * 1e9))
    yield
    engine.hold_pushes(False)
    await drained(engine)


def failed(engine: Engine) -> int:
    assert engine.buffer is not None
    return len(engine.buffer.folder.failed())


@pytest.mark.usefixtures("clocked")
@pytest.mark.parametrize(("window", "days"), [(1, 0.5), (7, 6)])
async def test_a_push_of_unknown_outcome_is_stored_once_within_the_window(
    own: Postgres, engine: Engine, monkeypatch: pytest.MonkeyPatch, window: int, days: float
) -> None:
    await engine.queues.configure("orders", {"dedup_seconds": window * DAY})
    await push(engine, "orders", 0)
    lose_answer(engine, monkeypatch, own)
    (answer,) = await push(engine, "orders", 1, transaction_id="mine")
    async with back(own, engine, monkeypatch, days=days):
        assert answer.status == "buffered"

    assert failed(engine) == 0
    assert await drain(engine, "orders") == [0, 1]


@pytest.mark.usefixtures("clocked")
async def test_a_push_of_unknown_outcome_is_set_aside_once_its_window_is_over(
    own: Postgres, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await push(engine, "orders", 0)
    lose_answer(engine, monkeypatch, own)
    await push(engine, "orders", 1, transaction_id="mine")
    await push(engine, "orders", 2, transaction_id="other")
    async with back(own, engine, monkeypatch, days=2):
        pass

    # The first one was stored already. The other one was never sent, so its outcome is certain.
    assert await drain(engine, "orders") == [0, 1, 2]
    assert failed(engine) == 1
    assert engine.buffer is not None
    assert await engine.buffer.retry_failed() == 0

    assert await engine.buffer.retry_failed(is_doubted=False) == 1
    await drained(engine)
    assert failed(engine) == 0
    assert await drain(engine, "orders") == [1]


@pytest.mark.usefixtures("clocked")
@pytest.mark.parametrize(("before", "since"), [(3_600, 7 * DAY), (7 * DAY, 3_600)])
async def test_the_shorter_of_the_old_and_new_windows_counts(
    own: Postgres,
    dsn: str,
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    before: int,
    since: int,
) -> None:
    await engine.queues.configure("orders", {"dedup_seconds": before})
    await push(engine, "orders", 0)
    lose_answer(engine, monkeypatch, own)
    await push(engine, "orders", 1, transaction_id="mine")
    async with back(own, engine, monkeypatch, days=1), await Engine.open(dsn) as other:
        await other.queues.configure("orders", {"dedup_seconds": since})

    assert (await drain(engine, "orders"), failed(engine)) == ([0, 1], 1)


@pytest.mark.usefixtures("clocked")
@pytest.mark.parametrize(("days", "count"), [(6, 0), (8, 1)])
async def test_a_producers_push_of_unknown_outcome_is_stored_once_or_set_aside(
    own: Postgres,
    dsn: str,
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    days: int,
    count: int,
) -> None:
    await push(engine, "orders", 0)
    lose_answer(engine, monkeypatch, own)
    await engine.push([item("orders", 1)], producer_id="p", sequence=1)
    async with back(own, engine, monkeypatch, days=days), await Engine.open(dsn) as other:
        await Upkeep(other.core, other.settings).look()

    assert (await drain(engine, "orders"), failed(engine)) == ([0, 1], count)


@pytest.mark.usefixtures("clocked")
async def test_a_push_that_its_producer_has_passed_is_set_aside_if_it_may_be_stored(
    own: Postgres, dsn: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await push(engine, "orders", 0)
    lose_answer(engine, monkeypatch, own)
    items = [item("orders", 1), item("orders", 2, transaction_id="mine")]
    await engine.push(items, producer_id="p", sequence=1)
    async with back(own, engine, monkeypatch, days=0), await Engine.open(dsn) as other:
        await other.push([item("orders", 3)], producer_id="p", sequence=2)

    assert (await drain(engine, "orders"), failed(engine)) == ([0, 1, 2, 3], 1)


@pytest.mark.parametrize("window", [0, 60])
async def test_a_push_that_dedup_would_not_recognise_is_reported_as_unknown(
    own: Postgres, engine: Engine, monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    await engine.queues.configure("orders", {"dedup_seconds": window})
    await push(engine, "orders", 0)
    lose_answer(engine, monkeypatch, own)

    with pytest.raises(errors.OutcomeUnknown):
        await push(engine, "orders", 1, transaction_id="mine")


async def test_a_push_of_unknown_outcome_stays_unknown_when_the_buffer_rejects_it(
    own: Postgres, dsn: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = structs.replace(settings, file_buffer_max_bytes=1)
    async with await Engine.open(dsn, settings=small) as engine:
        await push(engine, "orders", 0)
        lose_answer(engine, monkeypatch, own)

        with pytest.raises(errors.OutcomeUnknown):
            await push(engine, "orders", 1, transaction_id="mine")


async def test_a_file_that_stays_half_stored_for_weeks_is_stored_once(
    clocked: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = structs.replace(settings, file_buffer_max_batch=1)
    async with await Engine.open(clocked, settings=one) as engine:
        await engine.queues.configure("orders", {"dedup_seconds": 0})
        engine.hold_pushes(True)
        for n in range(5):
            await push(engine, "orders", n)
        store = engine.store.messages.push
        stored: list[object] = []

        async def failing(columns: object) -> object:
            if len(stored) == 2:
                raise errors.DatabaseUnavailable("half of it")
            rows = await store(columns)  # pyright: ignore[reportArgumentType]
            stored.append(rows)
            return rows

        monkeypatch.setattr(engine.store.messages, "push", failing)
        engine.hold_pushes(False)

        async def is_half_stored() -> bool:
            return len(stored) == 2

        await until(is_half_stored)
    async with await Engine.open(clocked) as other:
        await advance(clocked, days=30)
        await Upkeep(other.core, other.settings).look()
        async with await Engine.open(clocked, settings=one) as engine:
            await drained(engine)
            assert await drain(engine, "orders") == [*range(5)]

        # The file is gone now, and its mark may expire.
        assert await marks(clocked) == [2**63 - 1]
        await advance(clocked, days=8)
        await Upkeep(other.core, other.settings).look()
        assert await marks(clocked) == []


def buffered_before_scopes(value: int, sequence: int) -> BufferedPush:
    """A record of a release before scopes: no scope, no digest, a random transactionId."""
    sent = BufferedItem("orders", "Default", str(value).encode(), str(uuid4()))
    return BufferedPush([sent], "p", sequence)


async def test_a_push_buffered_by_an_older_release_is_not_stored_beside_its_repeat(
    own: Postgres, engine: Engine
) -> None:
    """
    The old server was stopped for the upgrade before it responded, and the client repeats its
    request.
    """
    engine.hold_pushes(True)
    assert engine.buffer is not None
    await engine.buffer.append(buffered_before_scopes(3, 3))
    await engine.push([item("orders", 3)], producer_id="p", sequence=3)
    engine.hold_pushes(False)
    await drained(engine)

    assert await drain(engine, "orders") == [3]


async def test_a_push_buffered_by_an_older_release_is_not_stored_again_after_another_server(
    own: Postgres, dsn: str, engine: Engine
) -> None:
    engine.hold_pushes(True)
    assert engine.buffer is not None
    await engine.buffer.append(buffered_before_scopes(3, 3))
    async with await Engine.open(dsn) as other:
        await other.push([item("orders", 3)], producer_id="p", sequence=3)
    engine.hold_pushes(False)
    await drained(engine)

    assert await drain(engine, "orders") == [3]


async def marks(dsn: str) -> list[int]:
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch("select sequence from queen.producers")
        return [row["sequence"] for row in rows]
    finally:
        await connection.close()
