"""Workers of `queen.jobs` run workflow steps: message and step are settled together."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from queen import Queen
from queen.jobs import Backoff, DeadLetter, Job, QueueManager, Step, Workflow


@pytest.fixture
async def jobs(shared: Queen) -> AsyncIterator[QueueManager]:
    manager = QueueManager(shared)
    yield manager
    await manager.shutdown()


async def test_a_workflow_runs_on_workers(jobs: QueueManager, name: str) -> None:
    @jobs.processor(name, name="split")
    async def split(job: Job[str]) -> list[str]:
        return job.data.split()

    @jobs.processor(name, name="count")
    def count(job: Job[str]) -> int:
        return len(job.data)

    @jobs.processor(name, name="sum")
    async def add(job: Job[None]) -> int:
        assert job.workflow is not None
        return sum(job.workflow.result_of("counts"))

    flow = (
        Workflow(name=name)
        .step("words", name, "split", "a bb ccc")
        .map("counts", name, "count", over="words")
        .step("total", name, "sum", after=["counts"])
    )
    await jobs.start_workers()

    handle = await jobs.execute_workflow(flow)

    assert await handle.result(timeout="20s") == {"total": 6}
    (listed,) = [run async for run in jobs.list_workflows(name=name)]
    assert listed.id == handle.id
    assert (await jobs.workflow(handle.id).status()).state == "completed"


async def test_a_step_fails_with_its_message_after_the_last_attempt(
    jobs: QueueManager, name: str
) -> None:
    tries: list[int] = []
    told: asyncio.Queue[dict[str, str]] = asyncio.Queue()

    @jobs.processor(name, name="bad", attempts=3, backoff=Backoff("fixed", delay="10ms"))
    async def bad(job: Job[None]) -> None:
        tries.append(job.attempt)
        raise RuntimeError("boom")

    @jobs.processor(name, name="alert")
    async def alert(job: Job[None]) -> None:
        assert job.workflow is not None
        await told.put(job.workflow.errors)

    flow = Workflow(name=name).add(Step(name, "bad", on_failure=[Step(name, "alert")]))
    await jobs.start_workers()

    run = await (await jobs.execute_workflow(flow)).wait(timeout="20s")

    assert (run.state, tries) == ("completed", [1, 2, 3])
    assert "boom" in told.get_nowait()["bad"]
    assert [(step.state, step.attempts) for step in run.steps] == [("failed", 3), ("completed", 1)]
    dead = await jobs.queen.queue(name).dlq().get()
    assert len(dead["messages"]) == 1


async def test_a_steps_pushes_are_applied_together_with_the_step(
    jobs: QueueManager, name: str
) -> None:
    @jobs.processor(name, name="push")
    async def push(job: Job[None]) -> str:
        job.transaction().push(f"{name}-out", {"data": "effect"})
        return "pushed"

    @jobs.processor(name, name="give-up")
    async def give_up(job: Job[None]) -> None:
        job.transaction().push(f"{name}-out", {"data": "never"})
        raise DeadLetter("no")

    flow = Workflow(name=name).step("a", name, "push").step("b", name, "give-up", after=["a"])
    await jobs.start_workers()

    run = await (await jobs.execute_workflow(flow)).wait(timeout="20s")

    assert run.state == "failed"
    messages = await jobs.queen.queue(f"{name}-out").batch(10).pop()
    assert [message.data for message in messages] == ["effect"]
