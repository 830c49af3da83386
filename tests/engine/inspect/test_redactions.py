"""A redaction drops only its own segment from the cache, in every process."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from queen.engine.engine import Engine
from queen.settings import Settings
from tests.engine.helpers import ack, ack_all, drain, pop, pop_one, push, values
from tests.support.clock import Clock


async def cached(engine: Engine, partition: str, base: int = 0) -> bool:
    found = engine.catalogue.partition(("orders", partition, 0))
    assert found is not None
    return (found.partition_id, base) in engine.segments._segments  # pyright: ignore[reportPrivateUsage]


async def place(engine: Engine, partition: str) -> int:
    found = engine.catalogue.partition(("orders", partition, 0))
    assert found is not None
    return found.partition_id


async def test_a_redaction_keeps_other_segments_in_the_cache(engine: Engine) -> None:
    await push(engine, "orders", 0, 1, 2, partition="a")
    await push(engine, "orders", 3, 4, partition="a")
    await push(engine, "orders", 5, partition="b")

    await engine.redact(await place(engine, "a"), 1, by="test")

    assert not await cached(engine, "a")
    assert await cached(engine, "a", 3)
    assert await cached(engine, "b")
    misses = engine.segments.misses
    assert sorted(await drain(engine, "orders")) == [0, 2, 3, 4, 5]
    assert engine.segments.misses - misses == 2  # The two halves of the split segment.


async def test_another_process_drops_only_the_redacted_segment(dsn: str, engine: Engine) -> None:
    async with await Engine.open(dsn) as other:
        await push(engine, "orders", 0, 1, partition="a")
        await push(engine, "orders", 2, partition="b")
        await other.catalogue.partitions([("orders", "a", 0)])
        await other.redact(await place(other, "a"), 0, by="test")

        await engine.forget_redacted(0)

        assert not await cached(engine, "a")
        assert await cached(engine, "b")


async def test_the_cache_size_reflects_dropped_segments(engine: Engine) -> None:
    await push(engine, "orders", "x" * 1000, partition="a")
    await push(engine, "orders", "y", partition="b")
    small = engine.segments.size_bytes

    engine.segments.drop(await place(engine, "a"), 7)
    assert engine.segments.size_bytes == small
    engine.segments.drop(await place(engine, "a"), 0)
    assert 0 < engine.segments.size_bytes < small - 1000
    engine.segments.clear()
    assert engine.segments.size_bytes == 0


def before(
    monkeypatch: pytest.MonkeyPatch, target: object, name: str, change: Callable[[], Awaitable[Any]]
) -> None:
    """Run `change` once, immediately before the first call of a method."""
    method = getattr(target, name)

    async def changed(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        monkeypatch.setattr(target, name, method)
        await change()
        return await method(*args, **kwargs)

    monkeypatch.setattr(target, name, changed)


def reader(engine: Engine) -> object:
    return engine._popper._bodies  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("redacted", [[0], [2], [4], [1, 3], [0, 1, 2, 3]])
async def test_a_redaction_between_claim_and_read_hides_only_its_message(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, clock: Clock, redacted: list[int]
) -> None:
    """An ack of the lease settles all its messages, so the response needs all of them."""
    await push(engine, "orders", *range(5))
    await push(engine, "orders", 5)
    partition_id = await place(engine, "Default")

    async def redact() -> None:
        for offset in redacted:
            await engine.redact(partition_id, offset, by="test")

    before(monkeypatch, reader(engine), "deliveries", redact)
    delivery = await pop_one(engine, "orders", batch=10)
    await ack(engine, delivery)

    await clock.advance(seconds=10_000)
    left = [each for each in range(6) if each not in redacted]
    assert values(delivery) + await drain(engine, "orders") == left


async def test_a_pop_with_auto_ack_returns_the_messages_around_a_redaction(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await push(engine, "orders", *range(3))
    partition_id = await place(engine, "Default")
    before(
        monkeypatch,
        reader(engine),
        "deliveries",
        lambda: engine.redact(partition_id, 1, by="test"),
    )

    assert values(await pop_one(engine, "orders", batch=3, auto_ack=True)) == [0, 2]


async def test_a_message_that_is_redacted_after_its_claim_is_not_delivered(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await push(engine, "orders", "secret")
    partition_id = await place(engine, "Default")
    before(
        monkeypatch,
        reader(engine),
        "deliveries",
        lambda: engine.redact(partition_id, 0, by="test"),
    )

    assert await pop(engine, "orders") == []


@pytest.mark.parametrize("ordered", [True, False])
async def test_a_lease_that_lost_all_messages_of_its_response_ends(
    dsn: str, monkeypatch: pytest.MonkeyPatch, clock: Clock, ordered: bool
) -> None:
    """If a redaction removes the messages that fit, the others must not stay leased."""
    async with await Engine.open(dsn, settings=Settings(max_pop_bytes=50)) as engine:
        await engine.queues.configure("orders", {"ordered": ordered})
        texts = [f"{number}" + "x" * 37 for number in range(3)]
        await push(engine, "orders", *texts)
        partition_id = await place(engine, "Default")
        before(
            monkeypatch,
            engine.store.messages,
            "shorten",
            lambda: engine.redact(partition_id, 0, by="test"),
        )

        await ack_all(engine, await pop(engine, "orders", batch=10))

        await clock.advance(seconds=10_000)
        assert await drain(engine, "orders") == texts[1:]
