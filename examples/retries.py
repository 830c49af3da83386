"""Failed messages are retried with backoff. Permanent failures are dead-lettered and redriven."""

import asyncio

from queen import DeadLetter, Message, Queen


async def main() -> None:
    attempts: list[tuple[str, int]] = []
    is_fixed = False
    async with Queen.from_env() as queen:
        risky = queen.queue("risky")
        await risky.config({"retryLimit": 2, "retryDelay": 10}).create()
        await risky.push([{"data": "flaky"}, {"data": "hopeless"}])

        async def handle(message: Message) -> None:
            attempts.append((message.data, message.attempt))
            if message.data == "flaky" and message.attempt == 1:
                raise ConnectionError("try me again")
            if message.data == "hopeless" and not is_fixed:
                raise DeadLetter("this will never work")

        await risky.limit(3).consume(handle)
        letters = await risky.dlq().get()
        assert [each["errorMessage"] for each in letters["messages"]] == ["this will never work"]

        is_fixed = True
        await risky.dlq().redrive()
        await risky.limit(1).consume(handle)
        assert (await risky.dlq().get())["messages"] == []

    assert attempts == [("flaky", 1), ("flaky", 2), ("hopeless", 1), ("hopeless", 1)]
    print(attempts)


asyncio.run(main())
