"""A workflow is cancelled, retried or started again."""

from typing import Any

import asyncpg
import pytest

from queen import errors
from queen.engine.engine import Engine
from queen.jobs.workflows.definition import Step, Workflow
from queen.wire.workflow_plan import plan_of
from queen.wire.workflows import WorkflowPlace
from tests.engine.helpers import says
from tests.engine.sources.workflows.worker import FLOW, Failure, Worker, fail, start, states
from tests.support.clock import Clock


async def test_cancelling_a_workflow_removes_steps_that_have_not_started(
    clock: Clock, engine: Engine, worker: Worker
) -> None:
    flow = FLOW.step("a", "work", "a", compensate=Step("work", "una"))
    flow = flow.step("b", "work", "b", after=["a"], compensate=Step("work", "unb"))
    flow = flow.step("c", "work", "c", after=["b"])
    id_ = await start(engine, flow)
    delivery = await worker.take()
    assert delivery is not None
    await worker.settle(delivery)
    delivery = await worker.take()
    assert delivery is not None

    await engine.workflows.cancel(id_, "enough", is_undone=True)

    row = await engine.workflows.one(id_)
    assert (row["state"], row["open_steps"]) == ("stopping", 1)
    await worker.settle(delivery)
    row = await worker.run(id_)
    assert (row["state"], row["error"]) == ("cancelled", "enough")
    assert await states(engine, id_) == {
        "a": "completed",
        "b": "completed",
        "c": "cancelled",
        "a:undo": "completed",
        "b:undo": "completed",
    }


async def test_cancelling_a_workflow_ends_its_leases_and_leaves_no_messages(
    engine: Engine, worker: Worker
) -> None:
    flow = FLOW.step("a", "work", "a").map("m", "work", "m", over=[1, 2, 3])
    id_ = await start(engine, flow)
    running = [await worker.take() for _ in range(2)]

    await engine.workflows.cancel(id_, None, is_undone=True)

    assert (await engine.workflows.one(id_))["state"] == "cancelled"
    assert await states(engine, id_) == {"a": "cancelled", "m": "cancelled"}
    for delivery in running:
        assert delivery is not None
        with pytest.raises(errors.LeaseLost):
            await worker.settle(delivery)
    assert await worker.take(is_waiting=False) is None


async def test_a_retry_runs_the_failed_step_and_its_successors(
    engine: Engine, worker: Worker
) -> None:
    flow = FLOW.step("a", "work", "a").map("m", "work", "m", over=[1, 2, 3], after=["a"])
    flow = flow.step("b", "work", "b", after=["m"])
    bad = {2}

    def handle(data: int, place: WorkflowPlace) -> int:
        if data in bad:
            raise Failure("boom")
        return data * 10

    seen: list[Any] = []
    worker.handlers = {"m": handle, "b": lambda data, place: seen.append(bytes(place.results["m"]))}
    id_ = await start(engine, flow)
    row = await worker.run(id_)
    assert (row["state"], row["error"]) == ("failed", "m: part 1: boom")
    worker.ran.clear()
    bad.clear()

    await engine.workflows.retry(id_, None)
    row = await worker.run(id_)

    assert row["state"] == "completed"
    assert worker.ran == [("m", 1), ("b", None)]
    assert seen == [b"[10,20,30]"]
    with pytest.raises(errors.NotRetryable):
        await engine.workflows.retry(id_, None)


async def test_a_retry_keeps_completed_steps_behind_a_branch_that_was_not_taken(
    engine: Engine, worker: Worker
) -> None:
    flow = (
        FLOW.step("pay", "work", "pay", on_success=["thank"], on_failure=["remind"])
        .step("thank", "work", "thank", on_success=["file"])
        .step("remind", "work", "remind", on_success=["file"])
        .step("file", "work", "file", join="any")
        .wait_for("packed")
        .step("ship", "work", "ship", after=["packed"])
        .step("close", "work", "close", after=["file", "ship"])
    )
    worker.handlers = {"ship": fail}
    id_ = await start(engine, flow)
    for _ in range(3):
        delivery = await worker.take()
        assert delivery is not None
        await worker.settle(delivery)
    await engine.workflows.signal(id_, "packed", "success", None)
    assert (await worker.run(id_))["state"] == "failed"
    assert [step for step, _ in worker.ran] == ["pay", "thank", "file", "ship"]
    worker.handlers.clear()
    worker.ran.clear()

    await engine.workflows.retry(id_, None)

    assert (await worker.run(id_))["state"] == "completed"
    assert [step for step, _ in worker.ran] == ["ship", "close"]
    assert (await states(engine, id_))["remind"] == "skipped"


async def test_a_repeated_start_returns_the_same_workflow(engine: Engine, worker: Worker) -> None:
    flow = Workflow(name="test", id="once").step("a", "work", "a", 1)
    request = flow.request()

    first = await engine.workflows.start(request.id, plan_of(request))
    again = await engine.workflows.start(request.id, plan_of(request))

    assert (first, again) == (("once", True), ("once", False))
    other = Workflow(name="test", id="once").step("a", "work", "a", 2).request()
    with pytest.raises(errors.WorkflowExists):
        await engine.workflows.start(other.id, plan_of(other))


async def test_a_deleted_workflow_can_be_started_again(engine: Engine, worker: Worker) -> None:
    flow = Workflow(name="test", id="again").step("a", "work", "a", 1)
    await worker.run(await start(engine, flow))
    await engine.workflows.delete("again")

    assert (await worker.run(await start(engine, flow)))["state"] == "completed"


async def test_a_redriven_step_is_settled_after_retention_removed_its_segment(
    engine: Engine, worker: Worker, connection: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    id_ = await start(engine, FLOW.step("a", "work", "a", 1))
    delivery = await worker.take()
    assert delivery is not None
    ack = says(delivery, delivery.offsets[0], "dlq", error="by an operator")
    await engine.transact(acknowledgments=[ack])
    letter = await connection.fetchval("select id from queen.dead_letters")
    await connection.execute("delete from queen.segments")
    assert await engine.dead_letters.redrive([letter]) == [letter]

    again = await worker.take()
    assert again is not None
    assert await worker.settle(again) == [True]
    assert (await states(engine, id_))["a"] == "completed"
