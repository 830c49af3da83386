"""A process that runs steps of workflows until it is killed: pop, run, settle in a transaction."""

import asyncio
import contextlib
import sys
from typing import Any

import msgspec

from queen import Message, Queen, errors
from queen.wire.workflows import WorkflowPlace


class Payload(msgspec.Struct):
    """What the processors here look at."""

    name: str
    workflow: WorkflowPlace
    data: Any = None


def process(job: Payload) -> object:
    """What each job of the tests comes to."""
    if job.name == "split":
        return list(range(job.data))
    if job.name == "square":
        return job.data**2
    if job.name == "sum":
        return sum(job.workflow.result_of("squares"))
    return sorted(job.workflow.results)


async def settle(queen: Queen, message: Message) -> None:
    job = msgspec.json.decode(message.raw, type=Payload)
    result = msgspec.json.encode(process(job))
    step = job.workflow.advance("success", result=result, attempt=message.attempt)
    # Whoever was too slow, or met a server that died, has done nothing: it comes again.
    with contextlib.suppress(errors.LeaseLost, errors.OutcomeUnknown):
        await queen.transaction().ack(message).advance(step).commit()


async def main(url: str, queue: str) -> None:
    async with Queen(url, retry_delay_millis=50) as queen:
        wanted = queen.queue(queue).batch(4).wait(True).timeout_millis(1_000)
        while True:
            try:
                for message in await wanted.pop():
                    await settle(queen, message)
            except errors.QueenError:
                await asyncio.sleep(0.1)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
