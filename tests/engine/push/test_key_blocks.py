"""Keys in blocks are known to every process, whatever it has in memory."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import asyncpg
import pytest

from queen.codec.ids import dedup_key
from queen.engine.caches import key_windows
from queen.engine.caches.key_windows import KeyWindows
from queen.engine.engine import Engine
from queen.settings import Settings
from queen.store.messages import Push
from queen.wire.messages import Pushed
from tests.engine.helpers import drain, item, push
from tests.support.clock import Clock

ROWS = Settings(dedup_memory_bytes=0)
"""As a server of an earlier release: its keys are rows."""


@pytest.fixture
async def other(dsn: str) -> AsyncIterator[Engine]:
    async with await Engine.open(dsn) as other:
        yield other


@pytest.fixture
async def older(dsn: str) -> AsyncIterator[Engine]:
    async with await Engine.open(dsn, settings=ROWS) as older:
        yield older


async def query(engine: Engine, text: str) -> list[Any]:
    connection = await asyncpg.connect(engine.store.database.dsn)
    try:
        return await connection.fetch(text)
    finally:
        await connection.close()


def windows(engine: Engine) -> KeyWindows:
    return engine.core.windows


async def push_ids(engine: Engine, ids: Sequence[object], partition: str = "p") -> list[Pushed]:
    items = [item("orders", str(i), partition=partition, transaction_id=f"id {i}") for i in ids]
    return list(await engine.push(items))


async def offsets(engine: Engine, ids: Sequence[object], partition: str = "p") -> list[int | None]:
    """Push known ids, and return the offsets of the first messages."""
    answers = await push_ids(engine, ids, partition)
    assert {each.status for each in answers} == {"duplicate"}
    return [each.offset for each in answers]


async def forms(engine: Engine) -> tuple[int, int]:
    """The number of keys in blocks and in rows."""
    ((blocks, rows),) = await query(
        engine,
        "select (select coalesce(sum(octet_length(keys)) / 16, 0) from queen.dedup_blocks), "
        "(select count(*) from queen.dedup)",
    )
    return int(blocks), rows


async def test_the_keys_of_a_push_are_one_block(engine: Engine) -> None:
    await push_ids(engine, range(100))

    assert await forms(engine) == (100, 0)
    assert await offsets(engine, range(100)) == list(range(100))


async def test_messages_without_transaction_ids_split_a_block(engine: Engine) -> None:
    ids = [None if n % 4 == 3 else f"t{n}" for n in range(12)]
    await engine.push([item("orders", n, transaction_id=t) for n, t in enumerate(ids)])

    answers = [(await push(engine, "orders", 0, transaction_id=t))[0] for t in ids if t]

    assert await forms(engine) == (9, 0)
    assert [each.offset for each in answers] == [n for n, t in enumerate(ids) if t]


async def test_a_restarted_process_knows_all_keys(engine: Engine, dsn: str) -> None:
    for start in range(0, 50, 5):
        await push_ids(engine, range(start, start + 5))

    async with await Engine.open(dsn) as restarted:
        assert await offsets(restarted, range(50)) == list(range(50))
        await push_ids(restarted, range(50, 60))
        assert await offsets(restarted, range(60)) == list(range(60))


async def test_two_processes_know_the_keys_of_each_other(engine: Engine, other: Engine) -> None:
    for start in range(0, 60, 6):
        await push_ids(engine, range(start, start + 3))
        await push_ids(other, range(start + 3, start + 6))
        assert await offsets(engine, range(start, start + 6)) == list(range(start, start + 6))

    assert await offsets(other, range(60)) == list(range(60))
    assert await forms(engine) == (60, 0)


async def test_large_blocks_of_another_process_are_read_before_a_push(
    engine: Engine, other: Engine
) -> None:
    await push_ids(engine, range(10))
    await push_ids(other, range(10, 5_010))

    assert await offsets(engine, range(10, 5_010, 7)) == list(range(10, 5_010, 7))


async def test_concurrent_processes_store_each_message_once(
    engine: Engine, other: Engine, older: Engine
) -> None:
    answers = await asyncio.gather(
        *(
            push_ids(each, range(start, start + 40))
            for start in range(0, 400, 20)
            for each in (engine, other, older)
        )
    )

    stored = [
        each.transaction_id for answer in answers for each in answer if each.status == "queued"
    ]
    assert sorted(stored, key=str) == sorted({f"id {n}" for n in range(420)})
    firsts = {(each.transaction_id, each.offset) for answer in answers for each in answer}
    assert len(firsts) == 420


async def test_an_older_server_and_this_one_know_the_keys_of_each_other(
    engine: Engine, older: Engine
) -> None:
    await push_ids(engine, range(20))
    await push_ids(older, range(20, 40))
    await push_ids(engine, range(40, 60))

    assert await offsets(older, range(60)) == list(range(60))
    assert await offsets(engine, range(60)) == list(range(60))


async def test_rows_expire_and_only_blocks_remain(
    engine: Engine, older: Engine, clock: Clock
) -> None:
    await engine.queues.configure("orders", {"dedup_seconds": 600})
    await push_ids(older, range(5))
    await clock.advance(seconds=590)
    await push_ids(engine, range(5, 10))
    assert await offsets(engine, range(10)) == list(range(10))
    await clock.advance(seconds=11)

    answers = await push_ids(engine, range(10))

    assert [each.status for each in answers] == ["queued"] * 5 + ["duplicate"] * 5
    assert await offsets(older, range(10)) == [10, 11, 12, 13, 14, 5, 6, 7, 8, 9]


async def test_a_longer_window_recalls_keys_that_the_memory_lacks(
    engine: Engine, other: Engine, clock: Clock
) -> None:
    await engine.queues.configure("orders", {"dedup_seconds": 60})
    await push_ids(engine, range(5))
    await clock.advance(seconds=100)
    await push_ids(other, range(5, 10))  # It reads only valid blocks.

    await engine.queues.configure("orders", {"dedup_seconds": 3600})

    assert await offsets(other, range(10)) == list(range(10))
    assert await offsets(engine, range(10)) == list(range(10))


async def test_evicted_keys_are_read_again(engine: Engine) -> None:
    for start in range(0, 50, 10):
        await push_ids(engine, range(start, start + 10))
        windows(engine).forget()

    assert windows(engine).size_bytes == 0
    assert await offsets(engine, range(50)) == list(range(50))


async def test_a_partition_with_many_keys_continues_with_rows(
    engine: Engine, other: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_windows, "MOST_KEYS", 20)
    for start in range(0, 50, 10):
        await push_ids(engine, range(start, start + 10))

    assert await forms(engine) == (20, 30)
    assert await offsets(engine, range(50)) == list(range(50))
    assert await offsets(other, range(50)) == list(range(50))


async def test_a_process_without_memory_makes_blocks_rows(engine: Engine, dsn: str) -> None:
    await push_ids(engine, range(200))

    async with await Engine.open(dsn, settings=Settings(dedup_memory_bytes=3000)) as small:
        assert await offsets(small, range(200)) == list(range(200))

    assert await forms(engine) == (0, 200)
    assert await offsets(engine, range(200)) == list(range(200))


async def test_memory_is_bounded(dsn: str) -> None:
    most_bytes = 100_000
    async with await Engine.open(dsn, settings=Settings(dedup_memory_bytes=most_bytes)) as engine:
        for partition in range(20):
            await push_ids(engine, range(500), f"p{partition}")
            assert windows(engine).size_bytes <= most_bytes + key_windows.WINDOW_BYTES
        for partition in range(20):
            assert await offsets(engine, range(500), f"p{partition}") == list(range(500))


async def test_blocks_that_a_failover_replaced_are_read_again(
    engine: Engine, other: Engine
) -> None:
    await push_ids(engine, range(5))
    await push_ids(engine, ["lost"])
    # The standby did not have the last push.
    for table in ("dedup_blocks", "segments"):
        await query(engine, f"delete from queen.{table} where base_offset = 5")
    windows(other).forget()
    await push_ids(other, ["new"])
    await push_ids(other, ["newer"])

    assert await offsets(engine, ["new", "newer", 3]) == [5, 6, 3]
    (lost,) = await push_ids(engine, ["lost"])
    assert (lost.status, lost.offset) == ("queued", 7)


async def test_scheduled_and_immediate_messages_know_each_other(
    engine: Engine, other: Engine, clock: Clock
) -> None:
    await push_ids(engine, range(5))
    held = item("orders", 0, partition="p", transaction_id="id 5", delay_seconds=10)
    known = item("orders", 0, partition="p", transaction_id="id 4", delay_seconds=10)
    answers = list(await engine.push([held, known]))
    assert [(each.status, each.offset) for each in answers] == [("queued", None), ("duplicate", 4)]

    assert await offsets(other, [5]) == [None]
    await clock.advance(seconds=11)
    assert len(await drain(engine, "orders")) == 6
    assert await offsets(other, [5]) == [5]


async def test_a_key_that_is_elsewhere_than_the_caller_says_is_found(engine: Engine) -> None:
    await push_ids(engine, range(3))
    ((partition_id, at, base),) = await query(
        engine, "select partition_id, at, base_offset from queen.dedup_blocks"
    )
    push_ = Push(
        partition_ids=[partition_id],
        counts=[1],
        bodies=[b"1"],
        ends=[(1).to_bytes(4, "little")],
        keys=[dedup_key(partition_id, "id 1")],
        key_entries=[1],
        key_places=[0],
        key_counts=[1],
        known_offsets=[base],
        known_ats=[at],
        known_seconds=[86_400.0],
        in_blocks=[True],
        hits=[1],
        hit_entries=[1],
        # The message there has another key.
        hit_offsets=[2],
    )

    (answer,) = await engine.store.messages.push(push_)

    assert (answer["kind"], answer["offset"]) == ("duplicate", 1)
