"""A dead letter whose message a seek made deliverable again is delivered only once at a time."""

import pytest

from queen.engine.engine import Engine
from queen.errors import LeaseLost, Overloaded, PartitionNotFound, QueueNotFound
from queen.wire.messages import Acknowledgment, PopRequest, PushItem
from tests.engine.helpers import ack, dead_letters, drain, pop, pop_one, purge, push, settle, values
from tests.support.clock import Clock


async def bury(engine: Engine) -> int:
    """Dead-letter the only message of an unordered queue, and return the ID of the dead letter."""
    await engine.queues.configure("q", {"ordered": False})
    await engine.push([PushItem(queue="q", payload=b"1")])
    (delivery,) = await engine.pop(PopRequest(queue="q"))
    (message,) = delivery.messages()
    await engine.acknowledge(
        [Acknowledgment(id=message.id, lease_id=delivery.lease_id, status="dlq")]
    )
    (letter,) = await dead_letters(engine, "q")
    return letter["id"]


async def test_a_redrive_does_not_duplicate_a_message_that_is_leased_since_a_seek(
    engine: Engine,
) -> None:
    letter_id = await bury(engine)
    await engine.queues.seek("q", None, to_start=True)
    (first,) = await engine.pop(PopRequest(queue="q"))
    assert first.offsets == [0]

    await engine.dead_letters.redrive([letter_id])

    assert await engine.pop(PopRequest(queue="q")) == []


async def test_a_redrive_does_not_duplicate_a_message_that_a_seek_will_redeliver(
    engine: Engine,
) -> None:
    letter_id = await bury(engine)
    await engine.queues.seek("q", None, to_start=True)

    await engine.dead_letters.redrive([letter_id])

    given = await engine.pop(PopRequest(queue="q", batch=4, partitions=4))
    assert [delivery.offsets for delivery in given] == [[0]]


async def redriven(engine: Engine, *payloads: str, is_ordered: bool) -> None:
    """Redrive dead letters whose messages are no longer in the log."""
    await engine.queues.configure("q", {"ordered": is_ordered})
    await push(engine, "q", *payloads)
    for _ in payloads:
        await settle(engine, await pop_one(engine, "q"), status="dlq")
    await purge(engine, "q", is_completed=True)
    letters = await dead_letters(engine, "q")
    await engine.dead_letters.redrive([letter["id"] for letter in letters])


@pytest.mark.parametrize("is_ordered", [True, False])
@pytest.mark.parametrize("is_to_start", [True, False])
async def test_a_redriven_message_that_is_no_longer_in_the_log_outlives_a_seek(
    engine: Engine, is_ordered: bool, is_to_start: bool
) -> None:
    await redriven(engine, "a", is_ordered=is_ordered)
    held = await pop_one(engine, "q")

    await engine.queues.seek("q", None, to_start=is_to_start, to_end=not is_to_start)

    with pytest.raises(LeaseLost):
        await ack(engine, held)
    again = await pop_one(engine, "q")
    assert (values(again), again.attempt) == (["a"], 1)
    await ack(engine, again)
    await push(engine, "q", "b")
    assert await drain(engine, "q") == ["b"]


async def test_redriven_messages_of_an_ordered_queue_are_delivered_one_by_one_after_a_seek(
    engine: Engine,
) -> None:
    await redriven(engine, "a", "b", "c", is_ordered=True)
    await ack(engine, await pop_one(engine, "q", batch=10))
    await push(engine, "q", "d")

    await engine.queues.seek("q", None, to_start=True)

    came: list[str] = []
    while deliveries := await pop(engine, "q", batch=10, partitions=10):
        (delivery,) = deliveries
        came += values(delivery)
        await ack(engine, delivery)
    assert came == ["b", "c", "d"]


async def test_a_redriven_message_that_a_seek_redelivers_is_delivered_once(engine: Engine) -> None:
    letter_id = await bury(engine)
    await engine.dead_letters.redrive([letter_id])

    await engine.queues.seek("q", None, to_start=True)

    assert await drain(engine, "q") == [1]


async def test_a_seek_leaves_a_redriven_message_to_its_backoff(
    engine: Engine, clock: Clock
) -> None:
    await redriven(engine, "a", is_ordered=True)
    await settle(engine, await pop_one(engine, "q"), status="failed", delay_seconds=60)

    await engine.queues.seek("q", None, to_start=True)

    assert await pop(engine, "q") == []
    await clock.advance(seconds=60)
    again = await pop_one(engine, "q")
    assert (values(again), again.attempt) == (["a"], 2)


async def test_a_redrive_to_a_partition_that_is_constantly_removed_ends(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await engine.queues.configure("elsewhere", {})
    tries: list[int] = []

    async def removed(*arguments: object) -> list[int]:
        tries.append(len(arguments))
        raise PartitionNotFound("removed")

    monkeypatch.setattr(engine.store.dead_letters, "redrive_to", removed)

    with pytest.raises(Overloaded, match="removed several times"):
        await engine.dead_letters.redrive_to([1], [b"1"], [None], "elsewhere", "p")
    assert len(tries) < 100


async def test_a_redrive_does_not_recreate_a_queue_that_another_process_deleted(
    engine: Engine,
) -> None:
    await engine.queues.configure("elsewhere", {})
    await engine.catalogue.queue("elsewhere")
    await engine.store.queues.delete("elsewhere")  # This process does not receive a notification.

    with pytest.raises(QueueNotFound):
        await engine.dead_letters.redrive_to([1], [b"1"], [None], "elsewhere", "p")
    assert await engine.store.queues.named(["elsewhere"]) == []
