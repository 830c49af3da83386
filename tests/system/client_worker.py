"""A process that produces or consumes with the SDK, and writes down what it did."""

import asyncio
import os
import signal
import sys
from typing import Any, Literal

import msgspec

from queen import Message, Queen


class Task(msgspec.Struct, kw_only=True):
    """What the process is to do."""

    role: Literal["producer", "buffering", "consumer", "slow"]
    urls: list[str]
    log: str
    """Lines are appended: ``+ n`` n is stored, ``h id`` handled, ``a id`` acked."""
    name: str = ""
    queue: str = "work"
    first: int = 0
    last: int = 0
    partitions: int = 50


class Log:
    """Each line is with the kernel when `write` returns: a kill loses none."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, *lines: str) -> None:
        os.write(self._file, "".join(f"{line}\n" for line in lines).encode())


async def produce(task: Task, log: Log) -> None:
    """Push numbers in order, 20 at a time; a SIGTERM ends it after the push under way."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with Queen(task.urls, retry_attempts=10, retry_delay_millis=200) as queen:
        log.write("ready")
        at = task.first
        while at < task.last and not stop.is_set():
            numbers = range(at, min(at + 20, task.last))
            partition = queen.queue(task.queue).partition(f"p{at // 20 % task.partitions}")
            if task.role == "buffering":
                partition = partition.buffer(message_count=500, time_millis=200)
            result = await partition.push(
                [{"data": n, "transactionId": f"{task.name}-{n}"} for n in numbers]
            )
            at = numbers[-1] + 1
            if result[0].status != "buffered":
                log.write(f"+ {at}")
            elif at % 2_000 == 0:
                await queen.flush_all_buffers()
                log.write(f"+ {at}")
    # What was buffered is stored when the client is closed.
    log.write(f"+ {at}")


async def consume(task: Task, log: Log) -> None:
    """Handle until SIGTERM; what is written down before the return is the work."""
    queen = Queen(task.urls, retry_attempts=10, retry_delay_millis=200)
    work = queen.queue(task.queue).batch(20).partitions(4).concurrency(4).renew_lease(True)

    def acked(messages: list[Message[Any]]) -> None:
        log.write(*(f"a {message.transaction_id}" for message in messages))

    @work.on_success(acked).handler
    async def handle(messages: list[Message[Any]]) -> None:
        log.write(*(f"h {message.transaction_id}" for message in messages))
        await asyncio.sleep(0.2)  # So that a kill meets work that is not acked.

    async with queen:
        log.write("ready")
        await queen.run(handle_signals=True)


async def consume_slowly(task: Task, log: Log) -> None:
    """Handlers that take a second each, and push what they made into a buffer that waits long."""
    queen = Queen(task.urls)

    @queen.queue(task.queue).batch(5).each().concurrency(2).handler
    async def handle(message: Message[Any]) -> None:
        log.write(f"h {message.transaction_id}")
        await asyncio.sleep(1)
        made = queen.queue("made").buffer(message_count=1_000, time_millis=600_000)
        await made.push({"data": message.data})
        log.write(f"a {message.transaction_id}")

    async with queen:
        log.write("ready")
        await queen.run(handle_signals=True)


def main() -> None:
    task = msgspec.json.decode(sys.argv[1], type=Task)
    roles = {
        "producer": produce,
        "buffering": produce,
        "consumer": consume,
        "slow": consume_slowly,
    }
    asyncio.run(roles[task.role](task, Log(task.log)))


if __name__ == "__main__":
    main()
