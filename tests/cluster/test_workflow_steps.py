"""Workflows whose queues have moved to another database."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from tests.cluster.moving import Move
from tests.cluster.places import TWO, slot_of
from tests.server.jobs.workflows import operations
from tests.support.server import Server

Json = dict[str, Any]
STEPS = [
    {"name": "first", "queue": TWO, "job": "a", "onSuccess": ["second"]},
    {"name": "second", "queue": TWO, "job": "b"},
]


@pytest.fixture
async def server(databases: dict[str, str]) -> AsyncIterator[Server]:
    async with Server(databases) as server:
        yield server


async def take(server: Server) -> Json:
    reply = await server.get(f"/pop/queue/{TWO}", wait="true", timeout=20_000)
    assert reply.status == 200, reply
    (message,) = reply.body["messages"]
    return message


async def started(server: Server) -> str:
    await server.post("/configure", {"queue": TWO, "options": {"ordered": False}})
    reply = await server.post("/workflows", {"name": "test", "steps": STEPS})
    assert reply.status == 201, reply
    return reply.body["id"]


async def moved(server: Server, databases: dict[str, str]) -> None:
    """Move the queue, but not the workflow."""
    await server.stop()
    await Move(databases, slot_of(TWO), "two", "three").run()
    await server.start()


async def settle(server: Server, message: Json, **members: Any) -> Json:  # noqa: ANN401
    reply = await server.post("/transaction", {"operations": operations(message, **members)})
    assert reply.status == 200, reply.body
    return reply.body["results"][1]


async def returned_step(server: Server) -> str:
    """The step of the next message, which is returned to its queue."""
    message = await take(server)
    reply = await server.post(f"/lease/{message['leaseId']}/release")
    assert reply.status < 300, reply.body
    return message["data"]["workflow"]["step"]


async def test_a_workflow_continues_in_another_database(
    server: Server, databases: dict[str, str]
) -> None:
    id_ = await started(server)
    assert await returned_step(server) == "first"
    await moved(server, databases)

    first = await take(server)
    assert (await settle(server, first, result={"n": 1}))["advanced"]
    second = await take(server)
    assert second["data"]["workflow"]["results"] == {"first": {"n": 1}}
    assert (await settle(server, second))["advanced"]

    workflow = await server.get(f"/workflows/{id_}")
    assert workflow.body["state"] == "completed"
    assert (await server.get(f"/pop/queue/{TWO}")).status == 204


async def test_a_step_advances_once_if_its_message_is_redelivered(
    server: Server, databases: dict[str, str]
) -> None:
    """The server died after the advance, before the acknowledgment: it was rejected here."""
    await started(server)
    await moved(server, databases)
    message = await take(server)
    three = await asyncpg.connect(databases["three"])
    await three.execute(
        "create function public.fail () returns trigger language plpgsql as"
        " $$ begin raise exception 'stopped by the test' using errcode = '57P03'; end $$;"
        "create trigger fail before update or delete on queen.deliveries for each row"
        " execute function public.fail()"
    )
    failed = await server.post("/transaction", {"operations": operations(message)})
    assert failed.status == 503
    await three.execute("drop trigger fail on queen.deliveries")

    again = await settle(server, message)

    assert not again["advanced"]
    assert (await take(server))["data"]["workflow"]["step"] == "second"
    assert (await server.get(f"/pop/queue/{TWO}")).status == 204
    await three.close()


async def test_a_step_in_another_database_is_not_taken_for_lost(
    server: Server, databases: dict[str, str]
) -> None:
    id_ = await started(server)
    await moved(server, databases)
    two = await asyncpg.connect(databases["two"])
    await two.execute("update queen.workflow_steps set seen_at = now() where name = 'first'")

    loss = await two.fetchval(
        "select queen.loss_of(s) from queen.workflow_steps s where s.name = 'first'"
    )

    assert loss is None
    assert (await server.get(f"/workflows/{id_}")).body["state"] == "running"
    await two.close()
