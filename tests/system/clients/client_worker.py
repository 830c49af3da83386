"""A process that produces or consumes with the SDK and logs its work."""

import asyncio
import os
import signal
import sys
from typing import Any, Literal

import msgspec

from queen import Message, Queen


class Task(msgspec.Struct, kw_only=True):
    """The task of the process."""

    role: Literal["producer", "buffering", "consumer", "slow"]
    urls: list[str]
    log: str
    """
    Path of the log. Its lines are ``+ n`` (n is stored), ``h id`` (handled), ``a id`` (acked).
    """
    name: str = ""
    queue: str = "work"
    first: int = 0
    last: int = 0
    partitions: int = 50


class Log:
    """A log that passes each line to the kernel, so that a kill loses none."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, *lines: str) -> None:
        os.write(self._file, "".join(f"{line}\n" for line in lines).encode())


async def produce(task: Task, log: Log) -> None:
    """Push numbers in order, 20 per request. SIGTERM ends it after the current push."""
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
    # Closing the client stores its buffer.
    log.write(f"+ {at}")


async def consume(task: Task, log: Log) -> None:
    """Handle messages until SIGTERM. The log lines before the return are the work."""
    queen = Queen(task.urls, retry_attempts=10, retry_delay_millis=200)
    work = queen.queue(task.queue).batch(20).partitions(4).concurrency(4).renew_lease(True)

    def acked(messages: list[Message[Any]]) -> None:
        log.write(*(f"a {message.transaction_id}" for message in messages))

    @work.on_success(acked).handler
    async def handle(messages: list[Message[Any]]) -> None:
        log.write(*(f"h {message.transaction_id}" for message in messages))
        await asyncio.sleep(0.2)  # A kill now hits work that is not acked.

    async with queen:
        log.write("ready")
        await queen.run(handle_signals=True)


async def consume_slowly(task: Task, log: Log) -> None:
    """Run handlers of one second each, which push to a buffer with a long wait."""
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
