"""
A worker as small as can be: pop a job, run it, settle its message and its step in one transaction.

The examples of workflows run on it, and a worker in any other language is this loop over HTTP.
`queen.jobs` has one with attempts, backoff, leases that are renewed, and many jobs at once.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from queen import Message, Queen
from queen.wire.workflows import WorkflowPlace

Processor = Callable[[Any, WorkflowPlace], Any]


class StepOfWorkflow(msgspec.Struct):
    """The payload of a job that is a step."""

    name: str
    workflow: WorkflowPlace
    data: Any = None


async def settle(queen: Queen, message: Message, processors: Mapping[str, Processor]) -> None:
    job = msgspec.json.decode(message.raw, type=StepOfWorkflow)
    transaction = queen.transaction()
    try:
        result = processors[job.name](job.data, job.workflow)
    except Exception as error:
        transaction = transaction.ack(message, "dlq", {"error": str(error)})
        step = job.workflow.advance("failure", error=str(error), attempt=message.attempt)
    else:
        transaction = transaction.ack(message)
        sent = msgspec.json.encode(result)
        step = job.workflow.advance("success", result=sent, attempt=message.attempt)
    await transaction.advance(step).commit()


@asynccontextmanager
async def working(
    queen: Queen, processors: Mapping[str, Processor], *queues: str
) -> AsyncGenerator[None]:
    """Run what comes, one job after the other for each queue."""

    async def work(name: str) -> None:
        queue = queen.queue(name).wait(True).timeout_millis(1_000)
        while True:
            for message in await queue.pop():
                await settle(queen, message, processors)

    for name in queues:
        await queen.queue(name).config({"ordered": False}).create()
    tasks = [asyncio.create_task(work(name)) for name in queues]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    print(__doc__)
