"""Messages that wait longer than their queue allows become dead letters, and are not delivered."""

import pytest

from queen.engine.engine import Engine
from queen.engine.upkeep.loop import Upkeep
from queen.settings import Settings
from tests.engine.helpers import ack, dead_letters, drain, pop, pop_one, push, settle, values
from tests.support.clock import Clock

OPTIONS = {"max_wait_seconds": 60}


@pytest.fixture
async def upkeep(engine: Engine) -> Upkeep:
    return Upkeep(engine.core, Settings(eviction_interval_ms=1_000, eviction_batch_size=2))


async def sweep(upkeep: Upkeep) -> None:
    """Run the background tasks that are due until they are done."""
    while await upkeep.look():
        pass


async def letters(engine: Engine) -> list[tuple[str, int, str, bytes]]:
    found = await dead_letters(engine, "orders")
    return sorted(
        (each["group"], each["offset"], each["reason"], each["payload"]) for each in found
    )


async def test_a_pop_returns_no_message_that_has_waited_too_long(
    engine: Engine, clock: Clock
) -> None:
    await engine.queues.configure("orders", OPTIONS)
    await push(engine, "orders", "a", "b")
    await clock.advance(seconds=59)
    await push(engine, "orders", "c")
    await clock.advance(seconds=1)

    assert await drain(engine, "orders", group="g") == ["c"]
    assert await letters(engine) == [("g", 0, "evicted", b'"a"'), ("g", 1, "evicted", b'"b"')]
    assert engine.counters.groups[1].evicted == 2


async def test_each_group_loses_the_messages_that_it_had_not_claimed(
    engine: Engine, clock: Clock, upkeep: Upkeep
) -> None:
    await engine.queues.configure("orders", OPTIONS)
    for value in range(5):
        await push(engine, "orders", value)
    await pop(engine, "orders", group="ahead", batch=4, auto_ack=True)
    held = await pop_one(engine, "orders", group="behind", batch=1)
    await clock.advance(seconds=61)
    await sweep(upkeep)

    assert [each[:2] for each in await letters(engine)] == [
        ("ahead", 4),
        *(("behind", offset) for offset in range(1, 5)),
    ]
    # A claimed message stays with its consumer at any age.
    assert await ack(engine, held) == 1
    await push(engine, "orders", "new")
    assert await drain(engine, "orders", group="ahead") == ["new"]
    assert await drain(engine, "orders", group="behind") == ["new"]


async def test_messages_that_wait_for_their_next_attempt_are_not_evicted(
    engine: Engine, clock: Clock, upkeep: Upkeep
) -> None:
    await engine.queues.configure("orders", OPTIONS)
    await push(engine, "orders", "a")
    await settle(engine, await pop_one(engine, "orders"), status="retry", delay_seconds=100)
    await clock.advance(seconds=101)
    await sweep(upkeep)

    assert values(await pop_one(engine, "orders")) == ["a"]
    assert await letters(engine) == []


async def test_the_wait_counts_from_when_the_message_is_available(
    engine: Engine, clock: Clock, upkeep: Upkeep
) -> None:
    await engine.queues.configure("orders", {**OPTIONS, "delay_seconds": 100})
    await push(engine, "orders", "a")
    await pop(engine, "orders", group="g")
    await clock.advance(seconds=150)
    await sweep(upkeep)
    assert await letters(engine) == []

    await clock.advance(seconds=11)
    await sweep(upkeep)

    assert [each[:3] for each in await letters(engine)] == [("g", 0, "evicted")]


async def test_a_queue_without_dead_letters_drops_and_counts(
    engine: Engine, clock: Clock, upkeep: Upkeep
) -> None:
    await engine.queues.configure("orders", {**OPTIONS, "dead_letter": False})
    await push(engine, "orders", "a", "b")
    await pop(engine, "orders", group="g", batch=1, auto_ack=True)
    await clock.advance(seconds=61)
    await sweep(upkeep)

    assert await letters(engine) == []
    tally = engine.counters.groups[1]
    assert (tally.evicted, tally.unkept, tally.dead_lettered) == (1, 1, 0)
    assert await drain(engine, "orders", group="g") == []


async def test_eviction_covers_a_group_that_is_created_later(
    engine: Engine, clock: Clock, upkeep: Upkeep
) -> None:
    await engine.queues.configure("orders", OPTIONS)
    await push(engine, "orders", "a")
    await pop(engine, "orders", group="first")
    await push(engine, "orders", "b", partition="other")
    await clock.advance(seconds=61)
    await sweep(upkeep)

    # It pops from only one partition, once.
    await pop(engine, "orders", group="later", partition="none")
    await clock.advance(seconds=2)
    await sweep(upkeep)

    assert [each[:2] for each in await letters(engine)] == [
        ("first", 0),
        ("later", 0),
        ("later", 0),
    ]


async def test_messages_that_a_seek_brings_back_are_evicted_without_a_second_dead_letter(
    engine: Engine, clock: Clock, upkeep: Upkeep
) -> None:
    await engine.queues.configure("orders", OPTIONS)
    await push(engine, "orders", "a")
    await pop(engine, "orders", group="g", auto_ack=True)
    await clock.advance(seconds=61)
    await sweep(upkeep)
    await engine.queues.seek("orders", "g", to_start=True)
    await clock.advance(seconds=2)

    await sweep(upkeep)
    await sweep(upkeep)

    assert await pop(engine, "orders", group="g") == []
    assert [each[:3] for each in await letters(engine)] == [("g", 0, "evicted")]


async def test_a_redriven_message_is_delivered_at_any_age(
    engine: Engine, clock: Clock, upkeep: Upkeep
) -> None:
    await engine.queues.configure("orders", OPTIONS)
    await push(engine, "orders", "a")
    await pop(engine, "orders", group="g", partition="none")
    await clock.advance(seconds=61)
    await sweep(upkeep)
    (letter,) = await dead_letters(engine, "orders")

    await engine.dead_letters.redrive([letter["id"]])

    assert values(await pop_one(engine, "orders", group="g")) == ["a"]


async def test_a_message_whose_time_to_live_ended_first_is_not_dead_lettered(
    engine: Engine, clock: Clock, upkeep: Upkeep
) -> None:
    await engine.queues.configure("orders", OPTIONS)
    await push(engine, "orders", "short", ttl_seconds=10)
    await push(engine, "orders", "long")
    await pop(engine, "orders", group="g", partition="none")
    await clock.advance(seconds=61)
    await sweep(upkeep)

    assert [each[3] for each in await letters(engine)] == [b'"long"']
