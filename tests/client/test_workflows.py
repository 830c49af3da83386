"""Workflows from Python: declare, start, wait and signal."""

import asyncio
from typing import Any

import msgspec
import pytest

from queen import Message, Queen, errors
from queen.jobs import Step, Workflow, WorkflowHandle, execute_workflow
from queen.jobs.workflows.api import WorkflowCalls
from queen.wire.workflows import WorkflowPlace


class Payload(msgspec.Struct):
    """The fields of a job that the tests use."""

    name: str
    workflow: WorkflowPlace
    data: Any = None


async def take(queen: Queen, queue: str) -> tuple[Message[Any], Payload]:
    (message,) = await queen.queue(queue).wait(True).timeout_millis(10_000).pop()
    return message, msgspec.json.decode(message.raw, type=Payload)


async def work(queen: Queen, queue: str, result: object = None, error: str | None = None) -> str:
    """Run the next job, settle it with its step, and return the step."""
    message, job = await take(queen, queue)
    transaction = queen.transaction()
    if error is None:
        step = job.workflow.advance("success", result=msgspec.json.encode(result))
        transaction = transaction.ack(message).advance(step)
    else:
        step = job.workflow.advance("failure", error=error)
        transaction = transaction.ack(message, "dlq", {"error": error}).advance(step)
    answer = await transaction.commit()
    assert answer.results[1].advanced is True
    return job.workflow.step


async def queue_of(queen: Queen, name: str) -> str:
    await queen.queue(name).config({"ordered": False}).create()
    return name


async def states(handle: WorkflowHandle) -> dict[str, str]:
    return {step.name: step.state for step in (await handle.status()).steps}


async def test_a_handle_waits_for_the_result(shared: Queen, name: str) -> None:
    queue = await queue_of(shared, name)
    flow = Workflow(name=name).step("a", queue, "a", {"n": 1}).map("m", queue, "m", over="a")
    handle = await execute_workflow(shared, flow)
    assert handle.is_new
    waiting = asyncio.create_task(handle.result(timeout="20s"))

    assert await work(shared, queue, [1, 2]) == "a"
    for number in range(2):
        assert await work(shared, queue, number) == "m"

    assert sorted((await waiting)["m"]) == [0, 1]
    assert [part.state for part in await handle.parts("m")] == ["completed"] * 2
    found = WorkflowCalls(shared).all(name=name, state="completed")
    assert [run.id async for run in found] == [handle.id]
    await handle.delete()
    with pytest.raises(errors.WorkflowNotFound):
        await handle.status()


async def test_a_missing_result_is_an_error(shared: Queen, name: str) -> None:
    queue = await queue_of(shared, name)
    handle = await execute_workflow(shared, Workflow(name=name).step("a", queue, "a"))
    with pytest.raises(TimeoutError, match="still running"):
        await handle.wait(timeout=0.05)

    await work(shared, queue, error="boom")

    with pytest.raises(errors.WorkflowFailed, match="failed: a: boom"):
        await handle.result()
    assert await handle.retry() == "running"
    await work(shared, queue, 7)
    assert await handle.result(timeout="10s") == {"a": 7}


async def test_signals_and_cancellation(shared: Queen, name: str) -> None:
    queue = await queue_of(shared, name)
    flow = (
        Workflow(name=name)
        .step("a", queue, "a", compensate=Step(queue, "una"))
        .wait_for("go", after=["a"])
        .step("b", queue, "b", after=["go"])
    )
    one, other = [await execute_workflow(shared, flow) for _ in range(2)]
    for _ in range(2):
        await work(shared, queue)

    assert await one.signal("go", {"by": "me"}) == 1
    assert await other.cancel("enough") == "compensating"

    done = {await work(shared, queue) for _ in range(2)}
    assert done == {"b", "a:undo"}
    assert (await one.wait(timeout="10s")).state == "completed"
    run = await other.wait(timeout="10s")
    assert (run.state, run.error) == ("cancelled", "enough")
    assert await states(other) == {
        "a": "completed",
        "go": "cancelled",
        "b": "cancelled",
        "a:undo": "completed",
    }


async def test_a_nested_mapping_is_a_workflow(shared: Queen, name: str) -> None:
    queue = await queue_of(shared, name)
    handle = await execute_workflow(
        shared,
        {
            "id": name,
            "name": "User Onboarding",
            "steps": [
                {
                    "queueName": queue,
                    "jobName": "send",
                    "data": {"userId": 1},
                    "onSuccess": [{"queueName": queue, "jobName": "create"}],
                }
            ],
            "metadata": {"correlationId": name, "tags": ["onboarding"]},
        },
    )
    assert handle.id == name

    _, job = await take(shared, queue)

    assert (job.name, job.data) == ("send", {"userId": 1})
    (run,) = [run async for run in WorkflowCalls(shared).all(correlation_id=name)]
    assert run.tags == ["onboarding"]


async def test_an_invalid_workflow_is_not_sent(shared: Queen) -> None:
    with pytest.raises(errors.InvalidWorkflow, match="does not exist"):
        await execute_workflow(shared, Workflow(name="x").step("a", "q", "a", after=["b"]))
