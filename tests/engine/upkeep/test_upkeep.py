"""
Background tasks: one process at a time, fenced by epochs, and the data that each task removes.
"""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from queen import errors
from queen.engine.engine import Engine
from queen.engine.metrics.sampler import Sampler
from queen.engine.upkeep.loop import DUTIES, Upkeep
from queen.settings import Settings
from tests.engine.helpers import drain, item, pop, pop_one, push, settle
from tests.support.clock import Clock

SETTINGS = Settings(retention_interval_ms=1_000, upkeep_look_seconds=1, producer_ttl_seconds=100)
DAY = 86_400
_AT_EACH_CHECK = ("scheduled", "workflows")
"""Tasks that are due at each check. The others are due after their intervals."""


@pytest.fixture
async def upkeep(engine: Engine) -> Upkeep:
    return Upkeep(engine.core, SETTINGS)


async def fetch(engine: Engine, text: str, *arguments: object) -> list[Any]:
    connection = await asyncpg.connect(engine.store.database.dsn)
    try:
        return await connection.fetch(text, *arguments)
    finally:
        await connection.close()


async def take(engine: Engine, holder: int, name: str = "retention") -> int | None:
    """The epoch under which `holder` now leads a task, or None if another process leads it."""
    rows = await engine.store.database.fetch("take_duties", holder, [name], 60.0)
    return rows[0]["epoch"] if rows else None


async def sweep(upkeep: Upkeep, clock: Clock, *, seconds: float = 2) -> None:
    await clock.advance(seconds=seconds)
    while await upkeep.look():
        pass


async def test_a_task_belongs_to_one_process_until_its_lease_ends(
    engine: Engine, clock: Clock
) -> None:
    assert await take(engine, 1) == 1
    assert await take(engine, 2) is None
    await clock.advance(seconds=61)

    assert await take(engine, 2) == 2
    assert await take(engine, 1) is None


async def test_a_step_under_an_old_epoch_is_rejected_and_changes_no_row(
    engine: Engine, clock: Clock
) -> None:
    await engine.queues.configure("orders", {"retention_enabled": True, "retention_seconds": 60})
    await push(engine, "orders", "a")
    await clock.advance(seconds=100)
    epoch = await take(engine, 1)
    await clock.advance(seconds=61)
    assert await take(engine, 2) is not None
    (queue,) = await engine.store.database.fetch("queues", ["orders"])

    with pytest.raises(errors.DutyLost):
        await engine.store.database.fetch("retain", epoch, queue["id"], "age", 100, 1.0)
    with pytest.raises(errors.DutyLost):
        await engine.store.database.fetch(
            "report_duty", "retention", epoch, 0.0, 0, 0.0, None, None, 0.0
        )

    assert await drain(engine, "orders") == ["a"]


async def test_a_step_extends_the_lease_of_its_task(engine: Engine, clock: Clock) -> None:
    epoch = await take(engine, 1)
    for _ in range(10):
        await clock.advance(seconds=29)
        await engine.store.database.fetch("retain", epoch, 0, "age", 100, 1.0)

    assert await take(engine, 2) is None


async def test_a_run_is_shown_and_is_due_again_after_its_interval(
    engine: Engine, clock: Clock, upkeep: Upkeep
) -> None:
    assert not await upkeep.look()
    first = {row["name"]: row for row in await engine.store.database.fetch("duties")}
    assert {*first} == {*DUTIES}
    assert all(row["last_success_at"] and row["error"] is None for row in first.values())
    await upkeep.look()
    await clock.advance(seconds=2)
    await upkeep.look()

    again = {row["name"]: row for row in await engine.store.database.fetch("duties")}
    due = {*DUTIES} - {"evictions", *_AT_EACH_CHECK}
    assert {again[name]["epoch"] - first[name]["epoch"] for name in due} == {1}


async def test_a_task_without_work_is_a_success_without_a_run(
    engine: Engine, clock: Clock, upkeep: Upkeep
) -> None:
    await upkeep.look()
    before = {row["name"]: row for row in await engine.store.database.fetch("duties")}
    await sweep(upkeep, clock, seconds=10)
    idle = {row["name"]: row for row in await engine.store.database.fetch("duties")}
    await push(engine, "orders", "a", delay_seconds=60)
    await sweep(upkeep, clock, seconds=10)

    busy = {row["name"]: row for row in await engine.store.database.fetch("duties")}
    for name in _AT_EACH_CHECK:
        assert idle[name]["epoch"] == before[name]["epoch"] == 0
        assert idle[name]["last_success_at"] > before[name]["last_success_at"]
    assert busy["scheduled"]["epoch"] == 1
    assert busy["workflows"]["epoch"] == 0


async def test_a_task_without_work_forgets_its_last_error(
    engine: Engine, clock: Clock, upkeep: Upkeep
) -> None:
    await push(engine, "orders", "a", delay_seconds=1)
    await fetch(engine, "alter function queen.promote_due rename to promote_nothing")
    await sweep(upkeep, clock)
    failed = {row["name"]: row for row in await engine.store.database.fetch("duties")}
    assert failed["scheduled"]["error"]
    assert await drain(engine, "orders") == ["a"]

    await sweep(upkeep, clock)

    ended = {row["name"]: row for row in await engine.store.database.fetch("duties")}
    assert ended["scheduled"]["error"] is None


async def test_a_task_of_another_process_is_not_recorded(
    engine: Engine, clock: Clock, upkeep: Upkeep
) -> None:
    await push(engine, "orders", "a", delay_seconds=1)
    assert await take(engine, 1, "scheduled") == 1
    await clock.advance(seconds=2)
    assert await drain(engine, "orders") == ["a"]

    await sweep(upkeep, clock)
    held = {row["name"]: row for row in await engine.store.database.fetch("duties")}
    await sweep(upkeep, clock, seconds=61)

    assert held["scheduled"]["last_run_at"] is None
    free = {row["name"]: row for row in await engine.store.database.fetch("duties")}
    assert free["scheduled"]["last_run_at"] is not None


async def test_a_failing_task_records_its_error_and_stops_no_other(
    engine: Engine, clock: Clock, upkeep: Upkeep
) -> None:
    await fetch(engine, "alter function queen.forget_traces rename to forget_nothing")
    await sweep(upkeep, clock)

    duties = {row["name"]: row for row in await engine.store.database.fetch("duties")}
    assert duties["traces"]["last_success_at"] is None
    assert duties["traces"]["error"]
    assert all(row["error"] is None for name, row in duties.items() if name != "traces")


async def test_scheduled_messages_are_stored_without_a_pop(
    engine: Engine, clock: Clock, upkeep: Upkeep
) -> None:
    await push(engine, "orders", "a", delay_seconds=60)
    await push(engine, "others", "b", delay_seconds=600)
    await sweep(upkeep, clock, seconds=61)

    left = await fetch(engine, "select queue_id from queen.scheduled")
    assert len(left) == 1
    assert len(await fetch(engine, "select 1 from queen.segments")) == 1
    assert await drain(engine, "orders") == ["a"]


KEYS = "select at from queen.dedup union all select at from queen.dedup_blocks"


@pytest.mark.parametrize("delay_seconds", [None, 5])  # Keys of scheduled messages are rows.
async def test_keys_outside_every_window_are_truncated(
    engine: Engine, clock: Clock, upkeep: Upkeep, delay_seconds: float | None
) -> None:
    fields: dict[str, Any] = {"transaction_id": "t", "delay_seconds": delay_seconds}
    await push(engine, "orders", "a", **fields)
    counts: list[int] = []
    statuses: list[str] = []
    for _ in range(4):
        await sweep(upkeep, clock)
        counts.append(len(await fetch(engine, KEYS)))
        (again,) = await push(engine, "others", "a", partition=str(len(counts)), **fields)
        statuses.append(again.status)
        await clock.advance(seconds=DAY)

    assert statuses == ["queued"] * 4
    # The generation of a day is emptied after two days.
    assert counts == [1, 2, 1, 1]


async def test_a_key_is_known_until_the_end_of_its_window(
    engine: Engine, clock: Clock, upkeep: Upkeep
) -> None:
    await clock.advance(seconds=DAY / 2)
    await push(engine, "orders", "a", transaction_id="t")
    await sweep(upkeep, clock, seconds=DAY - 10)
    (known,) = await push(engine, "orders", "a", transaction_id="t")
    await sweep(upkeep, clock, seconds=20)
    (unknown,) = await push(engine, "orders", "a", transaction_id="t")

    assert (known.status, unknown.status) == ("duplicate", "queued")


@pytest.mark.parametrize("delay_seconds", [None, 5])
async def test_a_clock_that_moves_backwards_removes_no_key(
    engine: Engine, clock: Clock, upkeep: Upkeep, delay_seconds: float | None
) -> None:
    await clock.advance(seconds=DAY)
    await push(engine, "orders", "a", transaction_id="t", delay_seconds=delay_seconds)
    # Now its generation looks like the old one.
    await sweep(upkeep, clock, seconds=-DAY)

    assert len(await fetch(engine, KEYS)) == 1


async def test_an_inactive_producer_is_forgotten(
    engine: Engine, clock: Clock, upkeep: Upkeep
) -> None:
    for scope in ("acme", "zeta"):
        await engine.push([item("orders", 1)], producer_id="silent", sequence=1, scope=scope)
    await clock.advance(seconds=60)
    await engine.push([item("orders", 2)], producer_id="busy", sequence=1)
    await sweep(upkeep, clock, seconds=60)

    left = await fetch(engine, "select producer_id from queen.producers")
    assert [row["producer_id"] for row in left] == ["busy"]


async def test_traces_are_removed_after_their_retention(
    engine: Engine, clock: Clock, upkeep: Upkeep
) -> None:
    await fetch(
        engine,
        """
        with made as (
          insert into queen.traces
            (partition_id, transaction_id, event_type, names, data, created_at)
          select 1, 't', 'info', array['n'], '{}', a.at from unnest($1::timestamptz[]) a (at)
          returning id
        )
        insert into queen.trace_names (name, trace_id) select 'n', id from made
        """,
        [await clock.now(), await clock.now() + timedelta(hours=100)],
    )
    await sweep(upkeep, clock, seconds=169 * 3600)

    assert len(await fetch(engine, "select 1 from queen.traces")) == 1
    assert len(await fetch(engine, "select 1 from queen.trace_names")) == 1


EMPTYING = {"retention_enabled": True, "retention_seconds": 10, "partition_retention_seconds": 60}


async def partitions(engine: Engine) -> list[str]:
    found = await fetch(engine, "select name from queen.partitions order by name")
    return [row["name"] for row in found]


async def test_an_empty_partition_is_removed_with_all_its_rows(
    engine: Engine, clock: Clock, upkeep: Upkeep
) -> None:
    await engine.queues.configure("orders", EMPTYING)
    (before,) = await push(engine, "orders", "a", partition="p", transaction_id="t")
    await drain(engine, "orders", group="g")
    await sweep(upkeep, clock, seconds=100)
    # Its dedup window is longer than the retention of its queue.
    assert await partitions(engine) == ["p"]
    await sweep(upkeep, clock, seconds=DAY)
    assert await partitions(engine) == []
    assert await fetch(engine, "select 1 from queen.consumers") == []
    assert await fetch(engine, "select 1 from queen.segments") == []

    # This process still caches the old partition.
    (after,) = await push(engine, "orders", "b", partition="p", transaction_id="t")

    assert (after.status, after.offset) == ("queued", 0)
    assert after.id != before.id
    assert await drain(engine, "orders", group="g") == ["b"]


async def test_a_partition_with_any_remaining_data_stays(
    engine: Engine, clock: Clock, upkeep: Upkeep
) -> None:
    await engine.queues.configure("orders", EMPTYING)
    for name in ("dead", "scheduled", "pushed", "empty"):
        await push(engine, "orders", name, partition=name)
    dead = await pop_one(engine, "orders", partition="dead")
    await settle(engine, dead, status="dlq")
    await push(engine, "orders", "later", partition="scheduled", delay_seconds=10 * DAY)
    await sweep(upkeep, clock, seconds=2 * DAY)
    await push(engine, "orders", "again", partition="pushed")
    await sweep(upkeep, clock, seconds=1)
    await pop(engine, "orders", partition="pushed")

    assert await partitions(engine) == ["dead", "pushed", "scheduled"]


async def test_a_partition_whose_messages_were_never_due_is_removed(
    engine: Engine, clock: Clock, upkeep: Upkeep
) -> None:
    await engine.queues.configure("orders", EMPTYING)
    # The consumer row of a group is removed with its partition.
    await push(engine, "orders", "seen", partition="seen")
    await drain(engine, "orders", group="g")
    for name in ("cancelled", "expired", "purged", "kept", "came"):
        expiring = {"ttl_seconds": 1} if name == "expired" else {}
        delay = 10 * DAY if name in ("cancelled", "kept", "purged") else 60
        await push(engine, "orders", name, partition=name, delay_seconds=delay, **expiring)
    await sweep(upkeep, clock, seconds=50)
    (scheduled,) = await fetch(
        engine,
        "select s.id from queen.scheduled s"
        " join queen.partitions p on p.id = s.partition_id and p.name = 'cancelled'",
    )
    assert await engine.store.browse.withdraw(scheduled["id"])
    await engine.store.queues.purge(
        "orders", partition="purged", is_completed=False, before=None, after=None, limit=10
    )
    # No pop moves due messages before their time to live ends.
    await clock.advance(seconds=100)
    await sweep(upkeep, clock, seconds=1)
    assert await partitions(engine) == ["came", "cancelled", "expired", "kept", "purged", "seen"]
    assert await drain(engine, "orders", partition="came", group="g") == ["came"]

    await sweep(upkeep, clock, seconds=2 * DAY)
    await sweep(upkeep, clock, seconds=2 * DAY)
    assert await partitions(engine) == ["kept"]
    marks = await fetch(
        engine, "select p.name from queen.laggards join queen.partitions p on p.id = partition_id"
    )
    assert [row["name"] for row in marks] == ["kept"]
    assert len(await fetch(engine, "select 1 from queen.consumers")) == 1

    await sweep(upkeep, clock, seconds=7 * DAY)
    assert await drain(engine, "orders", group="g") == ["kept"]
    (answer,) = await push(engine, "orders", "again", partition="cancelled")
    assert (answer.offset, await drain(engine, "orders", group="g")) == (0, ["again"])


async def test_old_counters_and_samples_are_removed(
    engine: Engine, upkeep: Upkeep, clock: Clock
) -> None:
    await push(engine, "orders", 1)
    await engine.learn_clock()
    await engine.store_counters()
    await Sampler(engine.store, engine.counters.process, SETTINGS).step()
    run = ("a", str(uuid4()))
    await engine.store.database.fetch("begin_pipeline", *run, "archive", ["orders"], None, None)
    figures = (None, None, None, None, None, None, 1, None, None, None)
    await engine.store.database.fetch("report_pipeline", *run, "running", ["orders"], *figures)
    tables = ("counters", "samples", "pipeline_samples")
    for table in tables:
        assert await fetch(engine, f"select from queen.{table}")
    hour = 3_600
    await sweep(upkeep, clock, seconds=SETTINGS.analytics_retention_hours * hour - 100)
    for table in tables:
        assert await fetch(engine, f"select from queen.{table}")
    await sweep(upkeep, clock, seconds=200)

    for table in tables:
        assert not await fetch(engine, f"select from queen.{table}")
