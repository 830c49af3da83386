"""Traffic to look at: orders that mostly succeed, sometimes fail, and now and then give up."""

import asyncio
import contextlib
import logging
import random
from typing import Any, Final

from queen import DeadLetter, Message, Queen, errors

QUEUE: Final = "demo.orders"
_PAUSE_SECONDS: Final = 0.2
_CUSTOMERS: Final = 5


async def traffic(url: str) -> None:
    """Push and consume until cancelled, or until the server is gone."""
    # Its failures are meant, and would fill the screen of `queen dev`.
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
            consumption = orders.group("billing").concurrency(2).start(bill)
            try:
                for number in range(2**62):
                    customer = f"customer-{chance.randrange(_CUSTOMERS)}"
                    data = {"order": number, "total": chance.randrange(1, 100)}
                    await orders.partition(customer).push([{"data": data}])
                    await asyncio.sleep(_PAUSE_SECONDS)
            finally:
                await consumption.stop()
