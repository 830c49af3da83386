"""Configure creates a queue, changes the given options, and rejects unknown ones."""

import asyncio
from typing import Any

import pytest

from queen.engine.engine import Engine
from queen.errors import InvalidName, InvalidOption, QueueNotFound, VersionMismatch
from queen.settings import Settings
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
from tests.support.clock import Clock

DEFAULTS = {
    "lease_seconds": 300,
    "retry_limit": 3,
    "retry_delay_ms": 1000,
    "max_retry_delay_ms": 300_000,
    "retry_backoff": 2,
    "priority": 0,
    "delay_seconds": 0,
    "window_seconds": 0,
    "dead_letter": True,
    "max_size": 0,
    "ttl_seconds": 0,
    "dedup_seconds": 86_400,
    "ordered": True,
    "rate_max": None,
    "rate_ms": None,
    "rate_per": None,
    "concurrency_limit": 0,
    "paused": False,
    "max_payload_bytes": None,
    "encrypted": False,
}


def options_of(row: Any) -> dict[str, Any]:  # noqa: ANN401
    return {name: row[name] for name in DEFAULTS}


async def test_a_queue_is_created_with_the_defaults(engine: Engine) -> None:
    row = await engine.queues.configure("orders")

    assert options_of(row) == DEFAULTS
    assert (row["name"], row["namespace"], row["task"]) == ("orders", "", "")


async def test_a_push_creates_a_queue_with_the_same_defaults(engine: Engine) -> None:
    await push(engine, "orders", "a")

    (row,) = await engine.store.queues.named(["orders"])
    assert options_of(row) == DEFAULTS


async def test_an_operator_may_set_other_defaults(dsn: str) -> None:
    async with await Engine.open(dsn, defaults={"lease_seconds": 60}) as engine:
        assert (await engine.queues.configure("one"))["lease_seconds"] == 60
        await push(engine, "two", "a")
        (row,) = await engine.store.queues.named(["two"])
        assert row["lease_seconds"] == 60
        assert (await engine.queues.configure("two", {"lease_seconds": 5}))["lease_seconds"] == 5
        assert (await engine.queues.configure("two", {"lease_seconds": None}))[
            "lease_seconds"
        ] == 60


async def test_merge_keeps_options_that_are_not_given(engine: Engine) -> None:
    await engine.queues.configure(
        "orders", {"lease_seconds": 60, "retry_limit": 5}, namespace="shop"
    )

    row = await engine.queues.configure("orders", {"retry_limit": 7}, task="mail")

    assert options_of(row) == DEFAULTS | {"lease_seconds": 60, "retry_limit": 7}
    assert (row["namespace"], row["task"]) == ("shop", "mail")


async def test_null_means_the_default(engine: Engine) -> None:
    await engine.queues.configure("orders", {"lease_seconds": 60, "ordered": False, "max_size": 9})

    row = await engine.queues.configure("orders", {"lease_seconds": None, "ordered": None})

    assert options_of(row) == DEFAULTS | {"max_size": 9}


async def test_replace_resets_options_that_are_not_given(engine: Engine) -> None:
    await engine.queues.configure(
        "orders", {"lease_seconds": 60, "retry_limit": 5}, namespace="shop"
    )

    row = await engine.queues.configure("orders", {"max_size": 10}, is_replaced=True)

    assert options_of(row) == DEFAULTS | {"max_size": 10}


async def test_an_unknown_option_is_rejected_and_creates_no_queue(engine: Engine) -> None:
    with pytest.raises(InvalidOption):
        await engine.queues.configure("orders", {"leaseTime": 5})
    with pytest.raises(InvalidOption):
        await engine.queues.configure("orders", {"retry_limit": 1, "id": 5})

    assert await engine.store.queues.named(["orders"]) == []


@pytest.mark.parametrize(
    "options",
    [
        {"lease_seconds": 0},
        {"lease_seconds": 43_201},
        {"retry_limit": -1},
        {"retry_backoff": 0.5},
        {"retry_delay_ms": -1},
        {"priority": 1001},
        {"delay_seconds": -1},
        {"window_seconds": -1},
        {"max_size": -1},
        {"ttl_seconds": -1},
        {"dedup_seconds": -1},
        {"concurrency_limit": -1},
        {"max_payload_bytes": 0},
        {"rate_max": 5},
        {"rate_max": 5, "rate_ms": 1000, "rate_per": "minute"},
        {"rate_max": 0, "rate_ms": 1000, "rate_per": "queue"},
        {"retry_limit": "many"},
        {"retry_limit": 2**40},
        {"lease_seconds": "long"},
        {"ordered": 5},
        {"paused": "perhaps"},
    ],
    ids=str,
)
async def test_an_invalid_value_is_rejected_and_changes_no_option(
    engine: Engine, options: dict[str, Any]
) -> None:
    before = await engine.queues.configure("orders", {"retry_limit": 5})

    with pytest.raises(InvalidOption):
        await engine.queues.configure("orders", {"max_size": 7} | options)

    (row,) = await engine.store.queues.named(["orders"])
    assert (options_of(row), row["version"]) == (options_of(before), before["version"])


async def test_an_outdated_version_is_rejected(engine: Engine) -> None:
    seen = await engine.queues.configure("orders", {"retry_limit": 1})
    newer = await engine.queues.configure("orders", {"retry_limit": 2}, version=seen["version"])
    assert newer["version"] > seen["version"]

    with pytest.raises(VersionMismatch):
        await engine.queues.configure("orders", {"retry_limit": 3}, version=seen["version"])

    (row,) = await engine.store.queues.named(["orders"])
    assert row["retry_limit"] == 2


async def test_of_two_changes_to_the_same_version_one_wins(engine: Engine) -> None:
    seen = await engine.queues.configure("orders")

    outcomes = await asyncio.gather(
        *(
            engine.queues.configure("orders", {"retry_limit": n}, version=seen["version"])
            for n in range(8)
        ),
        return_exceptions=True,
    )

    assert sum(isinstance(each, VersionMismatch) for each in outcomes) == 7


async def test_twenty_concurrent_creations_create_one_queue(engine: Engine) -> None:
    rows = await asyncio.gather(
        *(engine.queues.configure("orders", {"max_size": 5}) for _ in range(20))
    )

    assert len({row["id"] for row in rows}) == 1


@pytest.mark.parametrize(
    "name", ["", "__x", " x", "x\n", "\0", "\ud800", ".", "x" * 256], ids=range(8)
)
async def test_a_queue_name_follows_the_rules_of_push(engine: Engine, name: str) -> None:
    with pytest.raises(InvalidName):
        await engine.queues.configure(name)


@pytest.mark.parametrize("group", ["__x", " x", "x\n", "\0", "\ud800", "x" * 256, ""], ids=range(7))
async def test_a_group_name_follows_the_same_rules(engine: Engine, group: str) -> None:
    await engine.queues.configure("orders")
    with pytest.raises(InvalidName):
        await pop(engine, "orders", group=group)


@pytest.mark.parametrize("name", ["x\n", "\0", "\ud800", "x" * 256], ids=range(4))
async def test_namespace_and_task_follow_the_same_rules(engine: Engine, name: str) -> None:
    with pytest.raises(InvalidName):
        await engine.queues.configure("orders", namespace=name)
    with pytest.raises(InvalidName):
        await engine.queues.configure("orders", task=name)


@pytest.mark.parametrize("option", ["delay_seconds", "window_seconds"])
async def test_a_shorter_delay_applies_to_partitions_that_already_wait(
    engine: Engine, clock: Clock, option: str
) -> None:
    await engine.queues.configure("orders", {option: 86_400})
    assert await pop(engine, "orders") == []
    await push(engine, "orders", "old")
    await push(engine, "orders", "elsewhere", partition="two")
    await clock.advance(seconds=100)

    await engine.queues.configure("orders", {option: 60})
    await push(engine, "orders", "new")
    # The wait of a day is cut to the new value, and the old wait is over.
    taken = await drain(engine, "orders")
    await clock.advance(seconds=60)
    taken += await drain(engine, "orders")

    assert sorted(taken) == ["elsewhere", "new", "old"]


async def test_no_message_is_delivered_early_when_a_wait_is_cut(
    engine: Engine, clock: Clock
) -> None:
    await engine.queues.configure("orders", {"window_seconds": 86_400})
    assert await pop(engine, "orders") == []
    await push(engine, "orders", "a")
    await engine.queues.configure("orders", {"window_seconds": 60})

    await clock.advance(seconds=59)
    assert await pop(engine, "orders") == []
    await clock.advance(seconds=1)

    assert values(await pop(engine, "orders")) == ["a"]


async def test_a_removed_rate_limit_delays_no_pop(engine: Engine, clock: Clock) -> None:
    limit = {"rate_max": 1, "rate_ms": 3_600_000, "rate_per": "partition"}
    await engine.queues.configure("orders", limit)
    await push(engine, "orders", "a", "b")
    await ack(engine, await pop_one(engine, "orders"))
    assert await pop(engine, "orders") == []

    await engine.queues.configure("orders", dict.fromkeys(limit))

    assert values(await pop(engine, "orders")) == ["b"]


async def test_a_waiting_pop_notices_a_shorter_delay(engine: Engine) -> None:
    await engine.queues.configure("orders", {"delay_seconds": 86_400})
    await push(engine, "orders", "a")
    waiter = asyncio.create_task(pop_later(engine, "orders"))
    await asleep(engine, 1)

    await engine.queues.configure("orders", {"delay_seconds": 0})

    assert values(await waiter) == ["a"]


async def test_the_mark_of_a_cut_wait_is_cleared_after_a_minute(
    engine: Engine, clock: Clock, dsn: str
) -> None:
    await engine.queues.configure("orders", {"delay_seconds": 60})
    await push(engine, "orders", "a")
    row = await engine.queues.configure("orders", {"delay_seconds": 0})
    assert row["shortened_at"] is not None
    assert values(await pop(engine, "orders")) == ["a"]

    await clock.advance(seconds=61)
    await pop(engine, "orders")

    assert (await engine.queues.one("orders"))["shortened_at"] is None


async def test_a_queue_is_configured_while_a_producer_pushes(engine: Engine) -> None:
    await push(engine, "orders", 0, partition="a")

    async def produce(number: int) -> None:
        items = [item("orders", 1, partition=each) for each in ("a", f"n{number}")]
        await engine.push(items, producer_id="p", sequence=number)

    for number in range(10):
        await asyncio.gather(
            produce(number),
            engine.queues.configure("orders", {"retry_limit": 5}),
            engine.queues.configure("orders", {"retry_limit": 4}),
        )

    assert len(await drain(engine, "orders")) == 21


async def test_pushes_to_more_partitions_than_the_cache_holds_are_stored(dsn: str) -> None:
    async with await Engine.open(dsn, settings=Settings(catalogue_entries=2)) as engine:
        items = [item("orders", each, partition=f"p{each}") for each in range(5)]
        await engine.push(items, producer_id="p", sequence=1)

        assert sorted(await drain(engine, "orders")) == [0, 1, 2, 3, 4]


async def test_without_auto_create_a_push_does_not_create_a_queue(dsn: str) -> None:
    async with await Engine.open(dsn, settings=Settings(auto_create=False)) as engine:
        await engine.queues.configure("known")

        answers = await engine.push([item("unknown", 1), item("known", 2, partition="new")])

        assert [each.code for each in answers] == ["queue_not_found", None]
        with pytest.raises(QueueNotFound):
            await engine.push([item("unknown", 1)], producer_id="p", sequence=1)
        with pytest.raises(QueueNotFound):
            await engine.transact(items=[item("unknown", 1)])
        with pytest.raises(QueueNotFound):
            await engine.queues.one("unknown")
        assert await drain(engine, "known") == [2]


async def test_without_auto_create_a_push_does_not_recreate_a_queue(dsn: str) -> None:
    """Another process deleted the queue, and this one still caches its options."""
    settings = Settings(auto_create=False, catalogue_seconds=600)
    async with (
        await Engine.open(dsn, settings=settings, is_pooled=True) as engine,
        await Engine.open(dsn, is_pooled=True) as other,
    ):
        await engine.queues.configure("orders")
        await push(engine, "orders", 1)
        await delete_queue(other, "orders")

        with pytest.raises(QueueNotFound):
            await push(engine, "orders", 2)
        with pytest.raises(QueueNotFound):
            await engine.queues.one("orders")
