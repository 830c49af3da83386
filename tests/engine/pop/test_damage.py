"""A damaged segment is reported and set aside, and all other messages are delivered."""

import asyncio
import logging

import asyncpg
import pytest

from queen import errors, telemetry
from queen.engine.engine import Engine
from tests.engine.helpers import ack, ack_all, drain, pop, pop_later, pop_one, push, values
from tests.support.clock import Clock

DAMAGE = {
    "short ends": "ends = substring(ends from 1 for 3)",
    "ends out of order": r"ends = '\x00000000ffffff7f01000000'::bytea",
    "cut body": "body = substring(body from 2)",
    "cut extras": r"extras = '\x00'::bytea",
}


async def damage(dsn: str, engine: Engine, partition: str, change: str = "", base: int = 0) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(
            f"update queen.segments set {change or DAMAGE['short ends']}"
            " where base_offset = $2"
            " and partition_id in (select id from queen.partitions where name = $1)",
            partition,
            base,
        )
    finally:
        await connection.close()
    engine.segments.clear()


@pytest.mark.parametrize("kind", DAMAGE)
async def test_a_damaged_partition_does_not_starve_the_others(
    dsn: str, engine: Engine, kind: str
) -> None:
    await push(engine, "orders", "a", "aa", partition="damaged")
    await push(engine, "orders", "b", partition="healthy")
    await damage(dsn, engine, "damaged", DAMAGE[kind])

    with pytest.raises(errors.MessagesDamaged, match="damaged"):
        await pop(engine, "orders", batch=5)

    assert values(await pop_later(engine, "orders")) == ["b"]
    assert await pop(engine, "orders") == []


async def test_a_pop_that_also_claims_a_damaged_partition_gets_the_healthy_ones(
    dsn: str, engine: Engine
) -> None:
    for partition in ("a", "b", "c"):
        await push(engine, "orders", partition, partition=partition)
    await damage(dsn, engine, "b")

    delivered = await pop(engine, "orders", batch=3, partitions=3)

    assert sorted(values(delivered)) == ["a", "c"]
    await ack_all(engine, delivered)


async def test_a_segment_that_postgresql_cannot_read_does_not_starve_the_others(
    dsn: str, engine: Engine
) -> None:
    await push(engine, "orders", "".join(map(str, range(20_000))), partition="damaged")
    await push(engine, "orders", "b", partition="healthy")
    connection = await asyncpg.connect(dsn)
    if not await connection.fetch("select from pg_available_extensions where name = 'pg_surgery'"):
        await connection.close()
        pytest.skip("pg_surgery, of postgresql-contrib, damages the row")
    await connection.execute("create extension pg_surgery")
    toast = await connection.fetchval(
        "select reltoastrelid::regclass::text from pg_class where oid = 'queen.segments'::regclass"
    )
    await connection.execute(f"select heap_force_kill('{toast}', array_agg(ctid)) from {toast}")
    await connection.close()
    engine.segments.clear()

    delivered = await pop(engine, "orders", batch=2, partitions=2)

    assert values(delivered) == ["b"]
    assert (await engine.snapshot()).of(telemetry.DAMAGED, "orders", "__QUEUE_MODE__") == 1


async def test_long_polls_report_damage(dsn: str, engine: Engine) -> None:
    await push(engine, "orders", "a", partition="damaged")
    await damage(dsn, engine, "damaged")

    with pytest.raises(errors.MessagesDamaged):
        await pop_later(engine, "orders")


async def test_one_damaged_delivery_fails_only_its_own_request(dsn: str, engine: Engine) -> None:
    await push(engine, "orders", "a", partition="a")
    await push(engine, "orders", "b", partition="b")
    await damage(dsn, engine, "a")

    answers = await asyncio.gather(
        pop(engine, "orders"), pop(engine, "orders"), return_exceptions=True
    )

    assert sorted(type(each).__name__ for each in answers) == ["MessagesDamaged", "list"]


async def test_an_ordered_partition_stops_at_the_damage_and_skips_no_message(
    dsn: str, clock: Clock, engine: Engine
) -> None:
    for value in range(4):
        await push(engine, "orders", value)
    await damage(dsn, engine, "Default", base=2)

    delivery = await pop_one(engine, "orders", batch=10)
    assert values(delivery) == [0, 1]
    await ack(engine, delivery)
    for _ in range(3):
        with pytest.raises(errors.MessagesDamaged):
            await pop(engine, "orders", batch=10)
        assert await pop(engine, "orders", batch=10) == []
        await clock.advance(seconds=61)


async def test_an_unordered_queue_delivers_all_messages_around_the_damage(
    dsn: str, engine: Engine
) -> None:
    await engine.queues.configure("jobs", {"ordered": False})
    for value in range(4):
        await push(engine, "jobs", value)
    await damage(dsn, engine, "Default", base=1)

    first = await pop_one(engine, "jobs", batch=10)
    assert values(first) == [0]
    with pytest.raises(errors.MessagesDamaged):
        await pop(engine, "jobs", batch=10)

    assert sorted(await drain(engine, "jobs")) == [2, 3]


async def test_damage_counts_no_attempt_and_a_repaired_segment_is_delivered(
    dsn: str, clock: Clock, engine: Engine
) -> None:
    await engine.queues.configure("orders", {"retry_limit": 0})
    await push(engine, "orders", "a")
    connection = await asyncpg.connect(dsn)
    ends = await connection.fetchval("select ends from queen.segments")
    await damage(dsn, engine, "Default")
    for _ in range(3):
        with pytest.raises(errors.MessagesDamaged):
            await pop(engine, "orders")
        await clock.advance(seconds=61)

    await connection.execute("update queen.segments set ends = $1", ends)
    await connection.close()

    delivery = await pop_one(engine, "orders")
    assert (values(delivery), delivery.attempt) == (["a"], 1)


async def test_a_seek_past_the_damage_lets_the_partition_continue(dsn: str, engine: Engine) -> None:
    for value in range(3):
        await push(engine, "orders", value)
    await damage(dsn, engine, "Default", base=0)
    with pytest.raises(errors.MessagesDamaged):
        await pop(engine, "orders")

    await engine.queues.seek("orders", None, partition="Default", offset=1)

    assert await drain(engine, "orders") == [1, 2]


async def test_damage_is_logged_and_counted(
    dsn: str, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    await push(engine, "orders", "a", partition="damaged")
    await damage(dsn, engine, "damaged")

    with caplog.at_level(logging.ERROR), pytest.raises(errors.MessagesDamaged):
        await pop(engine, "orders", group="billing")

    (record,) = caplog.records
    assert getattr(record, "event", None) == "messages.damaged"
    for word in ("orders", "billing", "damaged", "offset 0"):
        assert word in record.getMessage()
    snapshot = await engine.snapshot()
    assert snapshot.of(telemetry.DAMAGED, "orders", "billing") == 1


async def test_auto_ack_reports_the_damage_and_delivers_the_rest(dsn: str, engine: Engine) -> None:
    for value in range(3):
        await push(engine, "orders", value)
    await damage(dsn, engine, "Default", base=1)

    assert values(await pop(engine, "orders", auto_ack=True, batch=3)) == [0, 2]

    await push(engine, "orders", 3)
    await damage(dsn, engine, "Default", base=3)
    with pytest.raises(errors.OutcomeUnknown, match="damaged"):
        await pop(engine, "orders", auto_ack=True)
