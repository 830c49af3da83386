"""A dead letter keeps its own copy of the message, and can be redriven."""

import pytest

from queen.codec.ids import reference
from queen.engine.engine import Engine
from queen.store.dead_letters import LetterFilter
from tests.engine.helpers import (
    ack,
    dead_letters,
    delete_queue,
    drain,
    lease,
    message,
    pop,
    pop_one,
    purge,
    push,
    settle,
    values,
)
from tests.support.clock import Clock

ONE_ATTEMPT = {"retry_limit": 0}


async def give_up(engine: Engine, queue: str, group: str | None = None) -> int:
    """Dead-letter the next message of a queue, and return the ID of the dead letter."""
    answer = await settle(engine, await pop_one(engine, queue, group=group), status="dlq")
    assert answer.dlq
    return (await dead_letters(engine, queue))[-1]["id"]


async def test_a_message_becomes_a_dead_letter_after_its_last_attempt(
    engine: Engine, clock: Clock
) -> None:
    await engine.queues.configure("orders", {"retry_limit": 2})
    (pushed,) = await push(engine, "orders", {"n": 1}, transaction_id="t", headers={"h": "v"})
    dlqs: list[bool] = []
    for _ in range(3):
        delivery = await pop_one(engine, "orders", group="g")
        dlqs.append((await settle(engine, delivery, status="failed", error="why")).dlq)
        await clock.advance(seconds=10)

    assert dlqs == [False, False, True]
    assert await pop(engine, "orders", group="g") == []
    (letter,) = await dead_letters(engine, "orders")
    assert (letter["queue"], letter["group"], letter["partition"]) == ("orders", "g", "Default")
    assert (letter["offset"], reference(letter["partition_id"])) == (0, pushed.partition_id)
    assert (letter["payload"], letter["attempts"]) == (b'{"n":1}', 3)
    assert (letter["error"], letter["reason"]) == ("why", "failed")
    assert letter["extras"] == b'{"transactionId":"t","headers":{"h":"v"}}'


async def test_expired_leases_lead_to_a_dead_letter_too(engine: Engine, clock: Clock) -> None:
    await engine.queues.configure("orders", {"retry_limit": 1})
    await push(engine, "orders", "a", "b")
    for _ in range(2):
        await pop_one(engine, "orders")
        await clock.advance(seconds=310)
    await pop(engine, "orders")

    (letter,) = await dead_letters(engine, "orders")
    assert (letter["payload"], letter["attempts"], letter["reason"]) == (b'"a"', 2, "expired")


async def test_a_pop_that_dead_letters_the_head_returns_the_messages_behind_it(
    engine: Engine, clock: Clock
) -> None:
    await engine.queues.configure("orders", ONE_ATTEMPT)
    await push(engine, "orders", "a", "b")
    await pop_one(engine, "orders")
    await clock.advance(seconds=310)

    assert values(await pop_one(engine, "orders")) == ["b"]


@pytest.mark.parametrize("ordered", [True, False])
async def test_the_rest_of_the_batch_is_redelivered_without_a_counted_attempt(
    engine: Engine, ordered: bool
) -> None:
    await engine.queues.configure("orders", ONE_ATTEMPT | {"ordered": ordered})
    await push(engine, "orders", *range(3))
    batch = await pop_one(engine, "orders", batch=3)

    answer = await settle(engine, batch, 1, "failed")

    assert (answer.dlq, answer.retry_at) == (True, None)
    if ordered:
        rest = await pop_one(engine, "orders", batch=3)
        assert (rest.offsets, rest.attempt) == ([0, 2], 1)
    else:
        assert await ack(engine, batch) == 2
    assert [each["offset"] for each in await dead_letters(engine, "orders")] == [1]


async def test_each_group_has_its_own_dead_letter(engine: Engine) -> None:
    await push(engine, "orders", "a")
    await give_up(engine, "orders", group="g")
    await give_up(engine, "orders", group="h")

    assert [each["group"] for each in await dead_letters(engine, "orders")] == ["g", "h"]
    (only,) = await dead_letters(engine, "orders", consumer_group="h")
    assert only["group"] == "h"


async def test_a_dead_letter_outlives_its_message(engine: Engine) -> None:
    await push(engine, "orders", {"big": 2**70}, "b")
    letter_id = await give_up(engine, "orders")
    assert await purge(engine, "orders") == 2

    (letter,) = await dead_letters(engine, "orders")
    assert letter["payload"] == b'{"big":1180591620717411303424}'
    assert await engine.dead_letters.redrive([letter_id]) == [letter_id]

    again = await pop_one(engine, "orders", batch=5)
    assert (again.payloads(), again.offsets) == ([b'{"big":1180591620717411303424}'], [0])


@pytest.mark.parametrize("how", ["failed", "expiry"])
async def test_a_queue_without_dead_letters_drops_them(
    engine: Engine, clock: Clock, how: str
) -> None:
    await engine.queues.configure("orders", ONE_ATTEMPT | {"dead_letter": False})
    await push(engine, "orders", "a", "b")
    delivery = await pop_one(engine, "orders")
    if how == "failed":
        await settle(engine, delivery, status="failed")
    await clock.advance(seconds=310)

    taken = await drain(engine, "orders") or await drain(engine, "orders")

    assert taken == ["b"]
    assert await dead_letters(engine, "orders") == []


async def test_a_dropped_message_is_not_reported_as_a_dead_letter(engine: Engine) -> None:
    await engine.queues.configure("orders", ONE_ATTEMPT | {"dead_letter": False})
    await push(engine, "orders", "a")

    answer = await settle(engine, await pop_one(engine, "orders"), status="failed")

    assert (answer.success, answer.dlq, answer.retry_at) == (True, False, None)


async def test_a_redriven_message_goes_only_to_its_group_from_attempt_1(
    engine: Engine,
) -> None:
    await push(engine, "orders", "a", transaction_id="t", trace_id="trace", headers={"k": "v"})
    await drain(engine, "orders", group="h")
    first = await pop_one(engine, "orders", group="g")
    await settle(engine, first, status="dlq")
    (letter,) = await dead_letters(engine, "orders")

    assert await engine.dead_letters.redrive([letter["id"]]) == [letter["id"]]

    assert await pop(engine, "orders", group="h") == []
    again = await pop_one(engine, "orders", group="g")
    got, was = message(again, 0), message(first, 0)
    assert (again.attempt, got.id, got.transaction_id) == (1, was.id, "t")
    assert (got.trace_id, got.headers, got.created_at) == ("trace", {"k": "v"}, was.created_at)
    assert await dead_letters(engine, "orders") == []
    assert await ack(engine, again) == 1
    assert await pop(engine, "orders", group="g") == []


async def test_a_redriven_message_can_fail_again(engine: Engine, clock: Clock) -> None:
    await engine.queues.configure("orders", {"retry_limit": 1})
    await push(engine, "orders", "a")
    letter_id = await give_up(engine, "orders")
    await engine.dead_letters.redrive([letter_id])

    first = await pop_one(engine, "orders")
    await settle(engine, first, status="failed")
    await clock.advance(seconds=10)
    second = await pop_one(engine, "orders")
    await settle(engine, second, status="failed", error="again")

    assert (first.attempt, second.attempt) == (1, 2)
    (letter,) = await dead_letters(engine, "orders")
    assert (letter["payload"], letter["attempts"], letter["error"]) == (b'"a"', 2, "again")


async def test_on_an_ordered_queue_a_redriven_message_waits_for_the_lease(
    engine: Engine,
) -> None:
    await push(engine, "orders", "a", "b", "c")
    letter_id = await give_up(engine, "orders")
    held = await pop_one(engine, "orders")
    assert values(held) == ["b"]

    await engine.dead_letters.redrive([letter_id])
    assert await pop(engine, "orders", batch=10, partitions=10) == []

    await ack(engine, held)
    redriven = await pop_one(engine, "orders", batch=10, partitions=10)
    assert values(redriven) == ["a"]
    assert await pop(engine, "orders", batch=10, partitions=10) == []
    await ack(engine, redriven)
    assert await drain(engine, "orders") == ["c"]


async def test_several_redriven_messages_are_delivered_one_after_the_other(engine: Engine) -> None:
    await push(engine, "orders", "a", "b", "c")
    ids = [await give_up(engine, "orders") for _ in range(2)]

    assert sorted(await engine.dead_letters.redrive(ids)) == ids

    for value in ("a", "b", "c"):
        (delivery,) = await pop(engine, "orders", batch=10, partitions=10)
        assert values(delivery) == [value]
        assert await pop(engine, "orders", batch=10, partitions=10) == []
        await ack(engine, delivery)


async def test_on_an_unordered_queue_redriven_messages_do_not_wait(engine: Engine) -> None:
    await engine.queues.configure("jobs", {"ordered": False})
    await push(engine, "jobs", "a", "b", "c")
    ids = [await give_up(engine, "jobs") for _ in range(2)]
    held = await pop_one(engine, "jobs")

    await engine.dead_letters.redrive(ids)

    again = await pop(engine, "jobs", batch=10, partitions=10)
    assert (values(held), values(again)) == (["c"], ["a", "b"])


async def test_a_redrive_without_a_dead_letter_returns_no_message(engine: Engine) -> None:
    await push(engine, "orders", "a")
    letter_id = await give_up(engine, "orders")
    await engine.dead_letters.redrive([letter_id])

    assert await engine.dead_letters.redrive([letter_id, 10**6]) == []
    assert await engine.ack(lease(await pop_one(engine, "orders"))) == 1
    assert await pop(engine, "orders") == []


async def test_dead_letters_are_listed_in_pages(engine: Engine) -> None:
    await push(engine, "orders", *range(3))
    ids = [await give_up(engine, "orders") for _ in range(3)]

    first = await dead_letters(engine, "orders", limit=2)
    rest = await dead_letters(engine, "orders", after=first[-1]["id"], limit=2)

    assert [each["id"] for each in (*first, *rest)] == ids


async def test_a_redrive_recreates_a_removed_partition(dsn: str, engine: Engine) -> None:
    await engine.queues.configure("target")
    await push(engine, "target", "before", partition="p")  # This process caches the partition.
    async with await Engine.open(dsn) as other:
        await delete_queue(other, "target")
        await other.queues.configure("target")
    await push(engine, "orders", "again")
    await settle(engine, await pop_one(engine, "orders"), status="dlq")
    (letter,) = await dead_letters(engine, "orders")

    moved = await engine.dead_letters.redrive_to(
        [letter["id"]], [letter["payload"]], [letter["extras"]], "target", "p"
    )

    assert moved == [letter["id"]]
    assert values(await pop_one(engine, "target")) == ["again"]


async def test_a_count_covers_the_newest_dead_letters_and_returns_how_many(engine: Engine) -> None:
    await push(engine, "orders", *range(3))
    newest = [await give_up(engine, "orders", group) for group in ("g", "g", "h")][-1]
    letters, of_g = engine.store.dead_letters, LetterFilter(group="g")

    everything = await letters.count("orders", of_g, most=10)
    some = await letters.count("orders", of_g, most=2)

    names = ("messages", "looked_at", "last_id")
    assert [everything[name] for name in names] == [2, 3, newest]
    assert [some[name] for name in names] == [1, 2, newest]
