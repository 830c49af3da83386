"""Processes notify each other, and replace a connection that receives no notifications."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from queen.engine.engine import Engine
from queen.settings import Settings
from queen.store.connection.notifications import News
from tests.engine.helpers import (
    ack,
    asleep,
    lease,
    pop_later,
    pop_one,
    push,
    says,
    settle,
    until,
    values,
)
from tests.engine.runtime.listener import Listener
from tests.support.gate import Gate

PATIENT = Settings(safety_poll_ms=600_000, catalogue_seconds=600)


@pytest.fixture
async def pair(dsn: str) -> AsyncIterator[tuple[Engine, Engine]]:
    """Two engines that receive each other's notifications and never poll."""
    async with (
        await Engine.open(dsn, settings=PATIENT) as one,
        await Engine.open(dsn, settings=PATIENT) as other,
    ):

        async def are_listening() -> bool:
            both = (one.signals.notifications, other.signals.notifications)
            return all(each is not None and each.is_listening for each in both)

        await until(are_listening)
        yield one, other


@pytest.mark.parametrize("how", ["ack", "release", "retry", "transaction"])
async def test_a_freed_partition_wakes_a_waiter_of_another_process(
    pair: tuple[Engine, Engine], how: str
) -> None:
    one, other = pair
    await push(one, "orders", "a", "b")
    held = await pop_one(one, "orders")
    waiter = asyncio.create_task(pop_later(other, "orders", seconds=2))
    await asleep(other, 1)

    if how == "ack":
        await ack(one, held)
    elif how == "release":
        await one.release(lease(held))
    elif how == "transaction":
        await one.transact(acknowledgments=[says(held, 0, "completed")])
    else:
        await settle(one, held, status="retry")

    assert values(await waiter) == ["a" if how in ("release", "retry") else "b"]


async def test_a_queue_configured_by_another_process_takes_effect_immediately(
    pair: tuple[Engine, Engine],
) -> None:
    one, other = pair
    assert (await push(one, "orders", "long enough"))[0].status == "queued"

    await other.queues.configure("orders", {"max_payload_bytes": 5})

    async def is_refused() -> bool:
        return (await push(one, "orders", "long enough"))[0].code == "payload_too_large"

    await until(is_refused)


async def test_a_notification_lists_work_and_changes_or_covers_everything() -> None:
    news = News.parse("7,g8,c9,?,*")

    assert (news.queue_ids, news.group_ids, news.changed_queue_ids) == ([7], [8], [9])
    assert news.is_everything


async def test_notifications_unsent_when_the_connection_broke_are_sent_by_the_next(
    dsn: str, tmp_path: Path
) -> None:
    async with (
        Gate.open(dsn, tmp_path) as gate,
        Listener.open(gate.dsn) as one,
        Listener.open(dsn) as other,
    ):
        gate.fall_silent()
        one.notifications.tell(queue_ids=[42])

        await other.hears(42)
        assert one.news.count(None) == 2


async def test_a_silent_connection_is_replaced(dsn: str, tmp_path: Path) -> None:
    async with Gate.open(dsn, tmp_path) as gate, Listener.open(gate.dsn) as one:
        gate.fall_silent()
        await one.connects(2)

        async with Listener.open(dsn) as other:
            one.notifications.tell(queue_ids=[43])
            await other.hears(43)


async def test_the_slow_poll_survives_an_error(dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    """Errors occur during an upgrade. Behind PgBouncer, only the poll wakes waiters."""
    settings = Settings(safety_poll_ms=50)
    async with (
        await Engine.open(dsn, settings=settings, is_pooled=True) as engine,
        await Engine.open(dsn, settings=settings, is_pooled=True) as other,
    ):
        await engine.queues.configure("orders")
        waiter = asyncio.create_task(pop_later(engine, "orders"))
        await asleep(engine, 1)
        connection = await asyncpg.connect(dsn)
        await connection.execute("alter function queen.ready_groups rename to away")

        async def has_failed() -> bool:
            return "background task SafetyPoll failed" in caplog.text

        await until(has_failed)
        await connection.execute("alter function queen.away rename to ready_groups")
        await connection.close()
        await push(other, "orders", "a")

        assert values(await waiter) == ["a"]
