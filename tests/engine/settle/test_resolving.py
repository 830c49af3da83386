"""Acks that name less than the ID and lease of a message are looked up together."""

from collections.abc import Callable
from typing import Any

import pytest

from queen.engine.engine import Engine
from queen.wire.messages import Acknowledgment, Message
from tests.engine.helpers import item, pop_one, push

COUNT = 300


@pytest.fixture
def calls(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the calls that the engine sends to its database after this call."""
    sent: list[str] = []
    database = engine.store.database
    fetch: Callable[..., Any] = database.fetch

    def noted(call: str, *arguments: object) -> Any:  # noqa: ANN401 - as fetch
        sent.append(call)
        return fetch(call, *arguments)

    monkeypatch.setattr(database, "fetch", noted)
    return sent


def contracts(message: Message, **fields: Any) -> Acknowledgment:  # noqa: ANN401
    """An acknowledgment with the fields of the API contract."""
    return Acknowledgment(
        transaction_id=message.transaction_id,
        partition_id=message.partition_id,
        lease_id=message.lease_id,
        **fields,
    )


async def given(engine: Engine, *, has_ids: bool, has_traces: bool) -> list[Message]:
    items = [
        item(
            "q",
            number,
            transaction_id=f"t{number}" if has_ids else None,
            trace_id="trace" if has_traces else None,
        )
        for number in range(COUNT)
    ]
    await engine.push(items)
    return list((await pop_one(engine, "q", batch=COUNT)).messages())


@pytest.mark.parametrize("has_traces", [False, True])
@pytest.mark.parametrize("has_ids", [False, True])
async def test_all_acks_of_a_batch_are_looked_up_together(
    engine: Engine, calls: list[str], has_ids: bool, has_traces: bool
) -> None:
    messages = await given(engine, has_ids=has_ids, has_traces=has_traces)
    calls.clear()

    answers = await engine.acknowledge([contracts(each) for each in messages])

    assert all(each.success and not each.noop for each in answers)
    assert calls.count("find_deliveries") == 1
    assert len(calls) < 10


async def test_all_acks_of_a_transaction_are_looked_up_together(
    engine: Engine, calls: list[str]
) -> None:
    messages = await given(engine, has_ids=True, has_traces=False)
    calls.clear()

    await engine.transact(acknowledgments=[contracts(each) for each in messages])

    assert calls.count("find_deliveries") == 1
    assert len(calls) < 10


async def test_transaction_ids_outside_the_dedup_window_are_read_from_the_messages(
    engine: Engine,
) -> None:
    await engine.queues.configure("q", {"dedup_seconds": 0.0})
    messages = await given(engine, has_ids=True, has_traces=True)

    answers = await engine.acknowledge([contracts(each) for each in messages])

    assert all(each.success for each in answers)


async def test_each_ack_of_a_batch_gets_its_own_result(engine: Engine) -> None:
    await push(engine, "q", 1, transaction_id="one")
    await push(engine, "q", 2)
    one, two = (await pop_one(engine, "q", batch=2)).messages()
    lost = f"0.999999.{'0' * 32}"

    answers = await engine.acknowledge(
        [
            Acknowledgment(transaction_id="one", partition_id=one.partition_id),
            Acknowledgment(transaction_id="never"),
            contracts(two, status="failed"),
            Acknowledgment(transaction_id="one", lease_id=lost, status="failed"),
        ]
    )

    assert [each.code for each in answers] == [None, "message_not_found", None, "lease_lost"]


async def test_a_transaction_id_is_still_known_after_it_was_settled(engine: Engine) -> None:
    for partition in ("a", "b", "c"):
        await push(engine, "q", 1, transaction_id=f"of-{partition}", partition=partition)
    for _ in range(3):
        (message,) = (await pop_one(engine, "q")).messages()
        await engine.acknowledge([contracts(message)])

    (again,) = await engine.acknowledge([Acknowledgment(transaction_id="of-b")])
    (other,) = await engine.acknowledge([Acknowledgment(transaction_id="of-b", status="failed")])
    (never,) = await engine.acknowledge([Acknowledgment(transaction_id="of-d")])

    assert (again.success, again.noop) == (True, True)
    assert other.code == "already_settled"
    assert never.code == "message_not_found"


async def test_two_settled_messages_with_one_transaction_id_are_ambiguous(engine: Engine) -> None:
    for partition in ("a", "b"):
        await push(engine, "q", 1, transaction_id="same", partition=partition)
        (message,) = (await pop_one(engine, "q")).messages()
        await engine.acknowledge([contracts(message)])

    (again,) = await engine.acknowledge([Acknowledgment(transaction_id="same")])

    assert again.code == "ambiguous_message"


async def test_an_unsettled_message_is_not_reported_as_settled(engine: Engine) -> None:
    await push(engine, "q", 1, transaction_id="t")
    (message,) = (await pop_one(engine, "q")).messages()
    await engine.acknowledge([contracts(message, status="failed", delay_seconds=60)])

    (waiting,) = await engine.acknowledge([Acknowledgment(transaction_id="t")])
    (of_others,) = await engine.acknowledge(
        [Acknowledgment(transaction_id="t", consumer_group="h")]
    )

    assert (waiting.code, of_others.code) == ("message_not_found", "message_not_found")


async def test_an_id_must_match_its_partition(engine: Engine) -> None:
    await push(engine, "q", 1, 2)
    one, two = (await pop_one(engine, "q", batch=2)).messages()
    wrong = [
        Acknowledgment(id=each.id, lease_id=each.lease_id, partition_id="0.999")
        for each in (one, two)
    ]

    refused = await engine.acknowledge(wrong)
    taken = await engine.acknowledge(
        [
            Acknowledgment(id=each.id, lease_id=each.lease_id, partition_id=each.partition_id)
            for each in (one, two)
        ]
    )

    assert [each.code for each in refused] == ["message_not_found"] * 2
    assert [each.success for each in taken] == [True, True]
