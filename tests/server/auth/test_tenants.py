"""Two tenants on one server: neither sees, counts or changes objects of the other."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from queen.codec.ids import message_id
from tests.support.callers import KEYS, Caller, make_key
from tests.support.server import Reply, Server, until


@pytest.fixture
async def server(dsn: str) -> AsyncIterator[Server]:
    async with Server(dsn, {**KEYS, "QUEEN_SAMPLE_SECONDS": "0.1"}) as server:
        yield server


@pytest.fixture
async def theirs(dsn: str, server: Server) -> Caller:
    return Caller(server, await make_key(dsn, scopes=[{"queue": "theirs.*"}], name="theirs"))


@pytest.fixture
async def ours(dsn: str, server: Server) -> Caller:
    return Caller(server, await make_key(dsn, scopes=[{"queue": "ours.*"}], name="ours"))


def is_refused(reply: Reply) -> bool:
    return (reply.status, reply.code) == (403, "forbidden")


async def dead_letter(caller: Caller, queue: str) -> dict[str, Any]:
    """A dead letter of the caller, in a group that every tenant has."""
    await caller.push(queue, {"secret": queue})
    popped = await caller.get(f"/pop/queue/{queue}", consumerGroup="g")
    (message,) = popped.body["messages"]
    ack = {"id": message["id"], "leaseId": message["leaseId"], "consumerGroup": "g"}
    assert (await caller.post("/ack", {**ack, "status": "dlq"})).status == 200
    return message


async def test_foreign_and_unknown_ids_are_rejected_alike(theirs: Caller, ours: Caller) -> None:
    message = await dead_letter(theirs, "theirs.a")
    (letter,) = (await theirs.get("/dlq")).body["messages"]
    purge = await theirs.post("/resources/queues/theirs.a/purge", {"scope": "all"})
    operation = purge.body["operation"]["id"]
    for id_ in (message["id"], message_id(10**6, 0), "nonsense"):
        for method, path in (
            ("GET", f"/messages/{id_}"),
            ("POST", f"/messages/{id_}/retry"),
            ("POST", f"/messages/{id_}/dlq"),
            ("DELETE", f"/messages/{id_}"),
        ):
            assert is_refused(await ours.request(method, path)), (method, path)
    for partition in (message["partitionId"], "0.1000000", "nonsense"):
        assert is_refused(await ours.get(f"/messages/{partition}/t"))
        assert is_refused(await ours.get(f"/traces/{partition}/t"))
        trace = {"transactionId": "t", "partitionId": partition, "data": 1}
        assert is_refused(await ours.post("/traces", trace))
    for id_ in (letter["id"], "0.1000000", "nonsense"):
        assert is_refused(await ours.get(f"/dlq/{id_}"))
        assert is_refused(await ours.delete(f"/dlq/{id_}"))
    for id_ in (letter["id"], "0.1000000"):
        assert is_refused(await ours.post("/dlq/redrive", {"filter": {"ids": [id_]}}))
    for id_ in (operation, "1000000", "nonsense"):
        assert is_refused(await ours.get(f"/operations/{id_}"))
        assert is_refused(await ours.delete(f"/operations/{id_}"))
    assert (await theirs.get(f"/dlq/{letter['id']}")).status == 200


async def test_lists_never_name_objects_of_others(theirs: Caller, ours: Caller) -> None:
    await dead_letter(theirs, "theirs.a")
    await dead_letter(ours, "ours.a")
    await theirs.post(
        "/configure", {"queue": "theirs.b", "namespace": "theirs-n", "task": "theirs"}
    )
    await theirs.post("/resources/queues/theirs.b/purge", {"scope": "all"})
    for path in (
        "/resources/overview",
        "/resources/queues",
        "/resources/namespaces",
        "/resources/tasks",
        "/consumer-groups",
        "/dlq",
        "/operations",
    ):
        reply = await ours.get(path)
        assert reply.status == 200, path
        assert "theirs" not in str(reply.body), path
    assert (await ours.get("/resources/overview")).body["queues"] == 1
    assert is_refused(await ours.get("/traces/names"))
    for path in ("/messages", "/dlq", "/dlq/errors", "/consumer-groups"):
        for queue in ("theirs.a", "theirs.nothing"):
            assert is_refused(await ours.get(path, queue=queue)), path


async def test_the_worst_queues_are_the_callers_own(theirs: Caller, ours: Caller) -> None:
    for _ in range(3):
        await dead_letter(theirs, "theirs.a")
    await dead_letter(ours, "ours.a")

    async def is_listed() -> bool:
        body = (await ours.get("/resources/overview", worst=1)).body
        assert "theirs" not in str(body)
        return [each["name"] for each in body["worst"]] == ["ours.a"]

    await until(is_listed)


async def test_a_group_is_deleted_only_in_the_callers_queues(theirs: Caller, ours: Caller) -> None:
    await dead_letter(theirs, "theirs.a")
    await dead_letter(ours, "ours.a")
    assert (await ours.delete("/consumer-groups/g")).body["queues"] == ["ours.a"]
    assert (await ours.delete("/consumer-groups/g")).code == "group_not_found"
    groups = (await theirs.get("/consumer-groups")).body["consumerGroups"]
    assert "theirs.a" in str(groups)


async def test_dead_letters_move_only_between_the_callers_queues(
    theirs: Caller, ours: Caller
) -> None:
    await dead_letter(ours, "ours.a")
    await theirs.push("theirs.a")
    to = {"filter": {"queue": "ours.a"}, "destination": {"queue": "theirs.a", "partition": "p"}}
    assert is_refused(await ours.post("/dlq/redrive", to))
    foreign = {"filter": {"queue": "theirs.a"}}
    assert is_refused(await ours.post("/dlq/redrive", foreign))


async def test_server_wide_routes_are_closed_to_tenants(ours: Caller) -> None:
    for path in ("instances", "config", "migrations", "tables", "maintenance"):
        assert is_refused(await ours.get(f"/system/{path}"))
    assert is_refused(await ours.post("/system/maintenance", {"enabled": True}))


async def test_payload_reads_are_audited(dsn: str, theirs: Caller) -> None:
    message = await dead_letter(theirs, "theirs.a")
    (letter,) = (await theirs.get("/dlq")).body["messages"]
    await theirs.get(f"/dlq/{letter['id']}")
    await theirs.get("/messages", queue="theirs.a")
    await theirs.get(f"/messages/{message['id']}")
    await theirs.get("/resources/queues")
    admin = Caller(theirs.server, await make_key(dsn))
    reply = await admin.get("/audit", actor="key:theirs")
    told = [(each["record"]["action"], each["record"]["queue"]) for each in reply.body["records"]]
    assert told[::-1] == [
        ("GET /api/v1/dlq", None),
        ("GET /api/v1/dlq/{id}", "theirs.a"),
        ("GET /api/v1/messages", "theirs.a"),
        ("GET /api/v1/messages/{ref}", "theirs.a"),
    ]
    assert "secret" not in str(reply.body)
