"""A tenant that uses another tenant's producer ids can neither use up nor block its sequences."""

from typing import Any

import pytest

from tests.support.callers import Caller, make_key
from tests.support.server import Reply, Server

MOST = 2**63 - 1


@pytest.fixture
async def acme(dsn: str, locked: Server) -> Caller:
    return await tenant(dsn, locked, "acme")


@pytest.fixture
async def zeta(dsn: str, locked: Server) -> Caller:
    return await tenant(dsn, locked, "zeta")


async def tenant(dsn: str, server: Server, name: str) -> Caller:
    scopes = [{"queue": f"{name}.*"}]
    return Caller(server, await make_key(dsn, role="read-write", scopes=scopes, name=name))


async def push(
    caller: Caller, queue: str, sequence: int, *payloads: object, **more: object
) -> Reply:
    items = [{"queue": queue, "payload": each, **more} for each in payloads]
    request = {"items": items, "producerId": "billing-1", "sequence": sequence}
    return await caller.post("/push", request)


async def pop(caller: Caller, queue: str) -> list[dict[str, Any]]:
    reply = await caller.get(f"/pop/queue/{queue}", batch=100)
    return reply.body["messages"] if reply.status == 200 else []


async def payloads(caller: Caller, queue: str) -> list[object]:
    return [each["data"] for each in await pop(caller, queue)]


async def test_another_tenants_sequence_hides_no_push(acme: Caller, zeta: Caller) -> None:
    assert (await push(acme, "acme.bills", 1, "bill 1")).status == 201
    assert (await push(zeta, "zeta.q", 2, "stolen")).status == 201

    second = await push(acme, "acme.bills", 2, "bill 2")
    assert (await push(zeta, "zeta.q", MOST, "blocked")).status == 201
    third = await push(acme, "acme.bills", 3, "bill 3")

    assert [(each.status, "replayed" in each.body) for each in (second, third)] == [
        (201, False),
        (201, False),
    ]
    assert await payloads(acme, "acme.bills") == ["bill 1", "bill 2", "bill 3"]


async def test_a_transaction_without_pushes_uses_no_sequence_of_another_tenant(
    acme: Caller, zeta: Caller
) -> None:
    await zeta.push("zeta.q", "mine")
    (mine,) = await pop(zeta, "zeta.q")
    ack = {"type": "ack", "id": mine["id"], "leaseId": mine["leaseId"]}
    taken = {"operations": [ack], "producerId": "billing-1", "sequence": MOST}
    assert (await zeta.post("/transaction", taken)).status == 200

    pushed = {"type": "push", "items": [{"queue": "acme.bills", "payload": "bill 1"}]}
    request = {"operations": [pushed], "producerId": "billing-1", "sequence": 1}
    reply = await acme.post("/transaction", request)

    assert (reply.status, reply.body.get("replayed")) == (200, None)
    assert await payloads(acme, "acme.bills") == ["bill 1"]


async def test_jobs_of_another_tenant_use_no_sequence(acme: Caller, zeta: Caller) -> None:
    for caller, queue, sequence in ((zeta, "zeta.jobs", 7), (acme, "acme.jobs", 7)):
        jobs = [{"queue": queue, "name": "send"}]
        request = {"jobs": jobs, "producerId": "billing-1", "sequence": sequence}
        reply = await caller.post("/jobs/bulk", request)

        assert (reply.status, reply.body.get("replayed")) == (201, None)

    assert len(await pop(acme, "acme.jobs")) == 1


async def test_a_repeat_with_another_key_of_the_tenant_is_stored_once(
    dsn: str, locked: Server, acme: Caller
) -> None:
    first = await push(acme, "acme.bills", 1, "bill 1")
    renewed = await tenant(dsn, locked, "acme")

    again = await push(renewed, "acme.bills", 1, "bill 1")

    assert again.body == {**first.body, "replayed": True}
    assert await payloads(acme, "acme.bills") == ["bill 1"]


async def test_another_request_under_a_used_sequence_is_rejected(acme: Caller) -> None:
    assert (await push(acme, "acme.bills", 1, "bill 1")).status == 201

    other = await push(acme, "acme.bills", 1, "bill 2")
    pushed = {"type": "push", "items": [{"queue": "acme.bills", "payload": "bill 1"}]}
    request = {"operations": [pushed], "producerId": "billing-1", "sequence": 1}
    transaction = await acme.post("/transaction", request)

    for reply in (other, transaction):
        assert (reply.status, reply.code) == (409, "sequence_reused")
        assert reply.body["applied"] is False
    assert await payloads(acme, "acme.bills") == ["bill 1"]


async def test_a_repeat_returns_the_response_of_the_first_attempt(acme: Caller) -> None:
    await acme.post("/push", {"items": [{"queue": "acme.q", "payload": 0, "transactionId": "t"}]})
    items = [
        {"queue": "acme.q", "payload": 1, "partition": "one"},
        {"queue": "acme.q", "payload": 2, "transactionId": "t"},
        {"queue": "acme.q", "payload": 3, "partition": "one", "transactionId": "u"},
        {"queue": "acme.q", "payload": 4, "partition": "one", "transactionId": "u"},
        {"queue": "acme.later", "payload": 5, "delaySeconds": 3600},
        {"queue": "acme.q", "payload": 6},
    ]
    request = {"items": items, "producerId": "billing-1", "sequence": 1}
    first = await acme.post("/push", request)

    again = await acme.post("/push", request)

    statuses = [each["status"] for each in first.body["messages"]]
    assert statuses == ["queued", "duplicate", "queued", "duplicate", "queued", "queued"]
    assert again.body == {**first.body, "replayed": True}


async def test_a_repeat_may_have_another_trace(acme: Caller) -> None:
    request = {
        "items": [{"queue": "acme.q", "payload": 1}],
        "producerId": "billing-1",
        "sequence": 1,
    }
    replies = [
        await acme.request(
            "POST", "/push", request, headers={"traceparent": f"00-{n:032x}-{n:016x}-01"}
        )
        for n in (1, 2)
    ]

    assert [each.status for each in replies] == [201, 201]
    assert replies[1].body == {**replies[0].body, "replayed": True}


async def test_a_repeated_transaction_returns_the_results_of_the_first(acme: Caller) -> None:
    await acme.push("acme.in", "a")
    (message,) = await pop(acme, "acme.in")
    operations = [
        {"type": "ack", "id": message["id"], "leaseId": message["leaseId"]},
        {"type": "push", "items": [{"queue": "acme.out", "payload": n} for n in range(3)]},
    ]
    request = {"operations": operations, "producerId": "billing-1", "sequence": 4}
    first = await acme.post("/transaction", request)

    again = await acme.post("/transaction", request)

    assert (first.status, "replayed" in first.body) == (200, False)
    assert again.body == {**first.body, "replayed": True}
    assert await payloads(acme, "acme.out") == [0, 1, 2]
