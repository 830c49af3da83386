"""A pop covers one queue, one of its partitions, or the queues of a namespace or task."""

import asyncpg
import pytest

from queen.engine.engine import Engine
from queen.errors import BadRequest, QueueNotFound
from tests.engine.helpers import ack, drain, item, pop, pop_one, push, values


async def test_a_pop_may_name_a_partition(engine: Engine) -> None:
    await push(engine, "orders", "a", partition="one")
    await push(engine, "orders", "b", "c", partition="two")

    delivery = await pop_one(engine, "orders", partition="two", batch=5)

    assert (delivery.partition, values(delivery)) == ("two", ["b", "c"])
    assert await pop(engine, "orders", partition="two", batch=5) == []
    assert values(await pop_one(engine, "orders", batch=5)) == ["a"]


async def test_an_unknown_partition_is_empty_and_is_not_created(engine: Engine, dsn: str) -> None:
    await push(engine, "orders", "a")

    assert await pop(engine, "orders", partition="nowhere") == []

    assert engine.catalogue.partition(("orders", "nowhere", 0)) is None
    connection = await asyncpg.connect(dsn)
    try:
        assert await connection.fetchval("select count(*) from queen.partitions") == 1
    finally:
        await connection.close()


async def test_a_pop_of_an_unknown_queue_is_rejected(engine: Engine) -> None:
    with pytest.raises(QueueNotFound):
        await pop(engine, "orders")
    with pytest.raises(QueueNotFound):
        await pop(engine, "orders", partition="one")


async def test_a_pop_by_namespace_covers_only_its_queues(engine: Engine) -> None:
    await engine.queues.configure("orders", namespace="shop")
    await engine.queues.configure("carts", namespace="shop")
    await engine.queues.configure("logs", namespace="other")
    for queue in ("orders", "carts", "logs"):
        await push(engine, queue, queue)

    taken = await pop(engine, namespace="shop", batch=10, partitions=10)

    assert sorted((each.queue, *values(each)) for each in taken) == [
        ("carts", "carts"),
        ("orders", "orders"),
    ]
    assert await pop(engine, namespace="shop", batch=10, partitions=10) == []


async def test_a_pop_may_filter_by_task_and_by_namespace_and_task(engine: Engine) -> None:
    await engine.queues.configure("one", namespace="shop", task="mail")
    await engine.queues.configure("two", namespace="shop", task="bill")
    await engine.queues.configure("three", namespace="other", task="mail")
    for queue in ("one", "two", "three"):
        await push(engine, queue, queue)

    both = await pop(engine, namespace="shop", task="mail", batch=9, partitions=9, group="g")
    mail = await pop(engine, task="mail", batch=9, partitions=9, group="h")

    assert values(both) == ["one"]
    assert sorted(values(mail)) == ["one", "three"]


async def test_queues_are_popped_in_the_order_of_their_priority(engine: Engine) -> None:
    for queue, priority in (("low", -5), ("middle", 0), ("high", 7)):
        await engine.queues.configure(queue, {"priority": priority}, namespace="shop")
        await push(engine, queue, f"{queue} 1", f"{queue} 2")

    taken: list[str] = []
    for _ in range(6):
        delivery = await pop_one(engine, namespace="shop")
        taken += values(delivery)
        await ack(engine, delivery)

    assert taken == ["high 1", "high 2", "middle 1", "middle 2", "low 1", "low 2"]


async def test_one_pop_continues_with_the_next_queue_until_its_batch_is_full(
    engine: Engine,
) -> None:
    for queue, priority in (("low", 0), ("high", 1)):
        await engine.queues.configure(queue, {"priority": priority}, namespace="shop")
        await push(engine, queue, *([queue] * 3))

    taken = await pop(engine, namespace="shop", batch=5, partitions=2)

    assert [(each.queue, len(each)) for each in taken] == [("high", 3), ("low", 2)]


async def test_a_namespace_without_queues_is_empty(engine: Engine) -> None:
    assert await pop(engine, namespace="nowhere") == []


async def test_a_queue_that_joins_a_namespace_is_found(engine: Engine) -> None:
    assert await pop(engine, namespace="shop") == []
    await push(engine, "orders", "a")
    await engine.queues.configure("orders", namespace="shop")

    assert values(await pop_one(engine, namespace="shop")) == ["a"]


async def test_a_pop_needs_a_scope_and_positive_limits(engine: Engine) -> None:
    await push(engine, "orders", "a")
    with pytest.raises(BadRequest):
        await pop(engine)
    with pytest.raises(BadRequest):
        await pop(engine, "orders", batch=0)
    with pytest.raises(BadRequest):
        await pop(engine, "orders", partitions=0)
    assert values(await pop_one(engine, "orders", batch=10**9, partitions=10**9)) == ["a"]


async def test_a_pop_takes_one_partition_by_default(engine: Engine) -> None:
    await engine.push([item("orders", n, partition=str(n)) for n in range(3)])

    assert len(await pop(engine, "orders", batch=10)) == 1


async def test_several_partitions_share_the_batch(engine: Engine) -> None:
    for partition in ("one", "two", "three"):
        await push(engine, "orders", *range(4), partition=partition)

    first = await pop(engine, "orders", batch=10, partitions=3)
    assert sum(map(len, first)) == 10
    assert len({each.partition for each in first}) == len(first) == 3
    assert all(each.offsets == list(range(len(each))) for each in first)
    assert len({each.lease_id for each in first}) == 3

    for each in first:
        await ack(engine, each)
    rest = await pop(engine, "orders", batch=10, partitions=3)
    assert sum(map(len, rest)) == 2


async def test_a_pop_takes_no_more_partitions_than_requested(engine: Engine) -> None:
    await engine.push([item("orders", n, partition=str(n)) for n in range(5)])

    taken = await pop(engine, "orders", batch=100, partitions=3)

    assert len(taken) == 3
    assert len(await drain(engine, "orders")) == 2


async def test_a_batch_spans_segments(engine: Engine) -> None:
    for value in range(6):
        await push(engine, "orders", value)
    await ack(engine, await pop_one(engine, "orders"))

    delivery = await pop_one(engine, "orders", batch=4)

    assert (delivery.offsets, values(delivery)) == ([1, 2, 3, 4], [1, 2, 3, 4])
    assert [message.offset for message in delivery.messages()] == [1, 2, 3, 4]


async def test_queues_of_equal_priority_take_turns(engine: Engine) -> None:
    """The partition that has been ready longest comes first, across queues."""
    for queue in ("first", "second"):
        await engine.queues.configure(queue, namespace="shop", options={"ordered": False})
    assert await pop(engine, namespace="shop") == []
    await push(engine, "second", "oldest")
    for number in range(20):
        await push(engine, "first", number)

    assert values(await pop(engine, namespace="shop", auto_ack=True)) == ["oldest"]

    await push(engine, "second", *range(100, 110))
    taken = [values(await pop(engine, namespace="shop", auto_ack=True))[0] for _ in range(8)]
    assert any(each >= 100 for each in taken)
    assert any(each < 100 for each in taken)


async def test_a_queue_of_higher_priority_comes_first(engine: Engine) -> None:
    await engine.queues.configure("low", namespace="shop")
    await engine.queues.configure("high", namespace="shop", options={"priority": 5})
    await push(engine, "low", "older")
    await push(engine, "high", "newer")

    assert values(await pop(engine, namespace="shop")) == ["newer"]
    assert values(await pop(engine, namespace="shop")) == ["older"]
