"""Shortcuts for the setup of management tests."""

from typing import Any

from tests.support.callers import Caller
from tests.support.server import Server, until

Json = dict[str, Any]


async def push(
    server: Server,
    queue: str,
    *values: Any,  # noqa: ANN401 - JSON
    partition: str = "Default",
    **fields: Any,  # noqa: ANN401 - of an item
) -> list[Json]:
    """Push the values in one request. `fields` apply to each item."""
    items = [
        {"queue": queue, "partition": partition, "payload": value, **fields} for value in values
    ]
    reply = await server.post("/push", {"items": items})
    assert reply.status == 201, reply
    return reply.body["messages"]


async def pop(server: Server, queue: str, **parameters: str | int) -> list[Json]:
    """The messages of a pop. An empty pop is an empty list."""
    reply = await server.get(f"/pop/queue/{queue}", **parameters)
    assert reply.status in (200, 204), reply
    return reply.body["messages"] if reply.status == 200 else []


async def settle(server: Server, message: Json, status: str = "completed", **fields: Any) -> Json:  # noqa: ANN401 - of an ack
    """Acknowledge a popped message."""
    names = ("transactionId", "partitionId", "leaseId", "consumerGroup")
    reply = await server.post(
        "/ack", {**{name: message[name] for name in names}, "status": status, **fields}
    )
    assert reply.status == 200, reply
    return reply.body


async def bury(server: Server, queue: str, error: str = "no", **parameters: str | int) -> Json:
    """Pop a message, dead-letter it, and return the dead letter."""
    (message,) = await pop(server, queue, **parameters)
    await settle(server, message, "dlq", error=error)
    return (await server.get("/dlq", queue=queue)).body["messages"][0]


async def finished(server: Server | Caller, started: Json) -> Json:
    """The operation of a 202 response, after it has ended."""
    path = f"/operations/{started['operation']['id']}"

    async def is_over() -> bool:
        return (await server.get(path)).body["operation"]["state"] != "running"

    await until(is_over)
    return (await server.get(path)).body["operation"]


async def pages(server: Server, path: str, field: str, **parameters: str | int) -> list[list[Json]]:
    """All pages of a list."""
    found: list[list[Json]] = []
    cursor: dict[str, str] = {}
    while True:
        reply = await server.get(path, **parameters, **cursor)
        assert reply.status == 200, reply
        found.append(reply.body[field])
        if reply.body["nextCursor"] is None:
            return found
        assert len(found) < 100
        cursor = {"cursor": reply.body["nextCursor"]}
