"""Shortcuts for message calls over HTTP."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import asyncpg

from tests.support.exercised import note_code
from tests.support.server import Reply, Server


def a_queue() -> str:
    """A name that no other test of this server uses."""
    return f"q-{uuid4().hex}"


def items(queue: str, *values: Any, **fields: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - JSON
    return [{"queue": queue, "payload": value, **fields} for value in values]


async def push(server: Server, queue: str, *values: Any, **fields: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - JSON
    """Push the values in one request, which must succeed. `fields` apply to each item."""
    reply = await server.post("/push", {"items": items(queue, *values, **fields)})
    assert reply.status == 201, reply.body
    messages: list[dict[str, Any]] = reply.body["messages"]
    return messages


async def pop(server: Server, queue: str, **parameters: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - JSON
    """The response of a pop. An empty pop is a list without messages."""
    reply = await server.post(f"/pop/queue/{quote(queue, safe='')}", parameters)
    assert reply.status in (200, 204), reply.body
    messages: list[dict[str, Any]] = reply.body["messages"] if reply.status == 200 else []
    return messages


async def pop_one(server: Server, queue: str, **parameters: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    (message,) = await pop(server, queue, **parameters)
    return message


def data(messages: list[dict[str, Any]]) -> list[Any]:
    return [message["data"] for message in messages]


def says(message: Mapping[str, Any], status: str = "completed", **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """The acknowledgment of a message."""
    named = ("transactionId", "partitionId", "leaseId", "consumerGroup")
    return {name: message[name] for name in named} | {"status": status} | fields


async def ack(server: Server, message: Mapping[str, Any], **fields: Any) -> Reply:  # noqa: ANN401 - JSON
    return await server.post("/ack", says(message, **fields))


async def settle(server: Server, message: Mapping[str, Any], **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Acknowledge a message, which must succeed."""
    reply = await ack(server, message, **fields)
    assert reply.status == 200, reply.body
    answer: dict[str, Any] = reply.body
    return answer


async def configure(server: Server, queue: str, **options: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    reply = await server.post("/configure", {"queue": queue, "options": options})
    assert reply.status == 200, reply.body
    configured: dict[str, Any] = reply.body
    return configured


async def spoken(server: Server, request: bytes, *, seconds: float = 10) -> tuple[bytes, bytes]:
    """Send these bytes and return the response's head and body. The server then closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=2**26)
    try:
        async with asyncio.timeout(seconds):
            writer.write(request)
            head, _, body = (await reader.read(-1)).partition(b"\r\n\r\n")
        if b"application/problem+json" in head:
            note_code(json.loads(body)["code"])
        return head, body
    finally:
        writer.close()


def posted(path: str, body: bytes, *headers: str) -> bytes:
    """A raw request, after which the connection is closed."""
    lines = [
        f"POST /api/v1{path} HTTP/1.1",
        "host: localhost",
        "connection: close",
        f"content-length: {len(body)}",
        *(headers or ["content-type: application/json"]),
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@contextlib.asynccontextmanager
async def held_partitions(dsn: str) -> "AsyncGenerator[asyncpg.Connection[asyncpg.Record]]":
    """Lock the partitions in the database: until this ends, pushes wait."""
    connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction():
            await connection.execute("select id from queen.partitions for update")
            yield connection
    finally:
        await connection.close()


async def until_blocked(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    """Wait until a statement is blocked in the database."""
    async with asyncio.timeout(10):
        while not await connection.fetchval(  # noqa: ASYNC110 - the condition is in the database
            "select count(*) from pg_stat_activity "
            "where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0"
        ):
            await asyncio.sleep(0.02)
