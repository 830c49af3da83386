"""Workflows on the engine: messages are delivered, run, and settled with their steps."""

import asyncio
from typing import Any

import msgspec
import pytest

from queen import errors
from queen.engine.engine import Engine
from queen.jobs.workflows.definition import Step
from queen.settings import Settings
from tests.engine.helpers import lease, says, until
from tests.engine.sources.workflows.worker import FLOW, Envelope, Worker, fail, start, states


async def test_a_fan_out_is_counted_and_summed(engine: Engine, worker: Worker) -> None:
    flow = (
        FLOW.step("split", "work", "split", "a bb ccc")
        .map("count", "work", "count", over="split")
        .step("sum", "work", "sum", after=["count"])
    )
    worker.handlers = {
        "split": lambda data, place: data.split(),
        "count": lambda data, place: len(data),
        "sum": lambda data, place: sum(msgspec.json.decode(place.results["count"])),
    }

    row = await worker.run(await start(engine, flow))

    assert row["state"] == "completed"
    assert msgspec.json.decode(row["result"]) == {"sum": 6}
    assert [step for step, _ in worker.ran].count("sum") == 1
    assert worker.ran[-1][0] == "sum"


async def test_results_are_passed_on_byte_for_byte(engine: Engine, worker: Worker) -> None:
    big = 123456789012345678901234567890
    flow = FLOW.step("a", "work", "a", big).step("b", "work", "b", after=["a"])
    seen: list[bytes] = []
    worker.handlers = {"b": lambda data, place: seen.append(bytes(place.results["a"]))}
    id_ = await start(engine, flow)
    delivery = await worker.take()
    assert delivery is not None
    place = msgspec.json.decode(bytes(delivery.payloads()[0]), type=Envelope).workflow
    text = b'{"z": 123456789012345678901234567890,  "a":null,"u":"\\u0000\xc3\xa9"}'

    await engine.transact(
        acknowledgments=[says(delivery, 0, "completed")],
        advances=[place.advance("success", result=text)],
    )
    await worker.run(id_)

    assert seen == [text]


async def test_a_failure_takes_the_failure_branch(engine: Engine, worker: Worker) -> None:
    flow = FLOW.step("a", "work", "bad", on_success=["b"], on_failure=["alert"])
    flow = flow.step("b", "work", "b").step("alert", "work", "alert")
    told: list[dict[str, str]] = []
    worker.handlers = {"bad": fail, "alert": lambda data, place: told.append(place.errors)}

    row = await worker.run(id_ := await start(engine, flow))

    assert row["state"] == "completed"
    assert told == [{"a": "boom"}]
    assert await states(engine, id_) == {"a": "failed", "b": "skipped", "alert": "completed"}


async def test_completed_steps_are_compensated_in_reverse_order(
    engine: Engine, worker: Worker
) -> None:
    def undo(name: str) -> Step:
        return Step("work", f"un{name}")

    flow = FLOW.step("flight", "work", "book", 1, compensate=undo("flight"))
    flow = flow.step("hotel", "work", "book", 2, after=["flight"], compensate=undo("hotel"))
    flow = flow.step("car", "work", "bad", after=["hotel"], compensate=undo("car"))
    undone: list[Any] = []
    worker.handlers = {
        "bad": fail,
        "unflight": lambda data, place: undone.append(dict(place.results)),
        "unhotel": lambda data, place: undone.append(dict(place.results)),
    }

    row = await worker.run(id_ := await start(engine, flow))

    assert (row["state"], row["error"]) == ("failed", "car: boom")
    assert [list(each) for each in undone] == [["hotel"], ["flight"]]
    found = await states(engine, id_)
    assert (found["hotel:undo"], found["car:undo"]) == ("completed", "skipped")


async def test_a_repeated_transaction_starts_no_step_twice(engine: Engine, worker: Worker) -> None:
    id_ = await start(engine, FLOW.step("a", "work", "a").step("b", "work", "b", after=["a"]))
    delivery = await worker.take()
    assert delivery is not None
    place = msgspec.json.decode(bytes(delivery.payloads()[0]), type=Envelope).workflow
    acks = [says(delivery, 0, "completed")]
    operations = [place.advance("success", result=b"1")]

    first = await engine.transact(
        acknowledgments=acks, advances=operations, producer_id="w", sequence=1
    )
    again = await engine.transact(
        acknowledgments=acks, advances=operations, producer_id="w", sequence=1
    )
    with pytest.raises(errors.LeaseLost):
        await engine.transact(acknowledgments=acks, advances=operations)

    assert (first.is_replayed, again.is_replayed) == (False, True)
    await worker.run(id_)
    assert [step for step, _ in worker.ran] == ["b"]


async def test_a_lost_lease_settles_neither_message_nor_step(
    engine: Engine, worker: Worker
) -> None:
    id_ = await start(engine, FLOW.step("a", "work", "a").step("b", "work", "b", after=["a"]))
    delivery = await worker.take()
    assert delivery is not None
    await engine.release(lease(delivery))

    with pytest.raises(errors.LeaseLost):
        await worker.settle(delivery)

    assert await states(engine, id_) == {"a": "active", "b": "pending"}
    await worker.run(id_)
    assert [step for step, _ in worker.ran] == ["a", "a", "b"]


async def test_a_step_needs_the_ack_of_its_message(engine: Engine, worker: Worker) -> None:
    await start(engine, FLOW.step("a", "work", "a"))
    delivery = await worker.take()
    assert delivery is not None
    place = msgspec.json.decode(bytes(delivery.payloads()[0]), type=Envelope).workflow

    with pytest.raises(errors.BadRequest, match="the ack of its message"):
        await engine.transact(
            advances=[place.advance("success")], required_leases=[lease(delivery)]
        )


async def test_a_token_from_another_message_settles_no_step(engine: Engine, worker: Worker) -> None:
    one = await start(engine, FLOW.step("a", "work", "a"))
    other = await start(engine, FLOW.step("a", "work", "a").step("b", "work", "b"))
    delivery = await worker.take()
    assert delivery is not None
    place = msgspec.json.decode(bytes(delivery.payloads()[0]), type=Envelope).workflow
    assert place.id == one

    with pytest.raises(errors.BadRequest, match="not acknowledged in this transaction"):
        await engine.transact(
            acknowledgments=[says(delivery, 0, "completed")],
            advances=[msgspec.structs.replace(place, id=other).advance("success")],
        )

    assert await states(engine, one) == {"a": "active"}
    assert await states(engine, other) == {"a": "active", "b": "active"}


async def test_an_early_signal_is_stored(engine: Engine, worker: Worker) -> None:
    flow = (
        FLOW.step("a", "work", "a").wait_for("go", after=["a"]).step("b", "work", "b", after=["go"])
    )
    id_ = await start(engine, flow)

    assert await engine.workflows.signal(id_, "go", "success", b'{"by": "me"}') == 1
    assert await engine.workflows.signal(id_, "go", "success", b"2") == 0
    seen: list[bytes] = []
    worker.handlers = {"b": lambda data, place: seen.append(bytes(place.results["go"]))}

    row = await worker.run(id_)

    assert row["state"] == "completed"
    assert seen == [b'{"by": "me"}']


async def test_a_signal_without_a_matching_step_is_rejected(engine: Engine, worker: Worker) -> None:
    id_ = await start(engine, FLOW.step("a", "work", "a"))

    with pytest.raises(errors.NotFound, match="signal stop"):
        await engine.workflows.signal(id_, "stop", "success", None)
    with pytest.raises(errors.WorkflowNotFound):
        await engine.workflows.signal("missing", "stop", "success", None)


async def test_waiters_for_the_end_are_woken(patient: Engine, dsn: str) -> None:
    await patient.queues.configure("work", {"ordered": False})
    id_ = await start(patient, FLOW.wait_for("go"))
    waiting = asyncio.create_task(patient.workflows.waiters.wait(id_, 30))

    async def sleeps() -> bool:
        return patient.store.database.statements > 0 and not waiting.done()

    await until(sleeps)
    async with await Engine.open(dsn, settings=Settings(safety_poll_ms=600_000)) as other:
        # Another process ends the workflow, and notifies this one.
        await other.workflows.signal(id_, "go", "success", None)
        async with asyncio.timeout(4):
            await waiting


async def test_queues_that_cannot_run_jobs_are_rejected(engine: Engine, worker: Worker) -> None:
    await engine.queues.configure("ordered")

    with pytest.raises(errors.QueueNotFound, match="nowhere"):
        await start(engine, FLOW.step("a", "nowhere", "a"))
    with pytest.raises(errors.InvalidWorkflow, match="ordered"):
        await start(engine, FLOW.step("a", "ordered", "a"))
