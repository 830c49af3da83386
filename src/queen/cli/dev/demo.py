"""The demo of `queen dev --demo`: an online shop with thousands of messages per second."""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable
from typing import Any, Final

from queen import DeadLetter, Message, Queen, errors
from queen.cli.dev.demo_history import write_history
from queen.cli.dev.demo_jobs import DemoJobs
from queen.cli.dev.demo_streams import EMAILS, MESSAGES, PAYMENTS, Stream
from queen.client.consume.consumer import Consumption

_TICK_SECONDS: Final = 0.25
_MOST_BEHIND_SECONDS: Final = 2.0
"""A machine that is too slow for the load pushes less instead of catching up."""
_TRIP_SECONDS: Final = 10
_BATCH: Final = 500
_FIRST_DEAD_LETTERS: Final = 5
_STOLEN_EVERY: Final = 2500
"""Payments per dead letter."""


async def run(url: str, dsn: str, ready: Callable[[], None], *, is_pooled: bool = False) -> None:
    """Prepare the demo, call ``ready``, and create load until cancelled."""
    # The failures are intended, and would fill the screen of `queen dev`.
    for name in ("queen.client", "queen.jobs"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with contextlib.suppress(errors.ServerUnreachable):
        async with Queen(url, retry_attempts=1, shutdown_timeout=0.5) as queen:
            demo = _Demo(queen)
            try:
                await demo.prepare(dsn, is_pooled=is_pooled)
                ready()
                await demo.create_load()
            finally:
                await demo.stop()


class _Demo:
    """The producers and consumers of the shop."""

    def __init__(self, queen: Queen) -> None:
        self._queen = queen
        self._jobs = DemoJobs(queen)
        self._chance = random.Random(7)
        self._numbers = {stream.queue: 0 for stream in MESSAGES}
        self._consumptions: list[Consumption] = []

    async def prepare(self, dsn: str, *, is_pooled: bool) -> None:
        """Create the queues and groups, dead letters, workflow runs and the history."""
        for stream in MESSAGES:
            queue = self._queen.queue(stream.queue).namespace("demo").task(stream.task)
            await queue.config(stream.options()).create()
            for group in stream.groups:
                # The first pop creates the group, which the history needs.
                await queue.group(group).auto_ack(True).pop()
        await self._fail_payments()
        await self._jobs.start()
        await self._jobs.add_emails(1)
        await self._jobs.book_first_trips()
        await write_history(dsn, is_pooled=is_pooled)

    async def _fail_payments(self) -> None:
        """Push payments that become dead letters: the one queue that needs attention."""
        payments = self._queen.queue(PAYMENTS.queue)
        if (await payments.dlq().limit(1).get())["messages"]:
            return  # Of an earlier demo.
        items = [{"data": {"payment": -each, "amount": 99}} for each in range(_FIRST_DEAD_LETTERS)]
        await payments.partition("card-0").push(items)
        group = PAYMENTS.groups[0]
        for message in await payments.partition("card-0").group(group).batch(len(items)).pop():
            await self._queen.ack(message, "dlq", {"error": "the card is stolen", "group": group})

    async def create_load(self) -> None:
        """Push along the curves of the streams, and consume. Failed calls are left out."""
        for stream in MESSAGES:
            queue = self._queen.queue(stream.queue).partitions(stream.keys)
            for group in stream.groups:
                self._consumptions.append(self._consume(stream, queue.group(group)))
        async with asyncio.TaskGroup() as tasks:
            for stream in MESSAGES:
                tasks.create_task(self._push(stream))
            tasks.create_task(self._add_emails())
            tasks.create_task(self._book_trips())

    def _consume(self, stream: Stream, queue: Any) -> Consumption:  # noqa: ANN401 - a Queue
        if stream is PAYMENTS:
            return queue.batch(20).each().concurrency(4).start(self._settle_payment)

        async def handle(messages: list[Message[Any]]) -> None:
            await self._work(stream)

        return queue.batch(_BATCH).start(handle)

    async def _settle_payment(self, message: Message[Any]) -> None:
        await self._work(PAYMENTS)
        number = message.data["payment"]
        if number % _STOLEN_EVERY == 1:
            raise DeadLetter("the card is stolen")
        if message.attempt == 1 and number % round(1 / PAYMENTS.failures) == 2:
            raise ConnectionError("the bank does not respond")

    async def _work(self, stream: Stream) -> None:
        await asyncio.sleep(self._chance.uniform(0.5, 1.5) * stream.work_seconds)

    async def _push(self, stream: Stream) -> None:
        """Push as many messages as the curve demands since the last push."""
        pushed_at = time.time()
        owed = 0.0
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            now = time.time()
            owed += stream.rate_at(now) * min(now - pushed_at, _MOST_BEHIND_SECONDS)
            pushed_at = now
            if count := int(owed):
                owed -= count
                with contextlib.suppress(errors.QueenError):
                    await self._queen.push([self._item(stream) for _ in range(count)])

    def _item(self, stream: Stream) -> dict[str, Any]:
        self._numbers[stream.queue] += 1
        number = self._numbers[stream.queue]
        noun = stream.queue.removeprefix("demo.").removesuffix("s")
        return {
            "queue": stream.queue,
            "partition": f"{stream.key}-{self._chance.randrange(stream.keys)}",
            "data": {noun: number, "amount": self._chance.randrange(1, 500)},
        }

    async def _add_emails(self) -> None:
        while True:
            with contextlib.suppress(errors.QueenError):
                await self._jobs.add_emails(round(EMAILS.rate_at(time.time())))
            await asyncio.sleep(1)

    async def _book_trips(self) -> None:
        while True:
            with contextlib.suppress(errors.QueenError):
                await self._jobs.book_trip()
            await asyncio.sleep(_TRIP_SECONDS)

    async def stop(self) -> None:
        await asyncio.gather(
            self._jobs.stop(), *(each.stop() for each in self._consumptions), return_exceptions=True
        )
