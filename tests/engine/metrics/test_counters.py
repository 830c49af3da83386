"""Counters of a process per queue, and the rows that it stores."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime, timedelta

from queen import telemetry
from queen.engine.engine import Engine
from queen.meters import Snapshot
from queen.store.connection.database import Record
from queen.telemetry import OTHER, Metric
from queen.wire.messages import PopRequest
from tests.engine.helpers import ack, item, lease, pop, pop_one, push, says, settle
from tests.support.clock import Clock

QUEUE_MODE = "__QUEUE_MODE__"


async def counted(engine: Engine, metric: Metric, *labels: str) -> float:
    return (await engine.snapshot()).of(metric, *labels)


async def stored(engine: Engine) -> list[Record]:
    """Flush, and read the stored rows per queue and group."""
    found = engine.counters.rows()
    assert found is not None
    minute, rows = found
    (row,) = await engine.store.database.fetch("count", engine.counters.process, minute, rows)
    engine.counters.stored(row["now"])
    ids = list(engine.counters.queues)
    day = timedelta(days=1)
    return await engine.store.database.fetch("queue_totals", minute - day, minute + day, ids)


async def test_each_event_of_a_message_is_counted_once(engine: Engine) -> None:
    await push(engine, "orders", 1, 2, 3)
    delivery = await pop_one(engine, "orders", group="g", batch=3)
    await settle(engine, delivery, 0)
    await settle(engine, delivery, 1, "dlq")
    await settle(engine, delivery, 2, "failed")

    assert await counted(engine, telemetry.PUSHED, "orders") == 3
    assert await counted(engine, telemetry.POPPED, "orders", "g") == 3
    assert await counted(engine, telemetry.ACKED, "orders", "g") == 1
    assert await counted(engine, telemetry.DEAD_LETTERED, "orders", "g") == 1
    assert await counted(engine, telemetry.NACKED, "orders", "g") == 1


async def test_a_duplicate_is_counted_separately(engine: Engine) -> None:
    await push(engine, "orders", 1, transaction_id="t")
    await push(engine, "orders", 1, transaction_id="t")

    assert await counted(engine, telemetry.PUSHED, "orders") == 1
    assert await counted(engine, telemetry.DEDUPLICATED, "orders") == 1


async def test_a_scheduled_message_is_counted_at_its_push(engine: Engine) -> None:
    await push(engine, "orders", 1, delay_seconds=60)

    assert await counted(engine, telemetry.PUSHED, "orders") == 1


async def test_an_expired_lease_and_its_consequences_are_counted(
    engine: Engine, clock: Clock
) -> None:
    await engine.queues.configure("orders", {"retry_limit": 0, "lease_seconds": 10})
    await push(engine, "orders", 1)
    await pop(engine, "orders")
    await clock.advance(seconds=11)
    engine._popper.claims.forget_marks()  # pyright: ignore[reportPrivateUsage] - the clock jumped
    await pop(engine, "orders")

    assert await counted(engine, telemetry.LAPSED, "orders") == 1
    assert await counted(engine, telemetry.DEAD_LETTERED, "orders") == 1


async def test_auto_acked_messages_are_popped_and_acked(engine: Engine) -> None:
    await push(engine, "orders", 1, 2)
    await pop(engine, "orders", auto_ack=True, batch=2)

    assert await counted(engine, telemetry.POPPED, "orders", QUEUE_MODE) == 2
    assert await counted(engine, telemetry.ACKED, "orders", QUEUE_MODE) == 2


async def test_the_acks_and_pushes_of_a_transaction_are_counted(engine: Engine) -> None:
    await push(engine, "orders", 1, 2)
    delivery = await pop_one(engine, "orders", group="g", batch=2)
    await engine.transact(
        acknowledgments=[says(delivery, 0, "completed"), says(delivery, 1, "dlq")],
        items=[item("invoices", 1)],
    )

    assert await counted(engine, telemetry.ACKED, "orders", "g") == 1
    assert await counted(engine, telemetry.DEAD_LETTERED, "orders", "g") == 1
    assert await counted(engine, telemetry.PUSHED, "invoices") == 1
    assert await counted(engine, telemetry.TRANSACTIONS, "applied") == 1


async def test_a_rejected_lease_is_counted_by_its_verb(engine: Engine) -> None:
    await push(engine, "orders", 1)
    delivery = await pop_one(engine, "orders")
    await ack(engine, delivery)
    await settle(engine, delivery)
    await engine.extend_many([lease(delivery)])

    assert await counted(engine, telemetry.REFUSED, "ack") == 1
    assert await counted(engine, telemetry.REFUSED, "extend") == 1


async def test_an_empty_pop_is_counted(engine: Engine) -> None:
    await push(engine, "orders", 1)
    await pop(engine, "orders", auto_ack=True)
    await pop(engine, "orders")

    assert await counted(engine, telemetry.EMPTY) == 1


async def test_waiting_and_processing_times_are_per_message(engine: Engine) -> None:
    await push(engine, "orders", 1, 2, 3)
    delivery = await pop_one(engine, "orders", batch=3)
    await ack(engine, delivery)

    snapshot = await engine.snapshot()
    of = {each.name: sum(each.bins.values()) for each in snapshot.histograms}
    assert of[telemetry.WAIT.name] == 3
    assert of[telemetry.PROCESSING.name] == 3


async def test_a_process_that_only_settles_learns_the_names_for_its_counters(
    engine: Engine, dsn: str
) -> None:
    await push(engine, "orders", 1)
    delivery = await pop_one(engine, "orders", group="g")
    async with await Engine.open(dsn) as other:
        await ack(other, delivery)

        assert await counted(other, telemetry.ACKED, "orders", "g") == 1


async def test_rows_are_absolute_so_a_repeat_is_not_counted_twice(engine: Engine) -> None:
    await push(engine, "orders", 1, 2)
    found = engine.counters.rows()
    assert found is not None
    # The response to this call is lost.
    await engine.store.database.fetch("count", engine.counters.process, *found)
    await push(engine, "orders", 3)

    assert [row["pushed"] for row in await stored(engine)] == [2]
    assert [row["pushed"] for row in await stored(engine)] == [3]
    assert engine.counters.rows() is None


async def test_each_minute_has_its_own_rows(engine: Engine) -> None:
    await push(engine, "orders", 1)
    await stored(engine)
    engine.counters.clock_skew += 60
    await push(engine, "orders", 2)
    found = engine.counters.rows()

    assert found is not None
    assert found[1][0]["pushed"] == 1
    assert [row["pushed"] for row in await stored(engine)] == [2]


async def test_the_rows_of_two_processes_add_up(engine: Engine, dsn: str) -> None:
    await push(engine, "orders", 1)
    await stored(engine)
    async with await Engine.open(dsn) as other:
        await push(other, "orders", 2)

        assert [row["pushed"] for row in await stored(other)] == [2]


async def test_queues_beyond_the_bound_are_counted_together(engine: Engine) -> None:
    engine.counters._most = 1  # pyright: ignore[reportPrivateUsage]
    await push(engine, "orders", 1)
    await push(engine, "invoices", 1)
    await push(engine, "returns", 1)

    snapshot = Snapshot()
    engine.counters.fill(snapshot)
    assert snapshot.of(telemetry.PUSHED, "orders") == 1
    assert snapshot.of(telemetry.PUSHED, OTHER) == 2


async def test_queues_beyond_the_bound_are_stored_separately_and_shown_together(
    engine: Engine, clock: Clock
) -> None:
    counters = engine.counters
    counters._most = 1  # pyright: ignore[reportPrivateUsage]
    await engine.learn_clock()
    totals: dict[str, int] = {}
    for minute in range(3):
        for queue in ("orders", "invoices", "returns"):
            await push(engine, queue, minute)
        await engine.store_counters()
        await clock.advance(seconds=60)
        await engine.learn_clock()
        counters.rows()
        snapshot = Snapshot()
        counters.fill(snapshot)
        assert snapshot.of(telemetry.PUSHED, OTHER) == 2 * (minute + 1)
    for queue in ("orders", "invoices", "returns"):
        found = await engine.catalogue.queue(queue)
        (row,) = await engine.store.database.fetch(
            "queue_totals", *await around(engine), [found.id]
        )
        totals[queue] = row["pushed"]

    assert totals == {"orders": 3, "invoices": 3, "returns": 3}
    assert counters.pushed == 9


async def around(engine: Engine) -> tuple[datetime, datetime]:
    (row,) = await engine.store.database.fetch("now")
    return row["now"] - timedelta(days=1), row["now"] + timedelta(days=1)


async def test_an_idle_queue_makes_room_for_a_new_one(engine: Engine, clock: Clock) -> None:
    counters = engine.counters
    counters._most = 1  # pyright: ignore[reportPrivateUsage]
    await engine.learn_clock()
    await push(engine, "old", 1)
    await push(engine, "new", 1)
    await engine.store_counters()
    for _ in range(2):
        await clock.advance(seconds=660)
        await engine.learn_clock()
        counters.rows()

    await push(engine, "new", 1)

    snapshot = Snapshot()
    counters.fill(snapshot)
    assert snapshot.of(telemetry.PUSHED, "new") == 1
    assert snapshot.of(telemetry.PUSHED, OTHER) == 1
    assert counters.pushed == 3


async def test_a_deleted_group_is_looked_up_once(engine: Engine) -> None:
    engine.counters.count_settled(4711, "acked", 0)
    sent: list[str] = []

    @contextmanager
    def note(call: str) -> Generator[None]:
        sent.append(call)
        yield

    engine.store.database.span = note
    for _ in range(3):
        await engine.snapshot()

    assert sent.count("group_names") == 1


async def test_counting_takes_less_than_a_microsecond_per_call(engine: Engine) -> None:
    await push(engine, "orders", *range(1_000))
    (delivery,) = await engine.pop(PopRequest(queue="orders", batch=1_000))
    assert delivery.lease is not None
    rounds = 2_000
    started_at = time.thread_time()
    for _ in range(rounds):
        engine._popper._count([delivery], QUEUE_MODE)  # pyright: ignore[reportPrivateUsage]
        engine.counters.count_settled(delivery.group_id, "acked", delivery.lease.claimed_ms, 1_000)
    seconds = (time.thread_time() - started_at) / rounds / 2

    # Ten times the usual time, to allow for busy machines.
    assert seconds < 10e-6
