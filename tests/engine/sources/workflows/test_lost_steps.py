"""A step whose signal or message is lost fails, and a step that only waits does not."""

from typing import Any

import asyncpg
import pytest

from queen import errors
from queen.engine.engine import Engine
from tests.engine.helpers import delete_queue, extend, lease, purge, says
from tests.engine.sources.workflows.worker import FLOW, Worker, look, start, states
from tests.support.clock import Clock


async def test_a_signal_that_does_not_arrive_in_time_fails_its_step(
    clock: Clock, engine: Engine, worker: Worker
) -> None:
    flow = FLOW.wait_for("go", timeout="1h", on_failure=["late"]).step("late", "work", "late")
    id_ = await start(engine, flow)
    await clock.advance(seconds=3_599)
    await look(engine)
    assert (await states(engine, id_))["go"] == "waiting"

    await clock.advance(seconds=10)
    await look(engine)

    assert await states(engine, id_) == {"go": "failed", "late": "active"}
    (step, _) = await engine.store.workflows.steps(id_)
    assert step["error"] == "no signal go arrived within 3600 s"


async def test_the_step_after_a_missing_signal_has_its_own_result(
    clock: Clock, engine: Engine, worker: Worker
) -> None:
    """Even if it is settled as soon as it starts."""
    flow = (
        FLOW.wait_for("go", timeout="1h", on_failure=["none", "told"])
        .map("none", "work", "none", over=[])
        .wait_for("told")
        .step("last", "work", "last", after=["none", "told"])
    )
    id_ = await start(engine, flow)
    await engine.workflows.signal(id_, "told", "success", b'"early"')
    await clock.advance(seconds=3_700)

    await look(engine)

    steps = {row["name"]: row for row in await engine.store.workflows.steps(id_)}
    assert (steps["none"]["state"], steps["none"]["result"]) == ("completed", "[]")
    assert (steps["told"]["state"], steps["told"]["result"]) == ("completed", '"early"')
    seen: list[tuple[Any, Any]] = []
    worker.handlers = {
        "last": lambda data, place: seen.append((place.result_of("none"), place.result_of("told")))
    }
    assert (await worker.run(id_))["state"] == "completed"
    assert seen == [([], "early")]


async def test_a_step_with_an_unsettled_message_is_not_lost(
    clock: Clock, engine: Engine, worker: Worker
) -> None:
    id_ = await start(engine, FLOW.map("m", "work", "m", over=[1, 2, 3]))
    delivery = await worker.take()
    assert delivery is not None
    await worker.settle(delivery)
    delivery = await worker.take()
    assert delivery is not None
    for _ in range(3):
        await extend(engine, lease(delivery), seconds=7_200)
        await clock.advance(seconds=3_700)
        await look(engine)

    assert await states(engine, id_) == {"m": "active"}
    await worker.settle(delivery)
    assert (await worker.run(id_))["state"] == "completed"


@pytest.mark.parametrize("way", ["acked", "buried", "purged", "deleted"])
async def test_a_step_whose_message_was_removed_silently_fails(
    clock: Clock, engine: Engine, worker: Worker, way: str
) -> None:
    id_ = await start(engine, FLOW.step("a", "work", "a").step("b", "work", "b", after=["a"]))
    delivery = await worker.take()
    assert delivery is not None
    if way == "acked":
        await engine.acknowledge([says(delivery, 0, "completed")])
    elif way == "buried":
        await engine.acknowledge([says(delivery, 0, "dlq", error="x")])
    elif way == "purged":
        await purge(engine, "work")
    else:
        await delete_queue(engine, "work")
    await look(engine)
    assert (await states(engine, id_))["a"] == "active"

    await clock.advance(seconds=61)
    await look(engine)

    assert await states(engine, id_) == {"a": "failed", "b": "skipped"}
    row = await engine.workflows.one(id_)
    assert row["error"] == "a: its message left queue work without an outcome"


async def test_a_message_that_cannot_be_pushed_fails_its_step(
    clock: Clock,
    engine: Engine,
    worker: Worker,
    connection: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    id_ = await start(engine, FLOW.step("a", "work", "a", delay=30))
    await connection.execute("update queen.workflow_steps set outbox_id = null")
    await connection.execute(
        "with moved as (insert into queen.outbox (item, payload, error) "
        "values ('{}', '{}', 'too bad') returning id) "
        "update queen.workflow_steps s set outbox_id = m.id from moved m"
    )

    await clock.advance(seconds=100)
    await look(engine)

    assert (await engine.workflows.one(id_))["error"] == "a: it could not be pushed: too bad"


async def test_a_step_with_a_delay_is_not_lost(
    clock: Clock, engine: Engine, worker: Worker
) -> None:
    id_ = await start(engine, FLOW.step("a", "work", "a", delay="2h"))
    await clock.advance(seconds=3_700)
    await look(engine)
    assert await states(engine, id_) == {"a": "active"}

    await clock.advance(seconds=3_700)
    assert (await worker.run(id_))["state"] == "completed"


async def test_old_finished_workflows_are_removed(
    clock: Clock, engine: Engine, worker: Worker
) -> None:
    old = await start(engine, FLOW.map("m", "work", "m", over=[1, 2]))
    await worker.run(old)
    young = await start(engine, FLOW.wait_for("go"))
    await clock.advance(seconds=169 * 3_600)
    await look(engine)

    with pytest.raises(errors.WorkflowNotFound):
        await engine.workflows.one(old)
    assert (await engine.workflows.one(young))["state"] == "running"
