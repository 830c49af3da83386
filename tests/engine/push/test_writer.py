"""Only messages that were stored are counted and wake consumers."""

from collections.abc import Collection

from queen.engine.engine import Engine
from tests.engine.helpers import item, push


async def test_a_call_that_stores_no_message_is_not_counted(engine: Engine) -> None:
    pusher = engine._pusher  # pyright: ignore[reportPrivateUsage]
    parts, _ = await pusher.prepare([item("orders", 1)], is_admitted=True)

    # Another process has already moved this row of the outbox.
    moved = await pusher.store_with(
        parts, lambda push: engine.store.outbox.append([4711], push), refusal_kind="outbox"
    )

    assert moved is None
    assert engine.counters.pushed == 0
    assert parts[0].base is None


async def test_a_push_of_duplicates_wakes_no_consumer(engine: Engine) -> None:
    woken: list[int] = []

    def note(queue_ids: Collection[int], is_new: bool) -> None:
        del is_new
        woken.extend(queue_ids)

    await push(engine, "orders", 1, transaction_id="a")
    engine.signals.on_messages_stored.subscribe(note)

    (second,) = await push(engine, "orders", 1, transaction_id="a")

    assert second.status == "duplicate"
    assert not woken
