"""A worker that runs the steps of workflows."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from queen.engine.engine import Engine
from queen.engine.pop.delivery import Delivery
from queen.engine.upkeep.loop import Upkeep
from queen.jobs.workflows.definition import Workflow
from queen.settings import Settings
from queen.store.connection.database import Record
from queen.wire.messages import PopRequest
from queen.wire.workflow_plan import plan_of
from queen.wire.workflows import WorkflowPlace
from tests.engine.helpers import says

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


async def start(engine: Engine, flow: Workflow) -> str:
    request = flow.request()
    id_, _ = await engine.workflows.start(request.id, plan_of(request))
    return id_


async def states(engine: Engine, id_: str) -> dict[str, str]:
    return {row["name"]: row["state"] for row in await engine.store.workflows.steps(id_)}


def fail(data: object, place: WorkflowPlace) -> None:
    raise Failure("boom")


FLOW = Workflow(name="test")


async def look(engine: Engine) -> None:
    await Upkeep(engine.core, Settings()).look()
