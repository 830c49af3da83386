"""A saga: if a booking of a trip fails, the earlier bookings are cancelled, last one first."""

import asyncio

from queen import Queen
from queen.jobs import DeadLetter, Job, QueueManager, Step, Workflow

jobs = QueueManager(Queen.from_env())
booked: list[str] = []


@jobs.processor("bookings", name="book")
async def book(job: Job[str]) -> dict[str, str]:
    booked.append(job.data)
    return {"booking": f"{job.data}-1"}


@jobs.processor("bookings", name="give-back")
async def give_back(job: Job[str]) -> None:
    # A compensation gets the result of the step that it undoes.
    assert job.workflow is not None
    assert job.workflow.result_of(job.data) == {"booking": f"{job.data}-1"}
    assert booked.pop() == job.data, "last first"


@jobs.processor("bookings", name="refuse")
async def refuse(job: Job[None]) -> None:
    raise DeadLetter("no car left")


async def main() -> None:
    def undo(what: str) -> Step:
        return Step("bookings", "give-back", what)

    flow = (
        Workflow(name="journey", metadata={"tags": ["saga"]})
        .step("flight", "bookings", "book", "flight", compensate=undo("flight"))
        .step("hotel", "bookings", "book", "hotel", after=["flight"], compensate=undo("hotel"))
        .step("car", "bookings", "refuse", after=["hotel"], compensate=undo("car"))
    )
    async with jobs.queen:
        await jobs.start_workers()
        run = await (await jobs.execute_workflow(flow)).wait(timeout="30s")

        assert run.state == "failed"
        assert "no car left" in (run.error or "")
        assert booked == []
        undone = {step.undoes: step.state for step in run.steps if step.kind == "undo"}
        assert undone == {"flight": "completed", "hotel": "completed", "car": "skipped"}
        print(run.error, "and undone:", undone)
        await jobs.shutdown()


asyncio.run(main())
