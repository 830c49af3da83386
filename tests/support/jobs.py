"""Shortcuts for job calls over HTTP."""

from typing import Any
from urllib.parse import quote

from tests.support.calls import pop, says
from tests.support.server import Reply, Server


async def add(server: Server, queue: str, name: str = "n", **fields: Any) -> str:  # noqa: ANN401 - JSON
    """Add a job, which must succeed, and return its id."""
    reply = await server.post("/jobs", {"queue": queue, "name": name, **fields})
    assert reply.status == 201, reply.body
    return reply.body["id"]


def path(queue: str, id_: str, verb: str = "") -> str:
    return f"/jobs/{quote(queue, safe='')}/{quote(id_, safe='')}{verb}"


async def show(server: Server, queue: str, id_: str, **parameters: str | int) -> dict[str, Any]:
    reply = await server.get(path(queue, id_), **parameters)
    assert reply.status == 200, reply.body
    return reply.body


async def status(server: Server, queue: str, id_: str, **parameters: str | int) -> str:
    return (await show(server, queue, id_, **parameters))["status"]


async def cancel(server: Server, queue: str, id_: str, **body: str) -> Reply:
    return await server.post(path(queue, id_, "/cancel"), body)


async def take(server: Server, queue: str, **parameters: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """The next job, as its worker gets it."""
    (message,) = await pop(server, queue, **parameters)
    return message


async def done(server: Server, message: dict[str, Any], **fields: Any) -> Reply:  # noqa: ANN401 - JSON
    return await server.post("/ack", {**says(message), "id": message["id"], **fields})
