"""A message is acknowledged once. Further attempts raise an error with the reason."""

import math
from decimal import Decimal
from uuid import UUID

import pytest

from queen import LeaseLost, Message, Queen, errors
from tests.client.faults import Faulty
from tests.support.clock import Clock


async def test_a_second_ack_raises_lease_lost_with_the_reason(shared: Queen, name: str) -> None:
    await shared.queue(name).push({"data": 1})
    (message,) = await shared.queue(name).pop()
    await message.ack()

    with pytest.raises(LeaseLost, match=r"#0, attempt 1\).* acknowledged by this client"):
        await message.ack()
    with pytest.raises(LeaseLost, match="acknowledged by this client"):
        await shared.ack([message], False)


async def test_a_lost_lease_names_its_message(queen: Queen, clock: Clock) -> None:
    queue = queen.queue("q")
    await queue.config({"leaseTime": 60, "retryDelay": 0}).create()
    await queue.partition("a").push({"data": "lost"})
    (lost,) = await queue.pop()
    await clock.advance(seconds=61)
    (again,) = await queue.pop()
    await queue.partition("b").push({"data": "kept"})
    (kept,) = await queue.pop()

    with pytest.raises(LeaseLost, match=r"1 of 2 leases .* Message\(q/a#0") as caught:
        await queen.renew([kept, lost])

    assert caught.value.members["lost"] == [lost]
    with pytest.raises(LeaseLost, match=r"Message\(q/a#0, attempt 1\).*redelivered"):
        await lost.ack()
    await again.ack()
    with pytest.raises(LeaseLost, match="acknowledged by another consumer"):
        await lost.ack()


async def test_an_auto_acked_message_cannot_be_extended(shared: Queen, name: str) -> None:
    await shared.queue(name).push({"data": 1})
    (message,) = await shared.queue(name).auto_ack(True).pop()

    with pytest.raises(errors.AlreadySettled, match="its pop acknowledged it"):
        await message.extend()
    await message.ack()  # Has no further effect.


async def test_a_nack_in_a_batch_of_an_ordered_queue_redelivers_unacked_messages(
    shared: Queen, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    queue = shared.queue(name).config({"retryDelay": 0})
    await queue.create()
    await queue.push([{"data": n} for n in range(4)])
    seen: list[tuple[int, int]] = []
    told: list[BaseException] = []

    async def handler(messages: list[Message[int]]) -> None:
        seen.extend((message.data, message.attempt) for message in messages)
        for message in messages:
            if message.data == 0:
                await message.ack()
            elif (message.data, message.attempt) == (2, 1):
                await message.nack("not yet")

    def failed(messages: list[Message[int]], error: BaseException) -> None:
        told.append(error)

    await queue.batch(4).on_error(failed).idle_millis(500).consume(handler)

    # Messages 1 and 3 were not acked: both are redelivered without counting an attempt.
    assert seen[:4] == [(0, 1), (1, 1), (2, 1), (3, 1)]
    assert seen[4:] == [(1, 1), (2, 2), (3, 1)]
    assert told == []
    assert "lease_lost" not in caplog.text


@pytest.mark.parametrize("acks", [True, False])
async def test_a_transaction_is_committed_once(shared: Queen, name: str, acks: bool) -> None:
    await shared.queue(f"{name}-in").push({"data": 1})
    (message,) = await shared.queue(f"{name}-in").pop()
    transaction = shared.transaction().queue(name).push({"data": 2})
    if acks:
        transaction = transaction.ack(message)
    await transaction.commit()

    with pytest.raises(errors.Conflict, match="was already committed"):
        await transaction.commit()

    assert len(await shared.queue(name).batch(10).pop()) == 1


async def test_a_transaction_that_was_not_applied_can_be_committed_again(
    shared: Queen, name: str
) -> None:
    shared.transport = faulty = Faulty(shared.transport)
    faulty.answers = [errors.ServerUnreachable("no"), errors.ConnectionLost("who knows")]
    transaction = shared.transaction().queue(name).push({"data": 1})
    with pytest.raises(errors.ServerUnreachable):
        await transaction.commit()
    with pytest.raises(errors.ConnectionLost):
        await transaction.commit()

    # It may have been applied, and has no ack that would prevent a second commit.
    with pytest.raises(errors.Conflict, match="already committed"):
        await transaction.commit()


async def test_an_ack_makes_a_repeated_commit_safe(shared: Queen, name: str) -> None:
    await shared.queue(f"{name}-in").push({"data": 1})
    (message,) = await shared.queue(f"{name}-in").pop()
    transaction = shared.transaction().ack(message).queue(name).push({"data": 2})
    shared.transport = faulty = Faulty(shared.transport)
    faulty.lose_answers = 1
    with pytest.raises(errors.ConnectionLost):
        await transaction.commit()

    with pytest.raises(errors.Conflict):
        await transaction.commit()

    assert len(await shared.queue(name).batch(10).pop()) == 1


@pytest.mark.parametrize(
    ("value", "comes_as"),
    [
        (math.nan, None),
        (math.inf, None),
        (b"abc", "YWJj"),
        ((1, 2), [1, 2]),
        ({1: "a"}, {"1": "a"}),
    ],
)
async def test_values_without_a_json_type_are_converted_as_documented(
    shared: Queen, name: str, value: object, comes_as: object
) -> None:
    await shared.queue(name).push({"data": value})
    (message,) = await shared.queue(name).pop()
    assert message.data == comes_as


async def test_a_type_restores_values_without_a_json_type(shared: Queen, name: str) -> None:
    value = (b"abc", {1: {"a"}}, UUID(int=7), Decimal("1.5"))
    kind = tuple[bytes, dict[int, set[str]], UUID, Decimal]
    await shared.queue(name).push({"data": value})

    (message,) = await shared.queue(name, type=kind).pop()

    assert message.data == value
