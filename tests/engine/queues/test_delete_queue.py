"""A deleted queue is removed immediately, and a push to its name creates a new one."""

import asyncio

import asyncpg
import pytest

from queen.engine.engine import Engine
from queen.errors import LeaseLost, QueueNotFound
from tests.engine.helpers import (
    ack,
    asleep,
    delete_queue,
    drain,
    item,
    pop,
    pop_later,
    pop_one,
    push,
    values,
)

TABLES = ("queues", "partitions", "segments", "groups", "consumers", "deliveries", "scheduled")


async def test_a_deleted_queue_is_not_found(engine: Engine) -> None:
    await push(engine, "orders", "a")
    await pop(engine, "orders")

    await delete_queue(engine, "orders")

    with pytest.raises(QueueNotFound):
        await pop(engine, "orders")
    with pytest.raises(QueueNotFound):
        await delete_queue(engine, "orders")


async def test_a_push_creates_a_new_queue_from_the_start(engine: Engine) -> None:
    await engine.queues.configure("orders", {"ordered": False, "retry_limit": 9})
    (old,) = await push(engine, "orders", "old", transaction_id="t")
    await drain(engine, "orders", group="g")
    await delete_queue(engine, "orders")

    (new,) = await push(engine, "orders", "new", transaction_id="t")

    assert (new.status, new.offset) == ("queued", 0)
    assert new.id != old.id
    assert await drain(engine, "orders", group="g") == ["new"]
    (row,) = await engine.store.queues.named(["orders"])
    assert (row["ordered"], row["retry_limit"]) == (True, 3)


async def test_the_new_queue_is_popped_immediately(engine: Engine) -> None:
    await push(engine, "orders", "old")
    await drain(engine, "orders")
    await delete_queue(engine, "orders")
    await push(engine, "orders", "new")

    assert values(await pop_one(engine, "orders")) == ["new"]


async def test_leases_are_lost_with_the_queue(engine: Engine) -> None:
    await push(engine, "orders", "a")
    held = await pop_one(engine, "orders")

    await delete_queue(engine, "orders")

    with pytest.raises(LeaseLost):
        await ack(engine, held)


async def test_a_process_that_caches_the_old_queue_recovers(engine: Engine, dsn: str) -> None:
    async with await Engine.open(dsn) as other:
        await other.push([item("orders", n, partition=str(n)) for n in range(3)])
        await drain(other, "orders")
        await delete_queue(engine, "orders")

        answers = await other.push([item("orders", n, partition=str(n)) for n in range(3)])
        (held,) = await push(other, "orders", "later", delay_seconds=60)

        assert [(each.status, each.offset) for each in answers] == [("queued", 0)] * 3
        assert held.status == "queued"
        assert sorted(await drain(engine, "orders")) == [0, 1, 2]
        assert sorted(await drain(other, "orders", group="g")) == [0, 1, 2]


async def test_a_process_that_caches_the_old_queue_gets_not_found(engine: Engine, dsn: str) -> None:
    async with await Engine.open(dsn) as other:
        await push(other, "orders", "a")
        await drain(other, "orders")
        await delete_queue(engine, "orders")

        with pytest.raises(QueueNotFound):
            await pop(other, "orders")


async def test_a_process_that_caches_the_old_queue_pops_the_new_one(
    engine: Engine, dsn: str
) -> None:
    async with await Engine.open(dsn) as other:
        await push(other, "orders", "old")
        await drain(other, "orders")
        await delete_queue(engine, "orders")
        await push(engine, "orders", "new")

        assert values(await pop_one(other, "orders")) == ["new"]


async def test_a_waiter_on_the_old_queue_is_served_by_the_new_one(engine: Engine) -> None:
    await push(engine, "orders", "old")
    await drain(engine, "orders")
    waiter = asyncio.create_task(pop_later(engine, "orders"))
    await asleep(engine, 1)

    await delete_queue(engine, "orders")
    await push(engine, "orders", "new")

    assert values(await waiter) == ["new"]


async def test_other_queues_stay_unchanged(engine: Engine) -> None:
    await push(engine, "orders", "a")
    await push(engine, "others", "b")

    await delete_queue(engine, "orders")

    assert await drain(engine, "others") == ["b"]


async def test_all_rows_of_the_old_queue_are_removed(engine: Engine, dsn: str) -> None:
    await push(engine, "orders", "a", "b")
    await push(engine, "orders", "c", delay_seconds=10)
    await pop_one(engine, "orders", group="g")

    await delete_queue(engine, "orders")

    connection = await asyncpg.connect(dsn)
    counts = {
        name: await connection.fetchval(f"select count(*) from queen.{name}") for name in TABLES
    }
    await connection.close()
    assert counts == dict.fromkeys(TABLES, 0)
