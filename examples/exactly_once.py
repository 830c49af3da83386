"""A pipeline step with exactly one effect: its ack and its push are one transaction."""

import asyncio

from queen import Message, Queen


async def main() -> None:
    async with Queen.from_env() as queen:
        raw, priced = queen.queue("raw"), queen.queue("priced")
        order = {"transactionId": "order-1", "data": {"amount": 2, "price": 21}}
        await raw.push([order])
        (again,) = await raw.push([order])  # As if the first response was lost.
        assert again.status == "duplicate"

        async def price(message: Message) -> None:
            total = message.data["amount"] * message.data["price"]
            await (
                queen.transaction()
                .ack(message)
                .queue("priced")
                .push([{"data": {"total": total}}])
                .commit()
            )

        await raw.limit(1).consume(price)
        results = await priced.batch(10).pop()

    assert [message.data for message in results] == [{"total": 42}]
    print(results[0].data)


asyncio.run(main())
