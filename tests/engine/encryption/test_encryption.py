"""An encrypted queue stores ciphertext everywhere, and returns payloads as they were pushed."""

import asyncio

import pytest

from queen import errors
from queen.codec.encryption.keys import is_sealed
from queen.engine.engine import Engine
from queen.engine.inspect import browse
from tests.engine.encryption.helpers import CANARY, KEYED, assert_sealed, rows
from tests.engine.helpers import (
    dead_letters,
    drain,
    item,
    pop,
    pop_later,
    pop_one,
    push,
    says,
    settle,
    until,
    values,
)
from tests.support.clock import Clock


async def test_pushed_messages_are_popped_and_stored_only_encrypted(
    dsn: str, engine: Engine
) -> None:
    await push(engine, "orders", CANARY, {"n": 2}, transaction_id=None)
    await push(engine, "orders", CANARY, headers={"a": CANARY}, transaction_id="t1", trace_id="r")
    async with await Engine.open(dsn, settings=KEYED) as other:
        delivery = await pop_one(other, "orders", batch=10)
        assert values(delivery) == [CANARY, {"n": 2}, CANARY]
        messages = list(delivery.messages())
    assert messages[2].headers == {"a": CANARY}
    assert (messages[2].transaction_id, messages[2].trace_id) == ("t1", "r")
    stored = await rows(dsn, "select body from queen.segments")
    assert all(is_sealed(row["body"]) for row in stored)
    await assert_sealed(dsn)


async def test_the_cache_returns_payloads_as_pushed(engine: Engine) -> None:
    await push(engine, "orders", CANARY, headers={"a": CANARY})
    misses = engine.segments.misses
    delivery = await pop_one(engine, "orders")
    assert values(delivery) == [CANARY]
    assert next(delivery.messages()).headers == {"a": CANARY}
    assert engine.segments.misses == misses


async def test_without_a_key_a_push_is_rejected_and_others_are_stored(
    dsn: str, engine: Engine
) -> None:
    async with await Engine.open(dsn) as keyless:
        with pytest.raises(errors.EncryptionUnavailable):
            await keyless.transact(items=[item("orders", 1)])
        answers = list(await keyless.push([item("orders", 1), item("others", 2)]))
        assert [each.status for each in answers] == ["failed", "queued"]
        assert answers[0].code == "encryption_unavailable"
        refused = (await keyless.push([item("orders", CANARY)])).first_refused
        assert refused is not None
        assert refused.code == "encryption_unavailable"
        with pytest.raises(errors.EncryptionUnavailable):
            await keyless.push([item("orders", 1)], producer_id="p", sequence=1)
    assert await pop(engine, "orders") == []


async def test_without_a_key_a_pop_fails_and_leases_no_message(dsn: str, engine: Engine) -> None:
    await push(engine, "orders", CANARY)
    async with await Engine.open(dsn) as keyless:
        for auto_ack in (False, True):
            with pytest.raises(errors.EncryptionUnavailable, match="master key default"):
                await pop(keyless, "orders", auto_ack=auto_ack)
    delivery = await pop_one(engine, "orders")
    assert (values(delivery), delivery.attempt) == ([CANARY], 1)


async def test_an_auto_ack_takes_no_undecryptable_message_after_the_option_is_off(
    dsn: str, engine: Engine
) -> None:
    await push(engine, "orders", CANARY)
    await engine.queues.configure("orders", {"encrypted": False})
    async with await Engine.open(dsn) as keyless:
        with pytest.raises(errors.EncryptionUnavailable):
            await pop(keyless, "orders", auto_ack=True)
    assert values(await pop(engine, "orders", auto_ack=True)) == [CANARY]
    assert await pop(engine, "orders") == []


async def test_a_pop_that_cannot_decrypt_does_not_fail_others_of_its_search(
    dsn: str, engine: Engine
) -> None:
    await push(engine, "orders", 1, partition="a")
    await push(engine, "orders", 2, partition="b")
    await rows(
        dsn,
        "update queen.segments set body = set_byte(body, 30, get_byte(body, 30) # 1)"
        " where partition_id = (select id from queen.partitions where name = 'a')",
    )
    engine.segments.clear()
    answers = await asyncio.gather(
        pop(engine, "orders"), pop(engine, "orders"), return_exceptions=True
    )
    assert sorted(type(each).__name__ for each in answers) == ["EncryptionUnavailable", "list"]


async def test_the_option_applies_to_later_pushes(dsn: str, engine: Engine) -> None:
    await engine.queues.configure("orders", {"encrypted": False})
    await push(engine, "orders", 1)
    await engine.queues.configure("orders", {"encrypted": True})
    await push(engine, "orders", 2)
    await engine.queues.configure("orders", {"encrypted": None})
    await push(engine, "orders", 3)
    stored = await rows(dsn, "select body from queen.segments order by base_offset")
    assert [is_sealed(row["body"]) for row in stored] == [False, True, False]
    assert [
        r["payload"]
        for r in await rows(dsn, 'select payload from queen.messages order by "offset"')
    ] == ["1", None, "3"]
    engine.segments.clear()
    assert await drain(engine, "orders") == [1, 2, 3]


async def test_a_process_that_has_not_seen_the_option_stores_only_ciphertext(
    dsn: str, engine: Engine
) -> None:
    await engine.queues.configure("late", {})
    await push(engine, "late", 1)
    # Changed directly in the table, without a notification.
    await rows(dsn, "update queen.queues set encrypted = true where name = 'late'")
    await push(engine, "late", CANARY)
    await push(engine, "late", CANARY, delay_seconds=60)
    await engine.transact(items=[item("late", CANARY)])
    await assert_sealed(dsn)
    assert await drain(engine, "late") == [1, CANARY, CANARY]


async def test_a_transaction_encrypts_and_decrypts(dsn: str, engine: Engine) -> None:
    await push(engine, "orders", CANARY)
    delivery = await pop_one(engine, "orders")
    await engine.queues.configure("done", {"encrypted": True})
    await engine.transact(
        acknowledgments=[says(delivery, 0, "completed")], items=[item("done", CANARY)]
    )
    engine.segments.clear()
    assert values(await pop_one(engine, "done")) == [CANARY]
    await assert_sealed(dsn)


async def test_a_dead_letter_and_its_redrive_stay_encrypted(dsn: str, engine: Engine) -> None:
    await engine.queues.configure("orders", {"retry_limit": 0})
    await push(engine, "orders", 0, CANARY, headers={"a": CANARY})
    delivery = await pop_one(engine, "orders", batch=2)
    await settle(engine, delivery, 0)
    await settle(engine, delivery, 1, "failed", error="no")
    (letter,) = await dead_letters(engine, "orders")
    assert letter["payload"].decode() == f'"{CANARY}"'
    await assert_sealed(dsn)
    assert await engine.dead_letters.redrive([letter["id"]]) == [letter["id"]]
    await assert_sealed(dsn)
    again = await pop_one(engine, "orders")
    assert values(again) == [CANARY]
    assert next(again.messages()).headers == {"a": CANARY}


async def test_a_message_that_is_dead_lettered_unread_stays_encrypted(
    dsn: str, engine: Engine
) -> None:
    await push(engine, "orders", CANARY)
    await pop(engine, "orders", group="g", batch=1, subscription_mode="all")
    (partition,) = await rows(dsn, "select id from queen.partitions")
    await engine.dead_letters.give_up(partition["id"], 0, "g", None)
    (letter,) = await dead_letters(engine, "orders")
    assert letter["payload"].decode() == f'"{CANARY}"'
    await assert_sealed(dsn)


async def test_a_last_expired_lease_dead_letters_the_message_encrypted(
    dsn: str, clock: Clock, engine: Engine
) -> None:
    await engine.queues.configure("orders", {"retry_limit": 0, "lease_seconds": 10})
    await push(engine, "orders", CANARY)
    await pop_one(engine, "orders")
    await clock.advance(seconds=11)
    assert await pop(engine, "orders") == []
    (letter,) = await dead_letters(engine, "orders")
    assert letter["payload"].decode() == f'"{CANARY}"'
    await assert_sealed(dsn)


async def test_a_redrive_to_another_queue_is_encrypted_for_that_queue(
    dsn: str, engine: Engine
) -> None:
    await engine.queues.configure("elsewhere", {"encrypted": True})
    await engine.queues.configure("open")
    for queue in ("elsewhere", "open"):
        await push(engine, "orders", CANARY)
        delivery = await pop_one(engine, "orders")
        await settle(engine, delivery, status="dlq")
        (letter,) = await dead_letters(engine, "orders")
        moved = await engine.dead_letters.redrive_to(
            [letter["id"]], [letter["payload"]], [letter["extras"]], queue, "p"
        )
        assert moved == [letter["id"]]
        assert values(await pop_one(engine, queue)) == [CANARY]
    stored = await rows(
        dsn, "select q.name, s.body from queen.segments s join queen.queues q on q.id = s.queue_id"
    )
    assert {row["name"]: is_sealed(row["body"]) for row in stored} == {
        "orders": True,
        "elsewhere": True,
        "open": False,
    }


async def test_a_scheduled_message_is_encrypted_before_and_after_it_is_due(
    dsn: str, clock: Clock, engine: Engine
) -> None:
    await engine.queues.configure("orders", {"encrypted": False})
    await push(engine, "orders", "plain", delay_seconds=9)
    await engine.queues.configure("orders", {"encrypted": True})
    await push(engine, "orders", CANARY, delay_seconds=10, headers={"a": CANARY})
    await assert_sealed(dsn)
    await clock.advance(seconds=11)
    delivery = await pop_one(engine, "orders", batch=2)
    assert values(delivery) == ["plain", CANARY]
    assert list(delivery.messages())[1].headers == {"a": CANARY}
    await assert_sealed(dsn)


async def test_browse_decrypts(engine: Engine) -> None:
    await push(engine, "orders", 1, CANARY, headers={"a": CANARY})
    queue_id = (await engine.queues.one("orders"))["id"]
    page = await browse.browse(
        engine.store,
        engine.sealer,
        browse.Filter(queue_id=queue_id, contains="canary"),
        start=browse.FROM_THE_TOP,
        limit=10,
        max_bytes=1000,
    )
    (found,) = page.found
    assert found.payload.decode() == f'"{CANARY}"'
    assert found.extra.headers == {"a": CANARY}


async def test_an_erased_message_leaves_its_neighbours_encrypted(dsn: str, engine: Engine) -> None:
    await push(engine, "orders", 1, 2, 3, headers={"a": CANARY}, trace_id="r")
    (partition,) = await rows(dsn, "select id from queen.partitions")
    await engine.redact(partition["id"], 1, by="me")
    assert await drain(engine, "orders") == [1, 3]
    await assert_sealed(dsn)


async def test_outbox_messages_are_encrypted_when_they_are_moved(dsn: str, engine: Engine) -> None:
    await rows(dsn, "select queen.enqueue('orders', to_json($1::text))", CANARY)
    assert values(await pop_later(engine, "orders")) == [CANARY]

    async def is_moved() -> bool:
        return not await rows(dsn, "select 1 from queen.outbox")

    await until(is_moved)
    await assert_sealed(dsn)


async def test_an_outbox_message_without_its_key_waits_and_lets_others_pass(
    dsn: str, engine: Engine
) -> None:
    await engine.close()
    async with await Engine.open(dsn) as keyless:
        await rows(dsn, "select queen.enqueue('orders', '1'), queen.enqueue('others', '2')")
        assert values(await pop_later(keyless, "others")) == [2]
        assert len(await rows(dsn, "select 1 from queen.outbox")) == 1
        assert not await rows(dsn, "select 1 from queen.outbox where error is not null")
    async with await Engine.open(dsn, settings=KEYED) as keyed:
        keyed.outbox_mover.wake()
        assert values(await pop_later(keyed, "orders")) == [1]
