"""A handler that takes longer than its lease: the client renews the lease while it runs."""

import asyncio

from queen import Message, Queen


async def main() -> None:
    attempts: list[int] = []
    async with Queen.from_env() as queen:
        reports = queen.queue("reports")
        await reports.config({"leaseTime": 1}).create()
        await reports.push([{"data": "yearly"}])

        async def build(message: Message) -> None:
            attempts.append(message.attempt)
            await asyncio.sleep(2.5)

        await reports.renew_lease(True).limit(1).consume(build)
        assert await reports.pop() == []

    assert attempts == [1]
    print("built once")


asyncio.run(main())
