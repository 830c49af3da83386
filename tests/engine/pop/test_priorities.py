"""Priorities of partitions, and of messages on unordered queues."""

import pytest

from queen.engine.engine import Engine
from queen.errors import InvalidOption, PartitionNotFound, QueueNotFound
from tests.engine.helpers import ack, drain, item, message, pop, pop_one, push, settle, values


async def test_a_partition_of_higher_priority_comes_first(engine: Engine) -> None:
    for partition in ("low", "middle", "high"):
        await push(engine, "orders", f"{partition} 1", f"{partition} 2", partition=partition)
    await engine.queues.configure_partition("orders", "low", priority=-1)
    await engine.queues.configure_partition("orders", "high", priority=1000)

    taken = await drain(engine, "orders", batch=1, partitions=1)

    assert taken == ["high 1", "high 2", "middle 1", "middle 2", "low 1", "low 2"]


async def test_the_priority_of_a_partition_applies_to_every_group_and_later_messages(
    engine: Engine,
) -> None:
    await push(engine, "orders", "low 1", partition="low")
    await push(engine, "orders", "high 1", partition="high")
    await drain(engine, "orders", group="old")
    await engine.queues.configure_partition("orders", "high", priority=3)
    await push(engine, "orders", "low 2", partition="low")
    await push(engine, "orders", "high 2", partition="high")

    assert await drain(engine, "orders", group="old", batch=1, partitions=1) == ["high 2", "low 2"]
    fresh = await drain(engine, "orders", group="new", batch=1, partitions=1)
    assert fresh == ["high 1", "high 2", "low 1", "low 2"]


async def test_a_failed_message_keeps_the_priority_of_its_partition(engine: Engine) -> None:
    await engine.queues.configure("orders", {"retry_delay_ms": 0})
    await push(engine, "orders", "a", partition="high")
    await engine.queues.configure_partition("orders", "high", priority=1)
    await settle(engine, await pop_one(engine, "orders"), status="failed")

    again = await pop_one(engine, "orders")

    assert (values(again), again.attempt) == (["a"], 2)


async def test_the_priority_of_a_leased_partition_can_be_changed(engine: Engine) -> None:
    await push(engine, "orders", "a", "b", partition="one")
    held = await pop_one(engine, "orders")

    await engine.queues.configure_partition("orders", "one", priority=5)

    assert await ack(engine, held) == 1
    assert values(await pop_one(engine, "orders")) == ["b"]


async def test_the_priority_of_a_partition_is_bounded_and_needs_the_partition(
    engine: Engine,
) -> None:
    await push(engine, "orders", "a")

    with pytest.raises(InvalidOption):
        await engine.queues.configure_partition("orders", "Default", priority=1001)
    with pytest.raises(PartitionNotFound):
        await engine.queues.configure_partition("orders", "one", priority=1)
    with pytest.raises(QueueNotFound):
        await engine.queues.configure_partition("others", "Default", priority=1)


async def test_a_message_of_higher_priority_comes_first(engine: Engine) -> None:
    await engine.queues.configure("jobs", {"ordered": False})
    for priority in (0, 9, 5):
        await push(engine, "jobs", f"{priority} a", f"{priority} b", priority=priority)

    first = await pop(engine, "jobs", batch=10, partitions=10)

    assert values(first) == ["9 a", "9 b", "5 a", "5 b", "0 a", "0 b"]
    assert [each.level for each in first] == [9, 5, 0]
    assert {each.partition for each in first} == {"Default"}
    assert message(first[0], 0).priority == 9


async def test_no_priority_starves(engine: Engine) -> None:
    await engine.queues.configure("jobs", {"ordered": False})
    await engine.push([item("jobs", "high", priority=5) for _ in range(60)])
    await engine.push([item("jobs", "low") for _ in range(5)])

    taken = [values(await pop_one(engine, "jobs"))[0] for _ in range(40)]

    assert taken[:2] == ["high", "high"]
    assert 2 <= taken.count("low") <= 10


async def test_a_pop_by_partition_finds_all_its_priorities(engine: Engine) -> None:
    await engine.queues.configure("jobs", {"ordered": False})
    await push(engine, "jobs", "low", partition="one")
    await push(engine, "jobs", "high", partition="one", priority=3)
    await push(engine, "jobs", "elsewhere", partition="two", priority=9)

    taken = await pop(engine, "jobs", partition="one", batch=10, partitions=10)

    assert values(taken) == ["high", "low"]


async def test_a_message_priority_is_rejected_on_an_ordered_queue(engine: Engine) -> None:
    await engine.queues.configure("orders", {})

    answers = await engine.push([item("orders", "a", priority=3), item("orders", "b")])

    assert [(each.status, each.code) for each in answers] == [
        ("failed", "invalid_item"),
        ("queued", None),
    ]
    assert await drain(engine, "orders") == ["b"]


async def test_priority_zero_means_no_priority(engine: Engine) -> None:
    (answer,) = await push(engine, "orders", "a", priority=0)

    assert answer.status == "queued"


@pytest.mark.parametrize("priority", [-1, 10])
async def test_a_message_priority_is_from_0_to_9(engine: Engine, priority: int) -> None:
    await engine.queues.configure("jobs", {"ordered": False})

    (answer,) = await push(engine, "jobs", "a", priority=priority)

    assert (answer.status, answer.code) == ("failed", "invalid_item")


async def test_a_low_priority_does_not_starve_beside_other_queues(engine: Engine) -> None:
    """
    Turns are counted per target. Otherwise, pops of other queues could use up each turn of the low
    one.
    """
    await engine.queues.configure("jobs", {"ordered": False})
    for other in range(3):
        await engine.queues.configure(f"other{other}")
    await push(engine, "jobs", "low")
    taken: list[str] = []
    for number in range(8):
        await push(engine, "jobs", f"high {number}", priority=9)
        taken += values(await pop(engine, "jobs", auto_ack=True))
        for other in range(3):
            await pop(engine, f"other{other}")

    assert "low" in taken
