"""All statements on the path of a message have the short deadline."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import msgspec

from queen import sql
from queen.engine.engine import Engine
from queen.engine.pop.delivery import Delivery
from queen.store.connection.options import Connecting
from queen.wire.messages import Acknowledgment
from tests.engine.helpers import ack, extend, item, lease, message, pop, pop_one, push, settle

BACKGROUND = {"due_schedules"}
"""Sent by background tasks, not on the path of a message."""


def record(engine: Engine) -> set[str]:
    """The names of all statements that the engine sends after this call."""
    sent: set[str] = set()

    @contextmanager
    def note(call: str) -> Generator[None]:
        sent.add(call)
        yield

    engine.store.database.span = note
    return sent


async def use_the_hot_verbs(engine: Engine) -> None:
    await push(engine, "orders", *range(9))
    await push(engine, "orders", 1, transaction_id="t")
    await push(engine, "orders", 1, delay_seconds=60)
    await engine.push([item("orders", 1)], producer_id="p", sequence=1)
    await engine.push([item("orders", 1)], producer_id="p", sequence=1)
    await pop(engine, "orders", auto_ack=True)
    delivery = await pop_one(engine, "orders", batch=6)
    await extend(engine, lease(delivery))
    await settle(engine, delivery, **result_of(delivery, 0))
    await settle(engine, delivery, delivery.offsets[1], "failed")
    delivery = await pop_one(engine, "orders", group="g", batch=4)
    await engine.transact(items=[item("orders", 2)], acknowledgments=[named(delivery, 0)])
    await engine.transact(
        items=[item("orders", 2)],
        acknowledgments=[named(delivery, 1, **result_of(delivery, 1))],
    )
    await engine.release(lease(delivery))
    await ack(engine, await pop_one(engine, "orders", group="g"))
    await pop(engine, namespace="", group="g")


def result_of(delivery: Delivery, at: int) -> dict[str, Any]:
    found = message(delivery, delivery.offsets[at])
    return {
        "transaction_id": found.transaction_id,
        "result": msgspec.Raw(b"1"),
        "result_seconds": 60.0,
    }


def named(delivery: Delivery, at: int, **fields: Any) -> Acknowledgment:  # noqa: ANN401
    found = message(delivery, delivery.offsets[at])
    return Acknowledgment(
        id=found.id, lease_id=delivery.lease_id, consumer_group="g", status="completed", **fields
    )


async def test_all_statements_of_the_hot_verbs_have_the_short_deadline(engine: Engine) -> None:
    sent = record(engine)

    await use_the_hot_verbs(engine)

    assert {"push", "pop", "ack", "subscribe", "transact"} <= sent
    assert sent - sql.HOT - BACKGROUND == set()


def test_all_statements_on_messages_are_marked() -> None:
    transactions = {"transact", "transact_once", "transact_across"}
    assert {*transactions, "fire", "subscribe", "fill", *sql.BATCHED} <= sql.HOT


def test_a_hot_call_times_out_long_before_any_other() -> None:
    how = Connecting()

    assert {how.deadline_seconds(call) for call in sql.HOT} == {how.silence_seconds}
    assert how.deadline_seconds("ack") < how.deadline_seconds("server_state")
