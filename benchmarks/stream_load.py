"""
The open loop of the HTTP benchmark through the SDK, which uses a stream, in its own process.

Usage::

    python -m benchmarks.stream_load '{"type": "Open", …}'

The last line of output is one JSON object.
"""

import asyncio
import contextlib
import gc
import json
import sys
import time
from typing import Any, Final

import msgspec
import uvloop

from benchmarks.http_load import Open, latencies
from queen import Message, Queen

_DRAIN_SECONDS: Final = 5.0


async def open_loop(task: Open) -> dict[str, object]:
    """Push on a schedule. Latency counts from the time when a message was due."""
    count = int(task.rate * task.seconds)
    arrived: list[float | None] = [None] * count
    failed = 0
    missing = count
    has_arrived = asyncio.Event()
    pushes: set[asyncio.Task[None]] = set()

    async def handle(message: Message[Any]) -> None:
        nonlocal missing
        number = message.data["n"]
        if arrived[number] is None:
            arrived[number] = time.perf_counter()
            missing -= 1
            if not missing:
                has_arrived.set()

    async with Queen(f"http://127.0.0.1:{task.port}") as queen:
        queue = queen.queue(task.queue)
        partitions = [queue.partition(f"p{number}") for number in range(task.partitions)]

        async def push(number: int) -> None:
            nonlocal failed
            try:
                await partitions[number % task.partitions].push([{"data": {"n": number}}])
            except Exception as error:
                failed += 1
                print(error, file=sys.stderr)

        gc.disable()
        consuming = asyncio.create_task(queue.concurrency(task.consuming).consume(handle))
        started = time.perf_counter() + 0.2
        for number in range(count):
            at = started + number / task.rate
            if (wait := at - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            pushes.add(pushing := asyncio.create_task(push(number)))
            pushing.add_done_callback(pushes.discard)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(has_arrived.wait(), _DRAIN_SECONDS)
        end = time.perf_counter()
        consuming.cancel()
        await asyncio.gather(consuming, *pushes, return_exceptions=True)
    return latencies(arrived, started, end, task.rate, failed)


async def main() -> None:
    task = msgspec.json.decode(sys.argv[1], type=Open)
    imports = time.process_time()
    said = await open_loop(task)
    used = time.process_time() - imports
    print(json.dumps({**said, "client_cpu_seconds": round(used, 2)}), flush=True)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
