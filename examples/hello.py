"""Push a message and consume it."""

import asyncio

from queen import Message, Queen


async def main() -> None:
    async with Queen.from_env() as queen:
        greetings = queen.queue("hello")
        await greetings.push([{"data": {"text": "hello"}}])

        async def greet(message: Message) -> None:
            print(message.data["text"], "from partition", message.partition)

        await greetings.limit(1).consume(greet)


asyncio.run(main())
