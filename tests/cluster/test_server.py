"""A server with three databases: the API is the same as with one."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from queen import Message, Queen, errors
from tests.cluster.places import NAMES, ONE, THREE, TWO, home, named
from tests.support.server import Reply, Server

QUEUES = (ONE, TWO, THREE)


@pytest.fixture
async def server(empty: dict[str, str]) -> AsyncIterator[Server]:
    async with Server(empty) as server:
        yield server


@pytest.fixture
async def queen(server: Server) -> AsyncIterator[Queen]:
    async with Queen(server.base_url) as queen:
        yield queen


async def fill(server: Server, *values: int, **fields: Any) -> None:  # noqa: ANN401
    for queue in QUEUES:
        items = [{"queue": queue, "payload": each, **fields} for each in values or (1,)]
        reply = await server.post("/push", {"items": items})
        assert reply.status == 201, reply.body


async def pages(server: Server, path: str, field: str, limit: int = 2, **query: Any) -> list[Any]:  # noqa: ANN401
    """All entries of a list, page by page."""
    entries: list[Any] = []
    cursor: dict[str, str] = {}
    while True:
        reply = await server.get(path, limit=limit, **query, **cursor)
        assert reply.status == 200, reply.body
        assert len(reply.body[field]) <= limit
        entries += reply.body[field]
        if reply.body["nextCursor"] is None:
            return entries
        cursor = {"cursor": reply.body["nextCursor"]}


async def dead_letter(server: Server, queue: str) -> str:
    """Dead-letter one message. Returns its message id."""
    (message,) = (await server.get(f"/pop/queue/{queue}")).body["messages"]
    body = {"id": message["id"], "leaseId": message["leaseId"], "status": "dlq", "error": "x"}
    assert (await server.post("/ack", body)).body["success"]
    return str(message["id"])


async def test_push_pop_and_ack(server: Server) -> None:
    await fill(server, 1, 2)

    for queue in QUEUES:
        reply = await server.get(f"/pop/queue/{queue}", batch=2)
        first = reply.body["messages"][0]
        assert [each["data"] for each in reply.body["messages"]] == [1, 2]
        done = await server.post(f"/lease/{first['leaseId']}/ack")
        assert done.status == 200
        assert (await server.get(f"/pop/queue/{queue}")).status == 204


async def test_one_request_for_queues_in_all_databases(server: Server) -> None:
    items = [{"queue": queue, "payload": n} for n, queue in enumerate(QUEUES)]

    pushed = await server.post("/push", {"items": items})
    numbered = await server.post("/push", {"items": items, "producerId": "p", "sequence": 1})

    assert [each["status"] for each in pushed.body["messages"]] == ["queued"] * 3
    assert (numbered.status, numbered.code) == (422, "cross_shard")
    leases: list[dict[str, str]] = []
    for queue in QUEUES:
        (message,) = (await server.get(f"/pop/queue/{queue}")).body["messages"]
        leases.append({"id": message["id"], "leaseId": message["leaseId"]})
    extended = await server.post(
        "/lease/extend", {"leaseIds": [each["leaseId"] for each in leases]}
    )
    assert [each["success"] for each in extended.body["results"]] == [True] * 3
    acked = await server.post("/ack/batch", {"acknowledgments": leases})
    assert [each["success"] for each in acked.body["results"]] == [True] * 3


async def test_a_transaction_in_one_database(server: Server) -> None:
    await fill(server)
    (message,) = (await server.get(f"/pop/queue/{TWO}")).body["messages"]
    ack = {"type": "ack", "id": message["id"], "leaseId": message["leaseId"]}
    (same,) = [name for name in named("two", 2) if name != TWO]

    def push(queue: str) -> dict[str, Any]:
        return {"type": "push", "items": [{"queue": queue, "payload": 2}]}

    foreign = await server.post("/transaction", {"operations": [ack, push(ONE)]})
    local = await server.post("/transaction", {"operations": [ack, push(same)]})

    assert (foreign.status, foreign.code) == (422, "cross_shard")
    assert "is in two" in foreign.body["detail"]
    assert local.status == 200
    assert len((await server.get(f"/pop/queue/{same}")).body["messages"]) == 1


async def test_a_namespace_is_in_one_database(server: Server) -> None:
    space = next(name for name in (f"n{n}" for n in range(99)) if home(name) == "three")
    for queue in QUEUES:
        body = {"queue": queue, "namespace": space, "task": "t"}
        assert (await server.post("/configure", body)).status == 200
    items = [{"queue": queue, "payload": 1} for queue in QUEUES]

    pushed = await server.post("/push", {"items": items, "producerId": "p", "sequence": 1})
    popped = await server.get("/pop", namespace=space, batch=10)

    assert pushed.status == 201
    assert len(popped.body["messages"]) == 3
    assert [
        each["name"] for each in await pages(server, "/resources/namespaces", "namespaces")
    ] == [space]


@pytest.mark.parametrize("transport", ["stream", "http"])
async def test_the_sdk_consumes_queues_of_all_databases(server: Server, transport: str) -> None:
    found: dict[str, list[int]] = {queue: [] for queue in QUEUES}
    async with Queen(server.base_url, stream=transport == "stream") as queen:
        running = [queen.queue(queue).batch(10).start(_handler(found[queue])) for queue in QUEUES]
        for n in range(50):
            for queue in QUEUES:
                await queen.queue(queue).push([{"data": n}])
        async with asyncio.timeout(20):
            while any(len(each) < 50 for each in found.values()):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        for each in running:
            await each.stop()
    assert all(each == list(range(50)) for each in found.values())


def _handler(into: list[int]) -> Any:  # noqa: ANN401
    async def handle(messages: list[Message[int]]) -> None:
        into.extend(each.data for each in messages)

    return handle


async def test_a_consumer_can_start_before_its_queue(queen: Queen) -> None:
    async with asyncio.timeout(20):
        waiting = asyncio.create_task(queen.queue(THREE).wait().timeout_millis(15_000).pop())
        await asyncio.sleep(0.2)
        await queen.queue(THREE).push([{"data": 1}])
        (message,) = await waiting
    assert message.data == 1


async def test_lists_have_the_queues_of_all_databases(server: Server) -> None:
    names = sorted(name for database in NAMES for name in named(database, 4))
    for name in names:
        await server.post("/push", {"items": [{"queue": name, "payload": 1}]})

    assert [each["name"] for each in await pages(server, "/resources/queues", "queues", 5)] == names
    down = await pages(server, "/resources/queues", "queues", 5, sort="-name")
    assert [each["name"] for each in down] == names[::-1]
    made = await pages(server, "/resources/queues", "queues", 5, sort="createdAt")
    assert sorted(each["name"] for each in made) == names
    configured = await pages(server, "/configure", "queues", 5)
    assert [each["queue"] for each in configured] == names
    overview = (await server.get("/resources/overview")).body
    assert (overview["queues"], overview["pending"]) == (12, 12)
    depths = (await server.get("/analytics/queue-depths")).body["queues"]
    assert [each["queue"] for each in depths] == names
    analytics = (await server.get("/analytics")).body
    assert analytics["queues"] == 12


async def test_messages_of_each_database(server: Server) -> None:
    await fill(server, 1, 2)

    for queue in QUEUES:
        listed = (await server.get("/messages", queue=queue)).body["messages"]
        assert [each["data"] for each in listed] == [2, 1]
        shown = await server.get(f"/messages/{listed[0]['id']}")
        assert (shown.status, shown.body["queue"]) == (200, queue)
        partition = listed[0]["partitionId"]
        trace: dict[str, Any] = {
            "partitionId": partition,
            "transactionId": "t",
            "data": {},
            "traceName": "order",
        }
        assert (await server.post("/traces", trace)).status == 201
        assert len((await server.get(f"/traces/{partition}/t")).body["traces"]) == 1
        assert (await server.delete(f"/messages/{listed[0]['id']}")).status == 200

    by_name = await pages(server, "/traces/by-name/order", "traces")
    assert {each["queue"] for each in by_name} == set(QUEUES)
    (name,) = await pages(server, "/traces/names", "names")
    assert (name["name"], name["count"]) == ("order", 3)


async def test_dead_letters_of_all_databases(server: Server) -> None:
    await fill(server)
    for queue in QUEUES:
        await dead_letter(server, queue)

    letters = await pages(server, "/dlq", "messages")
    ids = {each["queue"]: each["id"] for each in letters}
    assert sorted(ids) == sorted(QUEUES)
    times = [each["failedAt"] for each in letters]
    assert times == sorted(times, reverse=True)
    for queue, id_ in ids.items():
        assert (await server.get(f"/dlq/{id_}")).body["queue"] == queue
        assert len((await server.get("/dlq/errors", queue=queue)).body["errors"]) == 1
    assert (await server.get("/dlq/0.999999")).status == 404

    several = await server.post("/dlq/redrive", {"filter": {"ids": [*ids.values()]}})
    one = await server.post("/dlq/redrive", {"filter": {"ids": [ids[THREE]]}})
    filtered = await server.post("/dlq/redrive", {"filter": {"queue": TWO}})
    deleted = await server.delete(f"/dlq/{ids[ONE]}")

    assert (several.status, several.code) == (422, "cross_shard")
    assert (one.status, one.body["count"]) == (200, 1)
    assert filtered.status == 202
    assert deleted.status == 200


async def test_groups_of_all_databases(server: Server) -> None:
    await fill(server)
    for queue in QUEUES:
        assert len((await _pop(server, queue, "billing")).body["messages"]) == 1

    groups = await pages(server, "/consumer-groups", "consumerGroups", sort="name")
    assert sorted(each["queue"] for each in groups) == sorted(QUEUES)
    path = f"/consumer-groups/billing/queues/{TWO}"
    assert len((await server.get(f"{path}/partitions")).body["partitions"]) == 1
    assert (await server.post(f"{path}/seek", {"toStart": True})).status == 200
    deleted = await server.delete("/consumer-groups/billing")
    assert deleted.body["queues"] == sorted(QUEUES)


async def _pop(server: Server, queue: str, group: str) -> Reply:
    return await server.get(f"/pop/queue/{queue}", consumerGroup=group)


async def test_operations_and_schedules_of_all_databases(server: Server) -> None:
    await fill(server)
    for queue in QUEUES:
        body = {"name": f"every-{queue}", "queue": queue, "cron": "0 3 * * *", "payload": 1}
        assert (await server.post("/schedules", body)).status == 200
    moved = {"name": f"every-{ONE}", "queue": TWO, "cron": "0 3 * * *", "payload": 1}
    assert (await server.post("/schedules", moved)).code == "cross_shard"

    names = [each["name"] for each in await pages(server, "/schedules", "schedules")]
    assert names == sorted(f"every-{queue}" for queue in QUEUES)
    for queue in QUEUES:
        assert (await server.post(f"/schedules/every-{queue}/pause")).status == 200
        assert (await server.post(f"/schedules/every-{queue}/run")).status == 201
        assert (await server.delete(f"/schedules/every-{queue}")).status == 200
        started = await server.delete(f"/resources/queues/{queue}")
        assert started.status == 202
        id_ = started.body["operation"]["id"]
        assert (await server.get(f"/operations/{id_}")).body["operation"]["queue"] == queue
    listed = await pages(server, "/operations", "operations")
    assert {each["queue"] for each in listed} == set(QUEUES)


async def test_a_workflow_is_in_one_database(server: Server) -> None:
    (same,) = [name for name in named("three", 2) if name != THREE]
    for queue in (THREE, same, ONE):
        await server.post("/configure", {"queue": queue, "options": {"ordered": False}})

    def workflow(id_: str, second: str) -> dict[str, Any]:
        steps = [
            {"name": "a", "queue": THREE, "job": "one"},
            {"name": "b", "queue": second, "job": "two", "after": ["a"]},
        ]
        return {"name": "flow", "id": id_, "steps": steps}

    apart = await server.post("/workflows", workflow("w1", ONE))
    started = await server.post("/workflows", workflow("w2", same))

    assert (apart.status, apart.code) == (422, "cross_shard"), apart.body
    assert started.status == 201
    assert (await server.get("/workflows/w2")).body["state"] == "running"
    assert [each["id"] for each in await pages(server, "/workflows", "workflows")] == ["w2"]
    assert (await server.post("/workflows/w2/cancel", {})).status == 200


async def test_jobs_of_all_databases(queen: Queen, server: Server) -> None:
    for queue in QUEUES:
        reply = await server.post("/jobs", {"queue": queue, "name": "n", "data": 1})
        assert reply.status == 201
        id_ = reply.body["id"]
        assert (await server.get(f"/jobs/{queue}/{id_}")).body["status"] == "waiting"
        assert len((await server.get("/jobs", queue=queue)).body["jobs"]) == 1
    bulk = [{"queue": queue, "name": "n", "data": 2} for queue in QUEUES]
    assert (await server.post("/jobs/bulk", {"jobs": bulk})).status == 201
    metrics = await pages(server, "/jobs/metrics", "queues")
    assert {each["queue"]: each["waiting"] for each in metrics} == dict.fromkeys(QUEUES, 2)
    with pytest.raises(errors.QueueNotFound):
        await queen.queue("absent").pop()


async def test_maintenance_is_for_all_databases(server: Server) -> None:
    await fill(server)

    reply = await server.post("/system/maintenance/pop", {"enabled": True})
    assert reply.body["enabled"], reply.body
    async with asyncio.timeout(10):
        for queue in QUEUES:
            while (await server.get(f"/pop/queue/{queue}")).status == 200:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    reply = await server.get(f"/pop/queue/{TWO}")
    assert reply.headers["Queen-Reason"] == "maintenance"


async def test_metrics_and_readiness(server: Server) -> None:
    await fill(server, 1, 2)

    ready = await server.get("/readyz", verbose="1")
    assert ready.body["checks"] == {
        "draining": "ok",
        **{f"{check} {name}": "ok" for name in NAMES for check in ("database", "migrations")},
    }
    metrics = await server.request("GET", "/metrics", headers={"Accept": "application/json"})
    assert metrics.body["messages"]["total"] == 6
    assert (await server.get("/system/migrations")).body["pending"] == []
    assert len((await server.get("/system/upkeep")).body["duties"]) == 12
    assert (await server.get("/status/buffers")).status == 200
