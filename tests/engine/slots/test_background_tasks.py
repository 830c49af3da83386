"""Background tasks skip slots that have moved, continue with the others, and resume later."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from queen import errors
from queen.engine.engine import Engine
from queen.engine.sources.schedules import Recurring
from queen.engine.upkeep.loop import Upkeep
from queen.settings import Settings
from tests.engine.helpers import delete_queue, drain, item, pop, push
from tests.engine.slots.mover import Mover
from tests.engine.sources.workflows.worker import FLOW, Worker, look, start, states
from tests.support.clock import Clock

MOVED, OTHER = "orders", "bills"
"""The queue that moves has the lower id, so each task begins with it."""
SETTINGS = Settings(
    retention_interval_ms=1_000, eviction_interval_ms=1_000, partition_cleanup_days=1
)
DAY = 86_400.0


@pytest.fixture
async def engine(dsn: str) -> AsyncIterator[Engine]:
    """An engine whose scheduler the tests run."""
    async with await Engine.open(dsn) as engine:
        await engine.schedules.close()
        yield engine


@pytest.fixture
async def upkeep(engine: Engine) -> Upkeep:
    return Upkeep(engine.core, SETTINGS)


async def create(engine: Engine, **options: Any) -> None:  # noqa: ANN401
    for queue in (MOVED, OTHER):
        await engine.queues.configure(queue, options)


async def sweep(upkeep: Upkeep, clock: Clock, *, seconds: float) -> None:
    """Run the tasks that are due then. The tasks must report no error."""
    await clock.advance(seconds=seconds)
    while await upkeep.look():
        pass
    duties = await upkeep._core.store.database.fetch("duties")  # pyright: ignore[reportPrivateUsage]
    assert {row["name"]: row["error"] for row in duties if row["error"]} == {}


async def stored(mover: Mover) -> dict[str, int]:
    """The number of stored messages per queue."""
    rows = await mover.connection.fetch(
        """
        select q.name, coalesce(sum(s.message_count), 0) as messages
        from queen.queues q
        left join queen.segments s on s.queue_id = q.id and s.body is not null
        group by q.name
        """
    )
    return {row["name"]: row["messages"] for row in rows}


async def test_retention(engine: Engine, clock: Clock, mover: Mover, upkeep: Upkeep) -> None:
    await create(engine, retention_enabled=True, retention_seconds=60)
    await engine.push([item(MOVED, 1), item(OTHER, 1)])
    await mover.leave(MOVED)

    await sweep(upkeep, clock, seconds=100)

    assert await stored(mover) == {MOVED: 1, OTHER: 0}
    await mover.give_up(MOVED)
    await sweep(upkeep, clock, seconds=100)
    assert await stored(mover) == {MOVED: 0, OTHER: 0}


async def test_evictions(engine: Engine, clock: Clock, mover: Mover, upkeep: Upkeep) -> None:
    await create(engine, max_wait_seconds=60)
    await engine.push([item(MOVED, 1), item(OTHER, 1)])
    for queue in (MOVED, OTHER):
        await engine.store.groups.subscribe(queue, "g", mode=None, start_at=None)
    await mover.leave(MOVED)

    await sweep(upkeep, clock, seconds=100)

    count = "select q.name from queen.dead_letters l join queen.queues q on q.id = l.queue_id"
    assert [row["name"] for row in await mover.connection.fetch(count)] == [OTHER]
    await mover.give_up(MOVED)
    await sweep(upkeep, clock, seconds=100)
    assert {row["name"] for row in await mover.connection.fetch(count)} == {MOVED, OTHER}


async def test_removal_of_empty_partitions(
    engine: Engine, clock: Clock, mover: Mover, upkeep: Upkeep
) -> None:
    await create(engine, retention_enabled=True, retention_seconds=60)
    await engine.push([item(MOVED, 1), item(OTHER, 1)])
    await sweep(upkeep, clock, seconds=100)
    await mover.leave(MOVED)

    await sweep(upkeep, clock, seconds=3 * DAY)

    names = """
    select q.name from queen.partitions p join queen.queues q on q.id = p.queue_id order by q.name
    """
    assert [row["name"] for row in await mover.connection.fetch(names)] == [MOVED]
    await mover.give_up(MOVED)
    await sweep(upkeep, clock, seconds=100)
    assert await mover.connection.fetch(names) == []


@pytest.mark.parametrize("is_complete", [False, True])
async def test_scheduled_messages(
    engine: Engine, clock: Clock, mover: Mover, upkeep: Upkeep, *, is_complete: bool
) -> None:
    await create(engine)
    await engine.push([item(queue, 1, delay_seconds=10) for queue in (MOVED, OTHER)])
    await (mover.complete(MOVED) if is_complete else mover.leave(MOVED))

    await sweep(upkeep, clock, seconds=20)

    assert (await stored(mover))[OTHER] == 1
    assert await mover.connection.fetchval("select count(*) from queen.scheduled") == 1
    if not is_complete:
        await mover.give_up(MOVED)
        await sweep(upkeep, clock, seconds=20)
        assert await stored(mover) == {MOVED: 1, OTHER: 1}


async def test_erasure_of_deleted_queues(engine: Engine, mover: Mover) -> None:
    await create(engine)
    await engine.push([item(MOVED, 1), item(OTHER, 1)])
    await engine.queues.delete(MOVED)
    await mover.leave(MOVED)

    # It reports that a queue is left, so that the operation tries again.
    with pytest.raises(errors.SlotMoved):
        await delete_queue(engine, OTHER)

    names = "select name from queen.queues"
    assert [row["name"] for row in await mover.connection.fetch(names)] == [MOVED]
    await mover.give_up(MOVED)
    while not await engine.queues.erase_step():
        pass
    assert await mover.connection.fetch(names) == []


async def test_erasure_ends_although_a_slot_is_gone(engine: Engine, mover: Mover) -> None:
    await create(engine)
    await push(engine, OTHER, 1)
    await pop(engine, MOVED, group="g")
    await pop(engine, OTHER, group="g")
    for queue in (MOVED, OTHER):
        await engine.queues.delete_group(queue, "g")
    await mover.complete(MOVED)

    while not await engine.queues.erase_step():
        pass

    groups = await mover.connection.fetch("select queue_id from queen.groups")
    assert len(groups) == 1  # The rest of the move deletes it.


async def test_schedules(
    engine: Engine, clock: Clock, mover: Mover, caplog: pytest.LogCaptureFixture
) -> None:
    await create(engine)
    message = Recurring(payload=msgspec.Raw(b"1"))
    for queue in (MOVED, OTHER):
        await engine.schedules.put(queue, queue=queue, cron="0 * * * *", message=message)
    await mover.leave(MOVED)
    await clock.advance(seconds=3_600)

    await engine.schedules.run()

    assert await stored(mover) == {MOVED: 0, OTHER: 1}
    assert (await engine.schedules.one(MOVED))["error"] is None
    assert caplog.messages == []
    await mover.give_up(MOVED)
    await engine.schedules.run()
    assert await stored(mover) == {MOVED: 1, OTHER: 1}


async def test_schedules_whose_slot_leaves_after_the_search(
    engine: Engine,
    clock: Clock,
    mover: Mover,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await create(engine)
    message = Recurring(payload=msgspec.Raw(b"1"))
    for queue in (MOVED, OTHER):
        await push(engine, queue, 0)
        await engine.schedules.put(queue, queue=queue, cron="0 * * * *", message=message)
    await clock.advance(seconds=3_600)
    due = engine.store.schedules.due

    async def found(*arguments: Any) -> list[Any]:  # noqa: ANN401
        rows = await due(*arguments)
        if len(rows) == 2:
            await mover.leave(MOVED)
        return rows

    monkeypatch.setattr(engine.store.schedules, "due", found)

    await engine.schedules.run()

    assert await stored(mover) == {MOVED: 1, OTHER: 2}
    assert caplog.messages == []
    await mover.give_up(MOVED)
    await clock.advance(seconds=2)
    await engine.schedules.run()
    assert await drain(engine, MOVED) == [0, 1]


async def test_workflow_steps(engine: Engine, clock: Clock, mover: Mover) -> None:
    """A step whose message moved is not lost, and one that waits does not fail twice."""
    worker = Worker(engine)
    await engine.queues.configure("work", {"ordered": False})
    await engine.queues.configure(OTHER, {"ordered": False})
    lost = await start(engine, FLOW.step("first", "work", "first"))
    late = await start(
        engine, FLOW.wait_for("go", timeout="1h", on_failure=["late"]).step("late", OTHER, "late")
    )
    await worker.take()
    await mover.connection.execute("delete from queen.deliveries")
    await mover.leave("work")

    for _ in range(3):
        await clock.advance(seconds=3_700)
        await look(engine)

    assert await states(engine, lost) == {"first": "active"}
    assert (await states(engine, late))["go"] == "failed"
    await mover.give_up("work")
    for _ in range(3):
        await clock.advance(seconds=3_700)
        await look(engine)
    assert await states(engine, lost) == {"first": "failed"}


async def test_samples(engine: Engine, mover: Mover) -> None:
    await create(engine)
    sampled = engine.store.database.fetch
    await mover.leave(MOVED)

    assert [row["queue"] for row in await sampled("sample", 0, 100, 100)] == [OTHER]
    await mover.give_up(MOVED)
    assert [row["queue"] for row in await sampled("sample", 0, 100, 100)] == [MOVED, OTHER]
