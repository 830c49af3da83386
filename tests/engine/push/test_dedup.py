"""A transactionId is stored once per partition inside its window."""

import asyncio
import time

import pytest

from queen.engine.engine import Engine
from tests.engine.helpers import ack, drain, item, message, pop, pop_one, purge, push, values
from tests.support.clock import Clock


async def test_a_known_transaction_id_returns_the_first_message(engine: Engine) -> None:
    await push(engine, "orders", "filler")
    (first,) = await push(engine, "orders", "a", transaction_id="t")
    (again,) = await push(engine, "orders", "changed", transaction_id="t")

    assert (first.status, first.offset, first.transaction_id) == ("queued", 1, "t")
    assert (again.status, again.offset, again.id) == ("duplicate", 1, first.id)
    assert (again.transaction_id, again.partition_id) == ("t", first.partition_id)
    assert await drain(engine, "orders") == ["filler", "a"]


async def test_a_transaction_id_is_unique_per_partition_and_queue(engine: Engine) -> None:
    for queue, partition in (("orders", "one"), ("orders", "two"), ("others", "one")):
        (answer,) = await push(engine, queue, "a", partition=partition, transaction_id="t")
        assert (answer.status, answer.offset) == ("queued", 0)


async def test_duplicates_inside_one_request_are_stored_once(engine: Engine) -> None:
    answers = await engine.push(
        [
            item("orders", "a", transaction_id="t"),
            item("orders", "b"),
            item("orders", "c", transaction_id="t"),
            item("orders", "d", transaction_id="u"),
            item("orders", "e", transaction_id="t"),
        ]
    )

    assert [(each.status, each.offset) for each in answers] == [
        ("queued", 0),
        ("queued", 1),
        ("duplicate", 0),
        ("queued", 2),
        ("duplicate", 0),
    ]
    assert len({answers[n].id for n in (0, 2, 4)}) == 1
    assert await drain(engine, "orders") == ["a", "b", "d"]


async def test_duplicates_inside_one_flush_are_stored_once(engine: Engine) -> None:
    pushes = [push(engine, "orders", n, transaction_id=f"t{n % 5}") for n in range(50)]

    answers = [answer for (answer,) in await asyncio.gather(*pushes)]

    stored = {each.transaction_id: each.offset for each in answers if each.status == "queued"}
    assert sorted(offset for offset in stored.values() if offset is not None) == list(range(5))
    assert all(stored[each.transaction_id] == each.offset for each in answers)
    assert len(await drain(engine, "orders")) == 5


async def test_known_and_new_items_in_one_request_get_their_own_results(engine: Engine) -> None:
    await push(engine, "orders", "a", transaction_id="t")

    answers = await engine.push(
        [
            item("orders", "x"),
            item("orders", "again", transaction_id="t"),
            item("orders", "b", transaction_id="u"),
            item("orders", "y"),
        ]
    )

    assert [(each.status, each.offset) for each in answers] == [
        ("queued", 1),
        ("duplicate", 0),
        ("queued", 2),
        ("queued", 3),
    ]
    assert await drain(engine, "orders") == ["a", "x", "b", "y"]


async def test_two_processes_agree_on_the_first_message(engine: Engine, dsn: str) -> None:
    async with await Engine.open(dsn) as other:
        answers = await asyncio.gather(
            *(push(each, "orders", "a", transaction_id="t") for each in (engine, other) * 10)
        )

    assert [one.status for (one,) in answers].count("queued") == 1
    assert {one.offset for (one,) in answers} == {0}
    assert await drain(engine, "orders") == ["a"]


async def test_the_window_outlives_ack_and_purge(engine: Engine, clock: Clock) -> None:
    await engine.queues.configure("orders", {"dedup_seconds": 100})
    (first,) = await push(engine, "orders", "a", transaction_id="t")
    await ack(engine, await pop_one(engine, "orders"))
    await purge(engine, "orders")
    await clock.advance(seconds=99)

    (again,) = await push(engine, "orders", "b", transaction_id="t")

    assert (again.status, again.id) == ("duplicate", first.id)
    assert await pop(engine, "orders") == []


@pytest.mark.parametrize("seconds", [60, 3600, 86_400, 604_800, 2_678_400])
async def test_after_the_window_the_transaction_id_is_new_again(
    engine: Engine, clock: Clock, seconds: int
) -> None:
    await engine.queues.configure("orders", {"dedup_seconds": seconds})
    await push(engine, "orders", "a", transaction_id="t")
    await clock.advance(seconds=seconds - 1)
    (inside,) = await push(engine, "orders", "b", transaction_id="t")
    await clock.advance(seconds=1)

    (after,) = await push(engine, "orders", "c", transaction_id="t")
    (again,) = await push(engine, "orders", "d", transaction_id="t")

    assert (inside.status, inside.offset) == ("duplicate", 0)
    assert (after.status, after.offset) == ("queued", 1)
    assert (again.status, again.offset) == ("duplicate", 1)


async def test_a_window_of_zero_disables_dedup(engine: Engine) -> None:
    await engine.queues.configure("orders", {"dedup_seconds": 0})
    first = await push(engine, "orders", "a", transaction_id="t")
    second = await push(engine, "orders", "b", transaction_id="t")

    assert [each.offset for each in (*first, *second)] == [0, 1]
    assert {each.status for each in (*first, *second)} == {"queued"}


async def test_a_window_of_zero_disables_dedup_within_one_request_too(engine: Engine) -> None:
    await engine.queues.configure("orders", {"dedup_seconds": 0})

    answers = await push(engine, "orders", "a", "b", transaction_id="t")

    assert [(each.status, each.offset) for each in answers] == [("queued", 0), ("queued", 1)]
    assert await drain(engine, "orders") == ["a", "b"]


@pytest.mark.parametrize(("before", "after"), [(86_400, 60), (60, 86_400), (3600, 604_800)])
async def test_a_changed_window_keeps_the_known_transaction_ids(
    engine: Engine, clock: Clock, before: int, after: int
) -> None:
    await engine.queues.configure("orders", {"dedup_seconds": before})
    await push(engine, "orders", "a", transaction_id="t")
    await clock.advance(seconds=30)

    await engine.queues.configure("orders", {"dedup_seconds": after})

    (again,) = await push(engine, "orders", "b", transaction_id="t")
    assert (again.status, again.offset) == ("duplicate", 0)


async def test_a_scheduled_message_is_known_before_and_after_it_is_due(
    engine: Engine, clock: Clock
) -> None:
    await push(engine, "orders", "filler")
    (held,) = await push(engine, "orders", "a", delay_seconds=10, transaction_id="t")
    (before,) = await push(engine, "orders", "b", transaction_id="t")
    (delayed,) = await push(engine, "orders", "c", delay_seconds=5, transaction_id="t")
    await clock.advance(seconds=10)
    assert await drain(engine, "orders", group="g") == ["filler", "a"]
    (after,) = await push(engine, "orders", "d", transaction_id="t")

    assert (held.status, held.offset, held.transaction_id) == ("queued", None, "t")
    assert (before.status, before.offset, before.id) == ("duplicate", None, None)
    assert (delayed.status, delayed.offset) == ("duplicate", None)
    assert (after.status, after.offset) == ("duplicate", 1)
    assert await drain(engine, "orders") == ["filler", "a"]


@pytest.mark.parametrize("delays", [(5, 5), (5, None), (None, 5)])
async def test_scheduled_duplicates_inside_one_request_are_stored_once(
    engine: Engine, clock: Clock, delays: tuple[float | None, float | None]
) -> None:
    answers = await engine.push(
        [item("orders", n, transaction_id="t", delay_seconds=d) for n, d in enumerate(delays)]
    )

    assert sorted(each.status for each in answers) == ["duplicate", "queued"]
    await clock.advance(seconds=10)
    assert len(await drain(engine, "orders")) == 1


async def test_scheduled_duplicates_inside_one_flush_are_stored_once(
    engine: Engine, clock: Clock
) -> None:
    answers = await asyncio.gather(
        *(push(engine, "orders", n, delay_seconds=5, transaction_id="t") for n in range(10))
    )

    assert [one.status for (one,) in answers].count("queued") == 1
    await clock.advance(seconds=10)
    assert len(await drain(engine, "orders")) == 1


async def test_a_message_without_a_transaction_id_uses_its_id(engine: Engine) -> None:
    (first,) = await push(engine, "orders", "a")
    (second,) = await push(engine, "orders", "a")

    assert first.transaction_id == first.id
    assert first.id != second.id
    delivery = await pop_one(engine, "orders", batch=2)
    assert [each.transaction_id for each in delivery.messages()] == [first.id, second.id]


async def test_a_transaction_id_is_returned_with_its_message(engine: Engine) -> None:
    await push(engine, "orders", "a", transaction_id="żółw 🐢")
    delivery = await pop_one(engine, "orders")

    assert (message(delivery, 0).transaction_id, values(delivery)) == ("żółw 🐢", ["a"])


async def test_a_known_transaction_id_stays_known_through_changes_of_the_window(
    engine: Engine, clock: Clock
) -> None:
    await engine.queues.configure("orders", {"dedup_seconds": 86_400})
    await push(engine, "orders", "a", transaction_id="t")

    for seconds in (3_600, 604_800, 3_600, 2_678_400):
        await engine.queues.configure("orders", {"dedup_seconds": seconds})
        (again,) = await push(engine, "orders", "a", transaction_id="t")
        assert (again.status, again.offset) == ("duplicate", 0)


async def test_many_copies_of_a_known_transaction_id_are_all_duplicates(engine: Engine) -> None:
    (first,) = await push(engine, "orders", 0, transaction_id="known")

    answers = await push(engine, "orders", *range(30), transaction_id="known")

    assert {(each.status, each.id) for each in answers} == {("duplicate", first.id)}


async def test_many_concurrent_retries_do_not_affect_their_flush(engine: Engine) -> None:
    await push(engine, "orders", 0, transaction_id="known")
    await engine.push([item("orders", 0, partition=f"p{each}") for each in range(3)])

    answers = await asyncio.gather(
        *(push(engine, "orders", 0, transaction_id="known") for _ in range(30)),
        *(push(engine, "orders", each, partition=f"p{each}") for each in range(3)),
    )

    statuses = [each.status for (each,) in answers]
    assert statuses == ["duplicate"] * 30 + ["queued"] * 3


async def test_without_dedup_all_items_of_the_first_push_are_stored(dsn: str) -> None:
    async with await Engine.open(dsn, defaults={"dedup_seconds": 0}) as engine:
        answers = await push(engine, "orders", 1, 2, transaction_id="t")

        assert [each.status for each in answers] == ["queued", "queued"]
        assert await drain(engine, "orders") == [1, 2]


async def test_results_with_many_duplicates_are_built_in_linear_time(engine: Engine) -> None:
    count = 8_000
    known = [item("orders", each, transaction_id=f"t{each}") for each in range(0, count, 2)]
    await engine.push(known)
    result = await engine.push(
        [item("orders", each, transaction_id=f"t{each}") for each in range(count)]
    )

    begun = time.thread_time()
    offsets = [each.offset for each in result]
    took = time.thread_time() - begun

    # The duplicates have offsets 0 … 3999, and the new messages follow them.
    assert offsets == [each // 2 + each % 2 * (count // 2) for each in range(count)]
    assert took < 0.5
