"""Management snippets of the original client's documentation."""

from typing import Any

import pytest

from queen import Message, NotFound, Queen
from tests.support.server import Server


async def test_a_queue_is_deleted(queen: Queen) -> None:
    await queen.queue("my-queue").push([{"data": 1}])
    await queen.queue("my-queue").delete()

    with pytest.raises(NotFound):
        await queen.queue("my-queue").pop()


async def test_dead_letters_are_listed(queen: Queen) -> None:
    risky = queen.queue("risky")
    await risky.config({"retryLimit": 0, "dlqAfterMaxRetries": True}).create()
    await risky.push([{"data": {"n": 1}}])

    async def fail(message: Message[Any]) -> None:
        raise ValueError("no good")

    await risky.limit(1).consume(fail)
    dlq = await risky.dlq().limit(10).get()

    assert [letter.get("errorMessage") for letter in dlq["messages"]] == ["ValueError: no good"]
    assert dlq["total"] == 1


async def test_traces_are_recorded(queen: Queen, server: Server) -> None:
    orders = queen.queue("orders")
    await orders.push([{"data": {"orderId": 7}}])

    async def handler(message: Message[Any]) -> None:
        await message["trace"](
            {
                "traceName": f"order-{message['data']['orderId']}",
                "eventType": "info",
                "data": {"text": "Order processing started"},
            }
        )

    await orders.limit(1).consume(handler)
    reply = await server.get("/traces/by-name/order-7")

    assert reply.status == 200
    assert "Order processing started" in str(reply.body)
