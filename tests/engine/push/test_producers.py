"""A producer numbers its requests, and each one is stored once, completely or not at all."""

import asyncio
import time
from typing import Any

import asyncpg
import pytest

from queen.engine.engine import Engine
from queen.errors import BadRequest, PayloadTooLarge, QueenError, QueueFull, SequenceStale
from tests.engine.helpers import drain, item, pop, push, until


async def test_a_repeated_number_is_reported_as_replayed_and_stored_once(
    engine: Engine,
) -> None:
    items = [item("orders", "a"), item("orders", "b", partition="two")]

    first = await engine.push(items, producer_id="p", sequence=0)
    again = await engine.push(items, producer_id="p", sequence=0)

    assert (first.is_replayed, again.is_replayed) == (False, True)
    assert [each.offset for each in first] == [0, 0]
    assert [each.status for each in again] == ["queued", "queued"]
    assert sorted(await drain(engine, "orders")) == ["a", "b"]


async def test_a_lower_number_is_stale(engine: Engine) -> None:
    await engine.push([item("orders", "a")], producer_id="p", sequence=5)

    with pytest.raises(SequenceStale):
        await engine.push([item("orders", "b")], producer_id="p", sequence=4)
    await engine.push([item("orders", "c")], producer_id="p", sequence=7)
    with pytest.raises(SequenceStale):
        await engine.push([item("orders", "d")], producer_id="p", sequence=5)

    assert await drain(engine, "orders") == ["a", "c"]


async def test_producers_count_independently(engine: Engine) -> None:
    for producer in ("p", "q"):
        answer = await engine.push([item("orders", producer)], producer_id=producer, sequence=1)
        assert not answer.is_replayed

    assert await drain(engine, "orders") == ["p", "q"]


async def test_concurrent_requests_with_the_same_number_are_stored_once(
    engine: Engine, dsn: str
) -> None:
    async with await Engine.open(dsn) as other:
        answers = await asyncio.gather(
            *(
                each.push([item("orders", "a")], producer_id="p", sequence=1)
                for each in (engine, other) * 10
            )
        )

    assert [answer.is_replayed for answer in answers].count(False) == 1
    assert await drain(engine, "orders") == ["a"]


async def test_many_producers_share_flushes(engine: Engine) -> None:
    for sequence in range(3):
        await asyncio.gather(
            *(
                engine.push([item("orders", n)], producer_id=f"p{n}", sequence=sequence)
                for n in range(30)
            )
        )

    assert sorted(await drain(engine, "orders")) == sorted([*range(30)] * 3)


async def test_a_producer_that_is_forgotten_during_its_request_is_numbered_again(
    engine: Engine, dsn: str
) -> None:
    await engine.push([item("orders", "a")], producer_id="p", sequence=1)
    await engine.push([item("orders", "b")], producer_id="q", sequence=1)
    upkeep = await asyncpg.connect(dsn)
    try:
        deletion = upkeep.transaction()
        await deletion.start()
        await upkeep.execute("delete from queen.producers where producer_id = 'p'")

        # One flush locks both rows, and waits for the deletion of one.
        pushes = [
            asyncio.create_task(engine.push([item("orders", n)], producer_id=n, sequence=2))
            for n in ("p", "q")
        ]
        await until(lambda: is_blocked(upkeep))
        await deletion.commit()
        await asyncio.gather(*pushes)
    finally:
        await upkeep.close()

    again = await engine.push([item("orders", "p")], producer_id="p", sequence=2)
    assert again.is_replayed
    assert sorted(await drain(engine, "orders")) == ["a", "b", "p", "q"]


async def is_blocked(connection: "asyncpg.Connection[asyncpg.Record]") -> bool:
    """Whether another connection waits for a lock of this one."""
    return bool(
        await connection.fetchval(
            "select exists (select 1 from pg_stat_activity"
            " where pg_backend_pid() = any (pg_blocking_pids(pid)))"
        )
    )


async def test_a_stale_producer_does_not_affect_its_flush(engine: Engine) -> None:
    await engine.push([item("orders", "old")], producer_id="stale", sequence=9)

    answers = await asyncio.gather(
        engine.push([item("orders", "no")], producer_id="stale", sequence=8),
        engine.push([item("orders", "replayed")], producer_id="stale", sequence=9),
        *(push(engine, "orders", n) for n in range(10)),
        return_exceptions=True,
    )

    assert isinstance(answers[0], SequenceStale)
    first, *others = await drain(engine, "orders")
    assert (first, sorted(others)) == ("old", list(range(10)))


async def test_one_bad_item_rejects_the_whole_request(engine: Engine) -> None:
    large = item("orders", "x" * 2**20)
    with pytest.raises(PayloadTooLarge):
        await engine.push([item("orders", "a"), large], producer_id="p", sequence=1)

    answer = await engine.push([item("orders", "b")], producer_id="p", sequence=1)

    assert (answer.is_replayed, answer[0].offset) == (False, 0)
    assert await drain(engine, "orders") == ["b"]


@pytest.mark.parametrize(
    "options",
    [
        {"schema": {"type": "object"}},
        {"max_payload_bytes": 2},
        {"max_size": 1},
        {"encrypted": True},
    ],
    ids=lambda options: next(iter(options)),
)
@pytest.mark.parametrize("is_stale", [True, False])
async def test_a_repeat_is_replayed_under_any_current_options_of_its_queue(
    engine: Engine, options: dict[str, Any], is_stale: bool
) -> None:
    items = [item("orders", "large"), item("orders", "larger", partition="two")]
    await engine.push(items, producer_id="p", sequence=1)
    async with await Engine.open(engine.store.database.dsn) as other:
        # Test with outdated and with current options in this process's cache.
        await other.queues.configure("orders", options)
    if not is_stale:
        engine.catalogue.forget_options()
    again = await engine.push(items, producer_id="p", sequence=1)

    assert (again.is_replayed, [each.status for each in again]) == (True, ["queued"] * 2)
    engine.catalogue.forget_options()
    with pytest.raises(QueenError):
        await engine.push(items, producer_id="p", sequence=2)
    assert len(await drain(engine, "orders")) == 2


async def test_one_full_queue_rejects_the_whole_request(engine: Engine) -> None:
    await engine.queues.configure("full", {"max_size": 1})
    await push(engine, "full", "a")
    await push(engine, "orders", "first")

    with pytest.raises(QueueFull):
        await engine.push([item("orders", "b"), item("full", "b")], producer_id="p", sequence=1)

    assert await drain(engine, "orders") == ["first"]


async def test_a_known_transaction_id_is_a_duplicate_and_not_an_error(engine: Engine) -> None:
    await push(engine, "orders", "a", transaction_id="t")

    answer = await engine.push(
        [item("orders", "again", transaction_id="t"), item("orders", "b")],
        producer_id="p",
        sequence=1,
    )

    assert [(each.status, each.offset) for each in answer] == [("duplicate", 0), ("queued", 1)]
    assert await drain(engine, "orders") == ["a", "b"]


async def test_a_scheduled_message_of_a_producer_is_stored_once(engine: Engine) -> None:
    for _ in range(2):
        await engine.push([item("orders", "a", delay_seconds=0)], producer_id="p", sequence=1)

    assert await drain(engine, "orders") == ["a"]


async def test_producer_id_and_sequence_require_each_other(engine: Engine) -> None:
    with pytest.raises(BadRequest):
        await engine.push([item("orders", "a")], producer_id="p")
    with pytest.raises(BadRequest):
        await engine.push([item("orders", "a")], sequence=1)
    with pytest.raises(BadRequest):
        await engine.push([item("orders", "a")], producer_id="p", sequence=-1)

    await engine.queues.configure("orders", {})
    assert await pop(engine, "orders") == []


async def test_outcomes_of_many_producers_cost_no_more_than_their_number(dsn: str) -> None:
    """Many clients that reconnect together share a flush. 5,000 of them once took 7 seconds."""
    connection = await asyncpg.connect(dsn)

    async def seconds(count: int) -> float:
        numbers = list(range(1, count + 1))
        arguments = (
            [f"p{n}\x1f*" for n in numbers], [1] * count, [b"d" * 16] * count, [b"o" * 8] * count,
            numbers, numbers, ["stored"] * count, numbers, numbers,
        )  # fmt: skip
        began = time.perf_counter()
        await connection.fetch(
            "select queen.record_outcomes($1, $2, $3, $4, $5, $6, $7, $8, $9)", *arguments
        )
        return time.perf_counter() - began

    try:
        await connection.execute(
            "insert into queen.producers (producer_id, scope, sequence, at)"
            " select 'p' || n, '*', 1, now() from generate_series(1, 8000) n"
        )
        few = min([await seconds(1_000) for _ in range(3)])
        many = min([await seconds(8_000) for _ in range(3)])
        bases = await connection.fetchval(
            "select bases from queen.producers where producer_id = 'p4711'"
        )
    finally:
        await connection.close()
    assert bases == [4711]
    assert many < 24 * few  # Quadratic time would be 64 times.
