"""A saga: what a journey has booked is given back, last first, when a later booking fails."""

import asyncio

from worker_loop import working

from queen import Queen
from queen.jobs import Step, Workflow, execute_workflow
from queen.wire.workflows import WorkflowPlace

booked: list[str] = []


def book(what: str, place: WorkflowPlace) -> dict[str, str]:
    booked.append(what)
    return {"booking": f"{what}-1"}


def give_back(what: str, place: WorkflowPlace) -> None:
    # What undoes a step is given the step's result.
    assert place.result_of(what) == {"booking": f"{what}-1"}
    assert booked.pop() == what, "last first"


def refuse(data: None, place: WorkflowPlace) -> None:
    raise RuntimeError("no car left")


async def main() -> None:
    def undo(what: str) -> Step:
        return Step("bookings", "give-back", what)

    flow = (
        Workflow(name="journey", metadata={"tags": ["saga"]})
        .step("flight", "bookings", "book", "flight", compensate=undo("flight"))
        .step("hotel", "bookings", "book", "hotel", after=["flight"], compensate=undo("hotel"))
        .step("car", "bookings", "refuse", after=["hotel"], compensate=undo("car"))
    )
    processors = {"book": book, "give-back": give_back, "refuse": refuse}
    async with Queen.from_env() as queen, working(queen, processors, "bookings"):
        run = await (await execute_workflow(queen, flow)).wait(timeout="30s")

        assert (run.state, run.error) == ("failed", "car: no car left")
        assert booked == []
        undone = {step.undoes: step.state for step in run.steps if step.kind == "undo"}
        assert undone == {"flight": "completed", "hotel": "completed", "car": "skipped"}
        print(run.state, "and undone:", undone)


asyncio.run(main())
