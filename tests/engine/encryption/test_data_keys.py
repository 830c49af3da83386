"""Data keys belong to one place, are replaced in time, and survive a rotation of master keys."""

import asyncio

import pytest

from queen import errors
from queen.engine.encryption.rotation import rewrap, status
from queen.engine.engine import Engine
from queen.settings import Settings
from tests.engine.encryption.helpers import CANARY, KEYED, rows
from tests.engine.helpers import ack, delete_queue, drain, pop, pop_one, push, values
from tests.support.clock import Clock

ROTATED = Settings(encryption_keys=f"k2:{'22' * 32},default:{'11' * 32}")
LATER = Settings(encryption_keys=f"k2:{'22' * 32}")


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
