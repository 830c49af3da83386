"""Messages of one customer are handled in order, those of different customers concurrently."""

import asyncio
from collections import defaultdict

from queen import Message, Queen


async def main() -> None:
    seen: dict[str, list[int]] = defaultdict(list)
    async with Queen.from_env() as queen:
        events = queen.queue("customer-events")
        for step in range(5):
            for customer in ("ann", "bob", "cem"):
                await events.partition(customer).push([{"data": step}])

        async def handle(message: Message) -> None:
            seen[message.partition].append(message.data)

        await events.concurrency(3).limit(15).consume(handle)

    assert all(steps == [0, 1, 2, 3, 4] for steps in seen.values())
    print(dict(seen))


asyncio.run(main())
