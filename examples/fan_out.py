"""Each consumer group gets every message. In a group, one consumer gets it."""

import asyncio

from queen import Message, Queen


async def main() -> None:
    seen: dict[str, list[str]] = {"billing": [], "mails": []}
    async with Queen.from_env() as queen:
        orders = queen.queue("orders-for-all")
        await orders.push([{"data": name} for name in ("chair", "table")])
        for group, names in seen.items():

            async def handle(message: Message, names: list[str] = names) -> None:
                names.append(message.data)

            await orders.group(group).limit(2).consume(handle)

    assert seen == {"billing": ["chair", "table"], "mails": ["chair", "table"]}
    print(seen)


asyncio.run(main())
