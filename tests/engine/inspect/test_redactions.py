"""A redaction drops only its own segment from the cache, in every process."""

from queen.engine.engine import Engine
from tests.engine.helpers import drain, push


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
