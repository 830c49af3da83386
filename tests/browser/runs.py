"""Runs of workflows, each in a different state."""

import contextlib
from collections.abc import Mapping
from typing import Final

import msgspec

from queen import Queen, errors
from queen.jobs import Step, Workflow, execute_workflow
from queen.wire.transactions import AdvanceOperation

QUEUE: Final = "demo.trips"
_WAIT_MILLIS: Final = 5_000
_PARTS: Final = 12


async def runs(queen: Queen) -> None:
    """Start missing runs, and process each up to its intended state."""
    await queen.queue(QUEUE).config({"ordered": False}).create()
    # A pending message would be mixed up with the next run, so the unfinished run is last.
    await _run(queen, _trip("demo-trip-1"), {})
    await _run(queen, _trip("demo-trip-2"), {"car": "no car is left"})
    await _run(queen, _refund(), {"transfer": "ConnectionError: the bank does not answer"})
    await _run(queen, _offer("demo-offer-1"), {})
    await _run(queen, _offer("demo-offer-2"), {}, cancelled="withdrawn by the customer")
    await _run(queen, _import(), {"load/3": "ValueError: row 3 has no date"}, most=_PARTS - 2)


def _trip(id_: str) -> Workflow:
    def undo(what: str) -> Step:
        return Step(QUEUE, "give-back", {"booking": what})

    return (
        Workflow(name="trip", id=id_, metadata={"correlationId": "customer-7", "tags": ["saga"]})
        .step("flight", QUEUE, "book", {"what": "flight"}, compensate=undo("flight"))
        .step("hotel", QUEUE, "book", {"what": "hotel"}, after=["flight"], compensate=undo("hotel"))
        .step("car", QUEUE, "book", {"what": "car"}, after=["flight"])
        .step("pay", QUEUE, "pay", after=["hotel", "car"])
    )


def _refund() -> Workflow:
    return (
        Workflow(name="refund", id="demo-refund-1", metadata={"tags": ["money"]})
        .step("check", QUEUE, "check")
        .step("transfer", QUEUE, "transfer", after=["check"])
        .step("tell", QUEUE, "tell-customer", after=["transfer"])
    )


def _offer(id_: str) -> Workflow:
    return (
        Workflow(name="offer", id=id_, metadata={"correlationId": id_, "tags": ["sales"]})
        .step("draft", QUEUE, "draft")
        .wait_for("approve", timeout="2d", after=["draft"], on_failure=["revise"])
        .step("send", QUEUE, "send", after=["approve"])
        .step("revise", QUEUE, "revise")
    )


def _import() -> Workflow:
    rows = [{"row": number} for number in range(_PARTS)]
    return (
        Workflow(name="import", id="demo-import-1", metadata={"tags": ["nightly", "data"]})
        .map("load", QUEUE, "load-row", over=rows, on_failure=["report"])
        .step("index", QUEUE, "index", after=["load"])
        .step("report", QUEUE, "report-failure")
    )


async def _run(
    queen: Queen,
    workflow: Workflow,
    failures: Mapping[str, str],
    *,
    most: int = 20,
    cancelled: str | None = None,
) -> None:
    with contextlib.suppress(errors.WorkflowExists):
        handle = await execute_workflow(queen, workflow)
        for _ in range(most if handle.is_new else 0):
            if all(step.state != "active" for step in (await handle.status()).steps):
                break
            await _work(queen, failures)
        if handle.is_new and cancelled is not None:
            await handle.cancel(cancelled)


async def _work(queen: Queen, failures: Mapping[str, str]) -> None:
    """Run a job. It fails if there is an error for its step, or for a part of that step."""
    for message in await queen.queue(QUEUE).wait(True).timeout_millis(_WAIT_MILLIS).pop():
        ours = message.data["workflow"]
        part = ours.get("part")
        error = failures.get(ours["step"] if part is None else f"{ours['step']}/{part}")
        step = AdvanceOperation(
            workflow=ours["id"],
            step=ours["step"],
            token=ours["token"],
            part=part,
            outcome="success" if error is None else "failure",
            result=msgspec.Raw(b'{"done":true}') if error is None else msgspec.UNSET,
            error=error,
            attempt=message.attempt,
        )
        acked = queen.transaction().ack(message, error is None or "dlq", {"error": error})
        await acked.advance(step).commit()
