"""Workflows on the engine: messages are delivered, run, and settled with their steps."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import asyncpg
import msgspec
import pytest

from queen import errors
from queen.engine.engine import Engine
from queen.engine.pop.delivery import Delivery
from queen.engine.upkeep.loop import Upkeep
from queen.jobs.workflows.definition import Step, Workflow
from queen.settings import Settings
from queen.store.connection.database import Record
from queen.wire.messages import PopRequest
from queen.wire.workflow_plan import plan_of
from queen.wire.workflows import WorkflowPlace
from tests.engine.helpers import delete_queue, extend, lease, purge, says, until
from tests.support.clock import Clock

Handler = Callable[[Any, WorkflowPlace], Any]


class Envelope(msgspec.Struct):
    """The fields of a message that the tests read."""

    name: str
    workflow: WorkflowPlace
    data: Any = None


class Failure(Exception):
    """The failure of a handler."""


class Worker:
    """A minimal worker: runs the messages, and settles each one with its step."""

    def __init__(self, engine: Engine, *queues: str) -> None:
        self.engine = engine
        self.queues = queues or ("work",)
        self.handlers: dict[str, Handler] = {}
        self.ran: list[tuple[str, Any]] = []

    async def take(self, queue: str = "work", *, is_waiting: bool = True) -> Delivery | None:
        request = PopRequest(queue=queue, wait=is_waiting, timeout_seconds=5)
        deliveries = await self.engine.pop(request)
        return deliveries[0] if deliveries else None

    async def settle(self, delivery: Delivery) -> list[bool]:
        (payload,) = delivery.payloads()
        envelope = msgspec.json.decode(bytes(payload), type=Envelope)
        place = envelope.workflow
        self.ran.append((place.step, envelope.data if place.part is None else place.part))
        handler = self.handlers.get(envelope.name, lambda data, place: data)
        try:
            result = msgspec.json.encode(handler(envelope.data, place))
            operation = place.advance("success", result=result, attempt=delivery.attempt)
            ack = says(delivery, delivery.offsets[0], "completed")
        except Failure as error:
            operation = place.advance("failure", error=str(error), attempt=delivery.attempt)
            ack = says(delivery, delivery.offsets[0], "dlq", error=str(error))
        found = await self.engine.transact(acknowledgments=[ack], advances=[operation])
        return [number not in found.stale_advances for number in range(1)]

    async def run(self, id_: str, seconds: float = 20) -> Record:
        """Work until the workflow has ended."""
        async with asyncio.timeout(seconds):
            while (row := await self.engine.workflows.one(id_))["ended_at"] is None:
                for queue in self.queues:
                    delivery = await self.take(queue, is_waiting=False)
                    if delivery is not None:
                        await self.settle(delivery)
                await asyncio.sleep(0)
        return row


@pytest.fixture
async def worker(engine: Engine) -> Worker:
    await engine.queues.configure("work", {"ordered": False})
    return Worker(engine)


@pytest.fixture
async def connection(dsn: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    connection = await asyncpg.connect(dsn)
    yield connection
    await connection.close()


async def start(engine: Engine, flow: Workflow) -> str:
    request = flow.request()
    id_, _ = await engine.workflows.start(request.id, plan_of(request))
    return id_


async def states(engine: Engine, id_: str) -> dict[str, str]:
    return {row["name"]: row["state"] for row in await engine.store.workflows.steps(id_)}


def fail(data: object, place: WorkflowPlace) -> None:
    raise Failure("boom")


FLOW = Workflow(name="test")


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
        await engine.workflows.signal("nobody", "stop", "success", None)


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


async def look(engine: Engine) -> None:
    await Upkeep(engine.core, Settings()).look()


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


async def test_queues_that_cannot_run_jobs_are_rejected(engine: Engine, worker: Worker) -> None:
    await engine.queues.configure("ordered")

    with pytest.raises(errors.QueueNotFound, match="nowhere"):
        await start(engine, FLOW.step("a", "nowhere", "a"))
    with pytest.raises(errors.InvalidWorkflow, match="ordered"):
        await start(engine, FLOW.step("a", "ordered", "a"))


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
