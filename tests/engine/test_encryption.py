"""An encrypted queue stores ciphertext everywhere, and returns payloads as they were pushed."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from queen import errors
from queen.codec.encryption.keys import is_sealed
from queen.engine.encryption.rotation import rewrap, status
from queen.engine.engine import Engine
from queen.engine.inspect import browse
from queen.settings import Settings
from tests.engine.helpers import (
    ack,
    dead_letters,
    delete_queue,
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

CANARY = "canary-7d1e90"
KEYED = Settings(encryption_key="11" * 32)
ROTATED = Settings(encryption_keys=f"k2:{'22' * 32},default:{'11' * 32}")
LATER = Settings(encryption_keys=f"k2:{'22' * 32}")


@pytest.fixture
async def engine(dsn: str) -> AsyncIterator[Engine]:
    async with await Engine.open(dsn, settings=KEYED) as engine:
        await engine.queues.configure("orders", {"encrypted": True})
        yield engine


async def rows(dsn: str, query: str, *arguments: Any) -> list[Any]:  # noqa: ANN401
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetch(query, *arguments)
    finally:
        await connection.close()


async def assert_sealed(dsn: str) -> None:
    """Check that no table contains the canary, and that encrypted data exists."""
    names = await rows(
        dsn,
        "select oid::regclass as name from pg_class"
        " where relnamespace = 'queen'::regnamespace and relkind = 'r'",
    )
    for (name,) in names:
        found = await rows(
            dsn,
            f"select 1 from {name} t where strpos(t::text, $1) > 0 or strpos(t::text, $2) > 0",
            CANARY,
            CANARY.encode().hex(),
        )
        assert not found, name


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


@pytest.mark.parametrize("destination", ["another partition", "another queue"])
async def test_moved_ciphertext_does_not_decrypt(
    dsn: str, engine: Engine, destination: str
) -> None:
    await engine.queues.configure("others", {"encrypted": True})
    queue, partition = ("orders", "b") if destination == "another partition" else ("others", "b")
    await push(engine, "orders", CANARY, partition="a")
    await push(engine, queue, 2, partition=partition)
    await rows(
        dsn,
        "update queen.segments s set body = o.body, ends = o.ends, extras = o.extras"
        " from queen.segments o, queen.partitions p, queen.partitions q"
        " where s.partition_id = p.id and p.name = 'b' and o.partition_id = q.id and q.name = 'a'",
    )
    engine.segments.clear()
    with pytest.raises(errors.EncryptionUnavailable, match="encrypted for another"):
        await pop(engine, queue, partition="b")


async def test_a_partition_that_was_moved_to_another_queue_does_not_decrypt(
    dsn: str, engine: Engine
) -> None:
    await engine.queues.configure("others", {})
    await push(engine, "others", 1)
    await push(engine, "orders", CANARY)
    await rows(
        dsn,
        "update queen.segments s set base_offset = 1, partition_id = o.partition_id"
        " from queen.segments o, queen.queues q"
        " where s.queue_id = q.id and q.name = 'orders' and o.queue_id <> q.id",
    )
    engine.segments.clear()
    with pytest.raises(errors.EncryptionUnavailable):
        await pop(engine, "others", batch=2)


async def test_a_data_key_is_used_for_a_day(dsn: str, clock: Clock, engine: Engine) -> None:
    await push(engine, "orders", 1)
    await clock.advance(seconds=86_401)
    async with await Engine.open(dsn, settings=KEYED) as other:
        await push(other, "orders", 2)
        await push(other, "orders", 3)
    assert len(await rows(dsn, "select 1 from queen.data_keys")) == 2
    engine.segments.clear()
    assert await drain(engine, "orders") == [1, 2, 3]


async def test_a_data_key_has_a_maximum_number_of_uses(
    dsn: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queen.engine.encryption.sealer._USES", 2)
    monkeypatch.setattr("queen.codec.encryption.keys.MAX_USES", 4)
    for number in range(10):
        await push(engine, "orders", number)
    uses = [row["uses"] for row in await rows(dsn, "select uses from queen.data_keys")]
    assert max(uses) <= 4
    assert sum(uses) >= 10
    engine.segments.clear()
    assert await drain(engine, "orders") == list(range(10))


async def test_processes_share_a_data_key(dsn: str, engine: Engine) -> None:
    async with await Engine.open(dsn, settings=KEYED) as other:
        await asyncio.gather(
            *(push(each, "orders", 1) for each in (engine, other) for _ in range(5))
        )
    (key,) = await rows(dsn, "select uses from queen.data_keys")
    assert key["uses"] >= 10


async def test_deleting_a_queue_deletes_its_keys(dsn: str, engine: Engine) -> None:
    await push(engine, "orders", CANARY)
    await delete_queue(engine, "orders")
    assert not await rows(dsn, "select 1 from queen.data_keys")


async def _rewrap(engine: Engine) -> int:
    after: int | None = 0
    total = 0
    while after is not None:
        after, count = await rewrap(engine.store, engine.sealer.keyring, after)
        total += count
    return total


async def test_a_rotation_under_load_loses_no_message(dsn: str, engine: Engine) -> None:
    """
    Old and new servers push and pop while the data keys are rewrapped. Then the old key is removed.
    """
    for name in range(5):
        await engine.queues.configure(f"q{name}", {"encrypted": True})
        await push(engine, f"q{name}", -1)
    sent = 0
    async with await Engine.open(dsn, settings=ROTATED) as rotated:

        async def load(each: Engine, first: int) -> None:
            for number in range(first, first + 40):
                await push(each, f"q{number % 5}", number)

        work = [asyncio.create_task(load(engine, 0)), asyncio.create_task(load(rotated, 40))]
        assert await _rewrap(rotated) >= 5
        await asyncio.gather(*work)
        sent = 80
        assert await _rewrap(rotated) == 0
        new, old = await status(rotated.store, rotated.sealer.keyring)
        assert (new.id, new.is_first, new.queues) == ("k2", True, 5)
        assert (old.id, old.is_first, old.data_keys) == ("default", False, 0)
    await engine.close()
    assert {
        row["master_id"] for row in await rows(dsn, "select master_id from queen.data_keys")
    } == {"k2"}
    async with await Engine.open(dsn, settings=LATER) as later:
        found = [each for name in range(5) for each in await drain(later, f"q{name}")]
    assert sorted(found) == sorted([-1] * 5 + list(range(sent)))


async def test_another_history_is_not_encrypted_with_keys_of_the_old_one(
    dsn: str, engine: Engine
) -> None:
    """After a failover that lost the newest data key, new messages can be decrypted."""
    await push(engine, "orders", 1)
    await rows(dsn, "delete from queen.data_keys")
    await rows(dsn, "delete from queen.segments")
    assert engine.store.database.changed is not None
    engine.store.database.changed()
    await push(engine, "orders", 2)
    async with await Engine.open(dsn, settings=KEYED) as other:
        delivery = await pop_one(other, "orders")
        assert values(delivery) == [2]
        await ack(other, delivery)
