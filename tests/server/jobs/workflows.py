"""Start workflows and settle their steps over HTTP."""

from typing import Any

from tests.support.server import Server

Json = dict[str, Any]


def job(name: str, **members: Any) -> Json:  # noqa: ANN401 - JSON
    return {"queue": "work", "job": name, **members}


async def start(server: Server, *steps: Json, **members: Any) -> str:  # noqa: ANN401 - JSON
    await server.post("/configure", {"queue": "work", "options": {"ordered": False}})
    reply = await server.post("/workflows", {"name": "test", "steps": steps, **members})
    assert reply.status == 201, reply
    return reply.body["id"]


async def take(server: Server) -> Json:
    reply = await server.get("/pop/queue/work", wait="true", timeout=10_000)
    assert reply.status == 200, reply
    (message,) = reply.body["messages"]
    return message


def operations(
    message: Json, outcome: str = "success", status: str = "completed", **members: object
) -> list[Json]:
    """The operations that a worker sends when a workflow's job is done."""
    ours = message["data"]["workflow"]
    return [
        {
            "type": "ack",
            "id": message["id"],
            "leaseId": message["leaseId"],
            "partitionId": message["partitionId"],
            "status": status,
        },
        {
            "type": "advance",
            "workflow": ours["id"],
            "step": ours["step"],
            "token": ours["token"],
            "part": ours.get("part"),
            "outcome": outcome,
            "attempt": message["attempt"],
            **members,
        },
    ]


async def settle(server: Server, message: Json, **members: Any) -> Json:  # noqa: ANN401 - JSON
    reply = await server.post("/transaction", {"operations": operations(message, **members)})
    assert reply.status == 200, reply
    return reply.body["results"][1]
