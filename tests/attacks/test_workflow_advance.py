"""A workflow step advances only with the ack of its own message, by a caller of its queue."""

import json
from typing import Any

import pytest

from tests.support.callers import Caller, make_key
from tests.support.server import Reply, Server

Json = dict[str, Any]


@pytest.fixture
async def acme(dsn: str, locked: Server) -> Caller:
    return await caller(dsn, locked, "acme.*")


@pytest.fixture
async def zeta(dsn: str, locked: Server) -> Caller:
    return await caller(dsn, locked, "zeta.*")


async def caller(dsn: str, server: Server, queue: str, **rights: Any) -> Caller:  # noqa: ANN401 - of make_key
    rights = rights or {"role": "read-write"}
    return Caller(server, await make_key(dsn, scopes=[{"queue": queue}], name=queue, **rights))


async def start(acme: Caller) -> Json:
    """The message of a workflow's only step: a payout that waits for approval."""
    await acme.post("/configure", {"queue": "acme.work", "options": {"ordered": False}})
    steps = [{"queue": "acme.work", "job": "approve", "name": "approve"}]
    reply = await acme.post("/workflows", {"name": "payout", "steps": steps})
    assert reply.status == 201, reply
    return await pop(acme, "acme.work")


async def pop(caller: Caller, queue: str) -> Json:
    reply = await caller.get(f"/pop/queue/{queue}", wait="true", timeout=10_000)
    assert reply.status == 200, reply
    (message,) = reply.body["messages"]
    return message


def ack(message: Json) -> Json:
    return {"type": "ack", "id": message["id"], "leaseId": message["leaseId"]}


def advance(message: Json, **members: object) -> Json:
    place = message["data"]["workflow"]
    told = {name: place[name] for name in ("step", "token")}
    result = {"approved": True, "by": "zeta"}
    operation = {"type": "advance", "workflow": place["id"], "outcome": "success", "result": result}
    return {**operation, **told, **members}


async def transact(caller: Caller, *operations: Json) -> Reply:
    return await caller.post("/transaction", {"operations": operations})


async def state(acme: Caller, message: Json) -> str:
    reply = await acme.get(f"/workflows/{message['data']['workflow']['id']}")
    return reply.body["state"]


async def test_a_stolen_token_with_an_own_ack_advances_no_foreign_step(
    acme: Caller, zeta: Caller
) -> None:
    step = await start(acme)
    await zeta.push("zeta.q")
    own = await pop(zeta, "zeta.q")

    reply = await transact(zeta, ack(own), advance(step))

    assert (reply.status, reply.code) == (403, "forbidden")
    assert await state(acme, step) == "running"
    done = await transact(acme, ack(step), advance(step))
    assert (done.status, done.body["results"][1]["advanced"]) == (200, True)


async def test_a_forged_message_advances_no_foreign_step(acme: Caller, zeta: Caller) -> None:
    step = await start(acme)
    await zeta.post("/configure", {"queue": "zeta.q", "options": {"ordered": False}})
    await zeta.push("zeta.q", step["data"])
    forged = await pop(zeta, "zeta.q")

    settled = await transact(zeta, ack(forged), advance(step))
    cancelled = await zeta.post(f"/jobs/zeta.q/{forged['id']}/cancel", {})

    assert [each.code for each in (settled, cancelled)] == ["forbidden", "forbidden"]
    assert await state(acme, step) == "running"


@pytest.mark.parametrize("scope", ["*", "acme.*"])
async def test_an_advance_needs_the_ack_of_its_own_message(
    dsn: str, locked: Server, acme: Caller, scope: str
) -> None:
    step, other = await start(acme), await start(acme)
    worker = await caller(dsn, locked, scope)

    reply = await transact(worker, ack(other), advance(step))

    assert (reply.status, reply.code, reply.body["failedIndex"]) == (400, "bad_request", 1)
    assert [await state(acme, each) for each in (step, other)] == ["running", "running"]


async def test_an_advance_needs_the_permission_to_consume(
    dsn: str, locked: Server, acme: Caller
) -> None:
    step = await start(acme)
    writer = await caller(dsn, locked, "acme.*", role="write-only")
    pushed = {"type": "push", "items": [{"queue": "acme.q", "payload": 1}]}

    reply = await transact(writer, pushed, advance(step))

    assert (reply.status, reply.code) == (403, "forbidden")


async def test_views_mask_the_token_and_consumers_get_it(
    dsn: str, locked: Server, acme: Caller
) -> None:
    step = await start(acme)
    place = step["data"]["workflow"]
    viewer = await caller(dsn, locked, "acme.*", role="read-only")
    views = [
        await viewer.get("/messages", queue="acme.work"),
        await viewer.get(f"/messages/{step['id']}"),
        await viewer.get("/jobs", queue="acme.work"),
        await viewer.get(f"/jobs/acme.work/{step['id']}"),
        await viewer.get(f"/workflows/{place['id']}"),
        await acme.get(f"/messages/{step['id']}", reveal="true"),
    ]
    dead = {**ack(step), "status": "dlq"}
    assert (await transact(acme, dead)).status == 200
    views += [await viewer.get("/dlq"), await viewer.get(f"/messages/{step['id']}")]
    (letter,) = views[-2].body["messages"]
    views.append(await viewer.get(f"/dlq/{letter['id']}"))

    assert [each.status for each in views] == [200] * len(views)
    assert [at for at, each in enumerate(views) if place["token"] in str(each.body)] == []
    assert letter["data"]["workflow"] == {**place, "token": "masked"}


FOREIGN: list[tuple[str, str, object]] = [
    ("POST", "/transaction", {"operations": [{"type": "ack", "id": "{id}", "leaseId": "{lease}"}]}),
    ("POST", "/transaction", {"operations": [{"type": "ack", "transactionId": "{id}"}]}),
    (
        "POST",
        "/transaction",
        {
            "operations": [{"type": "push", "items": [{"queue": "zeta.q", "payload": 1}]}],
            "requiredLeases": ["{lease}"],
        },
    ),
    (
        "POST",
        "/transaction",
        {"operations": [{"type": "push", "items": [{"queue": "acme.work", "payload": 1}]}]},
    ),
    ("POST", "/lease/{lease}/ack", None),
    ("POST", "/lease/{lease}/extend", {"seconds": 600}),
    ("POST", "/lease/{lease}/release", None),
    ("POST", "/jobs/renew", {"leaseIds": ["{lease}"], "jobs": []}),
    ("POST", "/jobs/acme.work/{id}/progress", {"leaseId": "{lease}", "progress": 1}),
    ("POST", "/jobs/acme.work/{id}/cancel", {}),
    ("POST", "/jobs/acme.work/{id}/retry", {}),
    ("POST", "/jobs", {"queue": "acme.work", "name": "pay"}),
    ("POST", "/workflows/{workflow}/cancel", {}),
]


def filled(template: object, values: dict[str, str]) -> Any:  # noqa: ANN401 - JSON
    """JSON with the names in braces replaced."""
    text = json.dumps(template)
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return json.loads(text)


async def test_leases_jobs_and_transactions_of_another_tenant_are_forbidden(
    acme: Caller, zeta: Caller
) -> None:
    step = await start(acme)
    place = step["data"]["workflow"]
    values = {"id": step["id"], "lease": step["leaseId"], "workflow": place["id"]}
    for method, path, body in FOREIGN:
        reply = await zeta.request(method, filled(path, values), filled(body, values))

        assert (reply.status, reply.code) == (403, "forbidden"), (path, body, reply)

    assert await state(acme, step) == "running"
    assert (await transact(acme, ack(step), advance(step))).status == 200
