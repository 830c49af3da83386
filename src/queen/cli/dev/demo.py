"""Demo traffic: orders that mostly succeed, sometimes fail, and rarely become dead letters."""

import asyncio
import contextlib
import logging
import random
from typing import Any, Final

from queen import DeadLetter, Message, Queen, errors
from queen.cli.dev.demo_runs import runs

QUEUE: Final = "demo.orders"
_PAUSE_SECONDS: Final = 0.2
_CUSTOMERS: Final = 5


async def scenes(queen: Queen) -> None:
    """Create queues that make no progress, each for another reason, for the operator to find."""
    paused = queen.queue("demo.emails").config({"paused": True})
    await paused.create()
    await paused.push([{"data": {"to": "a@b.c", "template": "welcome"}}] * 3)
    await queen.queue("demo.reports").push([{"data": {"month": month}} for month in range(1, 6)])
    await _poison(queen)
    limited = queen.queue("demo.sms").config({"rateLimit": {"max": 1, "durationMillis": 600_000}})
    await limited.create()
    await limited.push([{"data": {"to": f"+39 {number}"}} for number in range(4)])
    for message in await limited.group("carrier").pop():
        await queen.ack(message, True, {"group": "carrier"})
    held = queen.queue("demo.exports").config({"leaseTime": 3600})
    await held.create()
    await held.partition("eu").push([{"data": {"file": f"{number}.csv"}} for number in range(6)])
    await held.group("exporter").batch(2).pop()
    await runs(queen)


async def _poison(queen: Queen) -> None:
    """Push a message that fails and so blocks its partition."""
    payments = queen.queue("demo.payments").config(
        {"retryDelay": 3_600_000, "maxRetryDelay": 86_400_000, "retryLimit": 10}
    )
    await payments.create()
    await payments.partition("card-7").push([{"data": {"amount": 12}}, {"data": {"amount": 30}}])
    for message in await payments.group("ledger").pop():
        why = "ValueError: the currency is missing"
        await queen.ack(message, False, {"error": why, "group": "ledger"})


async def traffic(url: str) -> None:
    """Push and consume until cancelled, or until the server stops."""
    # The failures are intended, and would fill the screen of `queen dev`.
    logging.getLogger("queen.client").setLevel(logging.CRITICAL)
    chance = random.Random(7)

    async def bill(message: Message[Any]) -> None:
        await asyncio.sleep(chance.uniform(0, 0.1))
        if chance.random() < 0.02:
            raise DeadLetter("the card is stolen")
        if chance.random() < 0.1:
            raise ConnectionError("the bank does not answer")

    with contextlib.suppress(errors.ServerUnreachable):
        async with Queen(url, retry_attempts=1, shutdown_timeout=0.5) as queen:
            orders = queen.queue(QUEUE).config({"retryLimit": 2, "retryDelay": 1000})
            await orders.create()
            await scenes(queen)
            consumption = orders.group("billing").concurrency(2).start(bill)
            try:
                for number in range(2**62):
                    customer = f"customer-{chance.randrange(_CUSTOMERS)}"
                    data = {"order": number, "total": chance.randrange(1, 100)}
                    await orders.partition(customer).push([{"data": data}])
                    await asyncio.sleep(_PAUSE_SECONDS)
            finally:
                await consumption.stop()
