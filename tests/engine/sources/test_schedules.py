"""Schedules push one message per tick, from any process, and handle missed ticks as configured."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import msgspec
import pytest

from queen import errors
from queen.engine.engine import Engine
from queen.engine.sources.schedules import Recurring
from queen.settings import Settings
from tests.engine.helpers import delete_queue, pop, until, values
from tests.support.clock import Clock

START = datetime(2030, 1, 1, tzinfo=UTC)
KEY = "0123456789abcdef" * 4


@pytest.fixture
async def engine(dsn: str) -> AsyncIterator[Engine]:
    """An engine whose scheduler the tests run."""
    async with await Engine.open(dsn) as engine:
        await engine.schedules.close()
        yield engine


async def put(engine: Engine, name: str = "nightly", **changed: Any) -> None:  # noqa: ANN401
    given: dict[str, Any] = {"queue": "orders", "cron": "0 * * * *"} | changed
    message = given.pop("message", None) or Recurring(payload=msgspec.Raw(b'{"n": 1}'))
    await engine.schedules.put(name, message=message, **given)


async def ticks(engine: Engine, queue: str = "orders", **fields: Any) -> list[str]:  # noqa: ANN401
    """The ticks of all stored messages."""
    found: list[str] = []
    while deliveries := await pop(engine, queue, batch=1000, auto_ack=True, **fields):
        found += [m.headers["queen-tick"] for each in deliveries for m in each.messages()]
    return found


async def advance(engine: Engine, clock: Clock, **by: float) -> None:
    """Move the clock, and run the scheduler."""
    await clock.advance(seconds=timedelta(**by).total_seconds())
    await engine.schedules.run()


async def next_at(engine: Engine, name: str = "nightly") -> datetime | None:
    return (await engine.schedules.one(name))["next_at"]


async def test_each_tick_is_one_message(clock: Clock, engine: Engine) -> None:
    await put(engine)
    for _ in range(3):
        await advance(engine, clock, minutes=59, seconds=50)
        await advance(engine, clock, seconds=10)
        await engine.schedules.run()

    (delivery,) = await pop(engine, "orders", batch=10)

    assert values(delivery) == [{"n": 1}] * 3
    assert [m.transaction_id for m in delivery.messages()] == [
        f"nightly@2030-01-01T0{hour}:00:00Z" for hour in (1, 2, 3)
    ]
    assert next(iter(delivery.messages())).headers == {
        "queen-schedule": "nightly",
        "queen-tick": "2030-01-01T01:00:00Z",
    }
    assert await next_at(engine) == START + timedelta(hours=4)
    assert (await engine.schedules.one("nightly"))["last_at"] == START + timedelta(hours=3)


async def test_a_process_sleeps_until_the_next_tick(clock: Clock, engine: Engine) -> None:
    await put(engine, cron="* * * * * *")
    await advance(engine, clock, seconds=0.5)
    assert 0 < await engine.schedules.run() < 0.6

    await put(engine, cron="0 * * * *")
    assert 20 < await engine.schedules.run() < 40


async def test_without_schedules_a_process_polls_twice_a_minute_and_writes_no_row(
    engine: Engine, dsn: str
) -> None:
    assert await engine.store.schedules.due(1, 5.0, 10) == []
    assert 20 < await engine.schedules.run() < 40
    connection = await asyncpg.connect(dsn)
    assert await connection.fetchval("select count(*) from queen.scheduler") == 0
    await connection.close()


async def test_one_process_is_the_leader_and_the_other_waits_for_its_end(
    clock: Clock, engine: Engine, dsn: str
) -> None:
    async with await Engine.open(dsn) as other:
        await other.schedules.close()
        await put(engine, cron="* * * * * *")
        await advance(engine, clock, seconds=1)

        assert 3 < await other.schedules.run() < 6
        await advance(other, clock, seconds=10)
        assert len(await ticks(other)) == 11


@pytest.mark.parametrize(
    ("missed", "hours"), [("skip", [6]), ("once", [1, 6]), ("all", [1, 2, 3, 4, 5, 6])]
)
async def test_missed_ticks_are_handled_as_configured(
    clock: Clock, engine: Engine, missed: str, hours: list[int]
) -> None:
    await put(engine, missed=missed)
    await advance(engine, clock, hours=5, minutes=30)
    await advance(engine, clock, minutes=30, seconds=5)

    assert await ticks(engine) == [f"2030-01-01T0{hour}:00:00Z" for hour in hours]


async def test_a_long_outage_is_caught_up_in_steps(clock: Clock, engine: Engine) -> None:
    await put(engine, cron="* * * * * *", missed="all")
    await advance(engine, clock, minutes=3)

    found = await ticks(engine)

    assert len(found) == len(set(found)) == 180
    assert found == sorted(found)


async def test_many_processes_push_each_tick_once(clock: Clock, engine: Engine, dsn: str) -> None:
    async with await Engine.open(dsn) as second, await Engine.open(dsn) as third:
        for number in range(60):
            await put(engine, f"s{number}", cron="* * * * * *", partition=f"p{number}")
        await clock.advance(seconds=4)
        rows = await engine.store.schedules.due(1, 0.0, 50)
        # Each process acts as the leader, with the schedules in another order.
        everyone = (engine, second, third)
        orders = (rows, rows[::-1], rows[20:] + rows[:20])
        async with asyncio.timeout(20):
            await asyncio.gather(
                *(
                    each.schedules._fire_all(order)  # pyright: ignore[reportPrivateUsage]
                    for each, order in zip(everyone, orders, strict=True)
                )
            )
        await asyncio.gather(*(each.schedules.run() for each in everyone))
        await clock.advance(seconds=10)
        for each in everyone:
            await each.schedules.run()

        connection = await asyncpg.connect(dsn)
        stored = await connection.fetchval("select sum(message_count) from queen.segments")
        await connection.close()
        assert stored == 60 * 14


async def test_a_paused_schedule_has_no_ticks_and_misses_none(clock: Clock, engine: Engine) -> None:
    await put(engine, missed="all")
    assert (await engine.schedules.pause("nightly", is_paused=True))["next_at"] is None
    await advance(engine, clock, hours=5, minutes=30)
    await engine.schedules.pause("nightly", is_paused=False)
    await advance(engine, clock, minutes=31)

    assert await ticks(engine) == ["2030-01-01T06:00:00Z"]


async def test_resuming_a_running_schedule_loses_no_tick(clock: Clock, engine: Engine) -> None:
    await put(engine)
    await clock.advance(seconds=3600)
    await engine.schedules.pause("nightly", is_paused=False)
    await engine.schedules.run()

    assert await ticks(engine) == ["2030-01-01T01:00:00Z"]


async def test_a_repeated_put_changes_the_message_and_keeps_the_tick(
    clock: Clock, engine: Engine
) -> None:
    await put(engine)
    await clock.advance(seconds=3600)
    await put(engine, message=Recurring(payload=msgspec.Raw(b"2")))
    await engine.schedules.run()

    (delivery,) = await pop(engine, "orders", batch=10)
    assert values(delivery) == [2]

    await put(engine, cron="30 * * * *")
    assert await next_at(engine) == START + timedelta(hours=1.5)


async def test_a_deleted_schedule_has_no_more_ticks(clock: Clock, engine: Engine) -> None:
    await put(engine)
    await engine.schedules.delete("nightly")
    await advance(engine, clock, hours=2)

    with pytest.raises(errors.QueueNotFound):
        await pop(engine, "orders")
    with pytest.raises(errors.NotFound):
        await engine.schedules.delete("nightly")


async def test_a_tick_that_cannot_be_pushed_waits_and_delays_no_other(
    clock: Clock, dsn: str
) -> None:
    async with await Engine.open(dsn, settings=Settings(auto_create=False)) as engine:
        for queue in ("good", "bad"):
            await engine.queues.configure(queue)
            await put(engine, queue, queue=queue, missed="skip")
        await delete_queue(engine, "bad")
        engine.catalogue.forget()
        await advance(engine, clock, hours=1)

        assert await ticks(engine, "good") == ["2030-01-01T01:00:00Z"]
        row = await engine.schedules.one("bad")
        assert "queue bad does not exist" in row["error"]
        assert row["next_at"] == START + timedelta(hours=1)

        await engine.queues.configure("bad")
        await advance(engine, clock, seconds=15)
        assert await ticks(engine, "bad") == ["2030-01-01T01:00:00Z"]
        assert (await engine.schedules.one("bad"))["error"] is None


async def test_a_full_queue_does_not_lose_a_tick(clock: Clock, engine: Engine) -> None:
    await engine.queues.configure("orders", {"max_size": 1})
    await put(engine)
    for _ in range(3):
        await advance(engine, clock, hours=1)

    assert len(await ticks(engine)) == 3


async def test_each_tick_has_all_fields_of_a_message(clock: Clock, engine: Engine) -> None:
    await engine.queues.configure("orders", {"ordered": False})
    message = Recurring(
        payload=msgspec.Raw(b'{"z":12345678901234567890123,  "a":null}'),
        headers={"kind": "report"},
        ttl_seconds=60,
        priority=7,
    )
    await put(engine, message=message, partition="p")
    await advance(engine, clock, hours=1)

    (delivery,) = await pop(engine, "orders")

    (found,) = delivery.messages()
    assert bytes(delivery.payloads()[0]) == bytes(message.payload)
    assert (found.partition, found.priority, found.headers["kind"]) == ("p", 7, "report")
    await clock.advance(seconds=400)
    assert await pop(engine, "orders") == []


async def test_a_schedule_of_an_encrypted_queue_is_encrypted(clock: Clock, dsn: str) -> None:
    async with await Engine.open(dsn, settings=Settings(encryption_key=KEY)) as engine:
        await engine.queues.configure("orders", {"encrypted": True})
        secret = Recurring(payload=msgspec.Raw(b'"canary"'), headers={"also": "canary"})
        await put(engine, message=secret)
        row = await engine.schedules.one("nightly")
        assert b"canary" not in row["message"]
        assert await engine.schedules.message(row) == secret
        await advance(engine, clock, hours=1)

        (delivery,) = await pop(engine, "orders")
        assert values(delivery) == ["canary"]


async def test_without_its_key_an_encrypted_schedule_waits(clock: Clock, dsn: str) -> None:
    async with await Engine.open(dsn, settings=Settings(encryption_key=KEY)) as engine:
        await engine.queues.configure("orders", {"encrypted": True})
        await put(engine)
    async with await Engine.open(dsn) as engine:
        await advance(engine, clock, hours=1)
        assert (await engine.schedules.one("nightly"))["error"]
    await clock.advance(seconds=15)
    async with await Engine.open(dsn, settings=Settings(encryption_key=KEY)) as engine:
        await engine.schedules.run()
        assert await ticks(engine) == ["2030-01-01T01:00:00Z"]


async def test_another_process_is_notified_of_a_new_schedule(dsn: str) -> None:
    async with await Engine.open(dsn) as engine, await Engine.open(dsn) as other:
        # The other process is the leader, and sleeps.
        await put(other, "first", cron="* * * * * *")

        async def has_fired() -> bool:
            return (await other.schedules.one("first"))["last_at"] is not None

        await until(has_fired)
        await other.schedules.delete("first")
        await put(engine, "second", cron="* * * * * *", queue="told")

        async def has_come() -> bool:
            return (await engine.schedules.one("second"))["last_at"] is not None

        await until(has_come)


@pytest.mark.parametrize(
    "changed",
    [
        {"cron": "nonsense"},
        {"cron": "0 0 30 2 *"},
        {"time_zone": "Mars/Olympus"},
        {"queue": "__ours"},
        {"partition": ""},
        {"message": Recurring(payload=msgspec.Raw(b"1"), priority=5)},
        {"message": Recurring(payload=msgspec.Raw(b"1"), ttl_seconds=-1)},
        {"message": Recurring(payload=msgspec.Raw(b'"' + b"x" * 2_000_000 + b'"'))},
    ],
)
async def test_a_schedule_that_could_never_be_pushed_is_rejected(
    engine: Engine, changed: dict[str, Any]
) -> None:
    with pytest.raises(errors.RequestError):
        await put(engine, **changed)
    assert await engine.store.schedules.page(after="", queue=None, limit=10) == []


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 201, "\0"])
async def test_an_invalid_name_is_rejected(engine: Engine, name: str) -> None:
    with pytest.raises(errors.InvalidName):
        await put(engine, name)
