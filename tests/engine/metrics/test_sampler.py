"""Samples of depth, lag and age, which one process takes."""

from queen import telemetry
from queen.engine.engine import Engine
from queen.engine.metrics.sampler import Sampler
from queen.settings import Settings
from queen.store.connection.database import Record
from tests.engine.helpers import ack, delete_queue, pop, pop_one, push, settle
from tests.support.clock import Clock

SETTINGS = Settings(sample_seconds=10)


async def sample(engine: Engine, most: int = 1_000) -> dict[str | None, Record]:
    """Measured values by group, with None for the queue."""
    rows = await engine.store.database.fetch("sample", 0, 100, most)
    return {row["group"]: row for row in rows}


async def test_the_lag_of_a_group_is_its_number_of_unsettled_messages(engine: Engine) -> None:
    await push(engine, "orders", *range(6))
    await push(engine, "orders", *range(4), partition="other")
    delivery = await pop_one(engine, "orders", group="g", batch=3)
    assert (await sample(engine))["g"]["depth"] == 10
    await settle(engine, delivery, 0)
    assert (await sample(engine))["g"]["depth"] == 9
    await ack(engine, delivery)

    found = await sample(engine)

    assert found["g"]["depth"] == 7
    assert found["g"]["is_exact"]


async def test_the_depth_of_a_queue_is_that_of_its_slowest_group(engine: Engine) -> None:
    await push(engine, "orders", *range(5))
    await ack(engine, await pop_one(engine, "orders", group="fast", batch=5))
    await ack(engine, await pop_one(engine, "orders", group="slow", batch=1))

    found = await sample(engine)

    assert (found["fast"]["depth"], found["slow"]["depth"]) == (0, 4)
    assert found[None]["depth"] == 4


async def test_the_depth_of_a_queue_without_readers_is_its_number_of_messages(
    engine: Engine,
) -> None:
    await push(engine, "orders", *range(5))
    await push(engine, "orders", 1, delay_seconds=60)

    found = await sample(engine)

    assert (found[None]["depth"], found[None]["scheduled"]) == (6, 1)


async def test_the_oldest_age_is_that_of_the_first_unsettled_message(
    engine: Engine, clock: Clock
) -> None:
    await push(engine, "orders", 1)
    await clock.advance(seconds=100)
    await push(engine, "orders", 2)
    await clock.advance(seconds=10)
    delivery = await pop_one(engine, "orders", group="g", batch=1)
    assert 110 <= (await sample(engine))["g"]["oldest_age_seconds"] < 120
    await ack(engine, delivery)

    assert 10 <= (await sample(engine))["g"]["oldest_age_seconds"] < 20


async def test_an_empty_group_has_no_oldest_age(engine: Engine) -> None:
    await push(engine, "orders", 1)
    await pop(engine, "orders", group="g", auto_ack=True)

    found = await sample(engine)

    assert (found["g"]["depth"], found["g"]["oldest_age_seconds"]) == (0, None)


async def test_the_total_of_many_partitions_is_estimated_from_a_sample(engine: Engine) -> None:
    for n in range(40):
        await push(engine, "orders", 1, 2, partition=str(n))
    await pop(engine, "orders", group="g")

    found = await sample(engine, most=10)

    assert not found["g"]["is_exact"]
    assert 78 <= found["g"]["depth"] <= 82


async def test_one_process_samples_until_it_ends(engine: Engine, dsn: str, clock: Clock) -> None:
    await push(engine, "orders", 1)
    async with await Engine.open(dsn) as other:
        first, second = (
            Sampler(engine.store, engine.counters.process, SETTINGS),
            Sampler(other.store, other.counters.process, SETTINGS),
        )

        assert (await first.step()).of(telemetry.QUEUE_MESSAGES, "orders") == 1
        assert not (await second.step()).values
        await clock.advance(seconds=20)
        assert (await first.step()).values
        await clock.advance(seconds=31)
        assert (await second.step()).of(telemetry.TABLE_BYTES, "segments") > 0
        assert not (await first.step()).values


async def test_a_deleted_queue_leaves_the_metrics(engine: Engine) -> None:
    await push(engine, "orders", 1)
    sampler = Sampler(engine.store, engine.counters.process, SETTINGS)
    await sampler.step()
    await delete_queue(engine, "orders")

    assert not (await sampler.step()).of(telemetry.QUEUE_MESSAGES)


async def test_bytes_are_those_of_the_depth(engine: Engine) -> None:
    await push(engine, "orders", "a" * 98, "b" * 98)
    await push(engine, "orders", "c" * 198, partition="other")
    assert (await sample(engine))[None]["bytes"] == 400
    await pop(engine, "orders", batch=10, auto_ack=True, partitions=10)

    found = await sample(engine)

    assert (found[None]["depth"], found[None]["bytes"]) == (0, 0)
    assert found["__QUEUE_MODE__"]["bytes"] is None


def states(row: Record) -> tuple[int, int, int]:
    return row["ready_partitions"], row["leased_partitions"], row["idle_partitions"]


async def test_partitions_are_counted_by_state(engine: Engine, clock: Clock) -> None:
    for name in "abcd":
        await push(engine, "orders", 1, partition=name)
    assert states((await sample(engine))[None]) == (4, 0, 0)
    await pop(engine, "orders", partition="a", auto_ack=True)
    # Across two groups, a partition is leased or ready if it is so for any group.
    await pop(engine, "orders", partition="b", group="g")
    await pop(engine, "orders", partition="a", group="g", auto_ack=True)
    await pop(engine, "orders", partition="a", group="g", auto_ack=True)
    await pop(engine, "orders", partition="a", auto_ack=True)

    assert states((await sample(engine))[None]) == (2, 1, 1)
    await clock.advance(seconds=301)
    assert states((await sample(engine))[None])[1] == 0


async def test_samples_are_stored(engine: Engine) -> None:
    await push(engine, "orders", "aa")
    await pop(engine, "orders", group="g")
    await sample(engine)

    rows = await engine.store.database.fetch("newest_samples", None)

    kept = {row["group"]: (row["depth"], row["bytes"], *states(row)) for row in rows}
    assert kept == {None: (1, 4, 0, 1, 0), "g": (1, None, None, None, None)}
