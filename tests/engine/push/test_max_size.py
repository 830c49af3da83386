"""A queue with a maximum size rejects pushes that exceed the room of the slowest group."""

import asyncio

from queen.engine.engine import Engine
from queen.settings import Settings
from queen.wire.messages import Pushed
from tests.engine.helpers import ack, drain, item, pop_one, purge, push, until


def outcome(answers: list[Pushed]) -> list[tuple[str, str | None]]:
    return [(each.status, each.code) for each in answers]


FULL = ("failed", "queue_full")
QUEUED = ("queued", None)


async def has_room_for(engine: Engine, value: object) -> None:
    """Push one message until it is accepted. The count may be half a second old."""

    async def is_accepted() -> bool:
        (answer,) = await push(engine, "orders", value)
        assert (answer.status, answer.code) in (FULL, QUEUED)
        return answer.status == "queued"

    await until(is_accepted, seconds=3)


async def test_a_full_queue_rejects_pushes(engine: Engine) -> None:
    await engine.queues.configure("orders", {"max_size": 3})

    assert outcome(await push(engine, "orders", *range(3))) == [QUEUED] * 3
    assert outcome(await push(engine, "orders", 3)) == [FULL]

    assert await drain(engine, "orders") == [0, 1, 2]


async def test_there_is_room_again_once_messages_are_settled(engine: Engine) -> None:
    await engine.queues.configure("orders", {"max_size": 2})
    await push(engine, "orders", "a", "b")
    assert outcome(await push(engine, "orders", "c")) == [FULL]
    await ack(engine, await pop_one(engine, "orders"))

    await has_room_for(engine, "c")

    assert outcome(await push(engine, "orders", "d")) == [FULL]
    assert await drain(engine, "orders") == ["b", "c"]


async def test_leased_messages_are_not_settled(engine: Engine) -> None:
    await engine.queues.configure("orders", {"max_size": 2})
    await push(engine, "orders", "a", "b")
    await pop_one(engine, "orders", batch=2)
    found = await engine.catalogue.queue("orders")

    assert await engine.store.queues.backlog(found.id, 10) == 2
    assert outcome(await push(engine, "orders", "c")) == [FULL]


async def test_the_slowest_group_decides(engine: Engine) -> None:
    await engine.queues.configure("orders", {"max_size": 2})
    await push(engine, "orders", "a", "b")
    await drain(engine, "orders", group="fast")
    await ack(engine, await pop_one(engine, "orders", group="slow"))
    found = await engine.catalogue.queue("orders")

    assert await engine.store.queues.backlog(found.id, 10) == 1
    await has_room_for(engine, "c")
    assert outcome(await push(engine, "orders", "d")) == [FULL]


async def test_delayed_messages_count(engine: Engine) -> None:
    await engine.queues.configure("orders", {"max_size": 2})

    held = await push(engine, "orders", "a", "b", delay_seconds=60)

    assert outcome(held) == [QUEUED] * 2
    assert outcome(await push(engine, "orders", "c")) == [FULL]


async def test_all_partitions_count_together(engine: Engine) -> None:
    await engine.queues.configure("orders", {"max_size": 4})
    await engine.push([item("orders", n, partition=str(n)) for n in range(3)])

    assert outcome(await push(engine, "orders", "a", "b")) == [FULL] * 2
    assert outcome(await push(engine, "orders", "a")) == [QUEUED]


async def test_other_queues_of_the_request_are_stored(engine: Engine) -> None:
    await engine.queues.configure("orders", {"max_size": 1})
    await push(engine, "orders", "a")

    answers = await engine.push([item("orders", "b"), item("others", "c")])

    assert outcome(list(answers)) == [FULL, QUEUED]
    assert await drain(engine, "others") == ["c"]


async def test_a_raised_limit_takes_effect_immediately(engine: Engine) -> None:
    await engine.queues.configure("orders", {"max_size": 1})
    await push(engine, "orders", "a")
    assert outcome(await push(engine, "orders", "b")) == [FULL]

    await engine.queues.configure("orders", {"max_size": 2})

    assert outcome(await push(engine, "orders", "b")) == [QUEUED]


async def test_purged_messages_make_room(engine: Engine) -> None:
    await engine.queues.configure("orders", {"max_size": 2})
    await push(engine, "orders", "a", "b")
    await purge(engine, "orders")

    await has_room_for(engine, "c")


async def test_many_concurrent_pushes_share_one_count(engine: Engine) -> None:
    await engine.queues.configure("orders", {"max_size": 10})

    answers = await asyncio.gather(*(push(engine, "orders", each) for each in range(100)))

    assert sum(each.status == "queued" for (each,) in answers) == 10


async def test_the_number_of_cached_counts_is_bounded(dsn: str) -> None:
    async with await Engine.open(dsn, settings=Settings(catalogue_entries=2)) as engine:
        for number in range(5):
            await engine.queues.configure(f"q{number}", {"max_size": 5})
            await push(engine, f"q{number}", 1)

        assert len(engine._pusher._backlogs._backlogs) <= 2  # pyright: ignore[reportPrivateUsage]
