"""The API for a spread queue is the same as for one with one database."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.cluster.places import THREE, named
from tests.support.server import Server

PARTITIONS = [*named("main", 2), *named("two", 2), *named("three", 2)]
ALL = len(PARTITIONS)
QUEUE = "/resources/queues/orders"


@pytest.fixture
async def server(empty: dict[str, str]) -> AsyncIterator[Server]:
    async with Server(empty) as server:
        reply = await configure(server, placement="spread")
        assert reply == 200
        items = [{"queue": "orders", "partition": p, "payload": p} for p in PARTITIONS]
        assert (await server.post("/push", {"items": items})).status == 201
        yield server


async def configure(server: Server, queue: str = "orders", **options: Any) -> int:  # noqa: ANN401
    return (await server.post("/configure", {"queue": queue, "options": options})).status


async def pop(server: Server, **query: Any) -> list[Any]:  # noqa: ANN401
    found: list[Any] = []
    while True:
        reply = await server.get("/pop/queue/orders", batch=100, partitions=100, **query)
        assert reply.status in (200, 204), reply.body
        if reply.status == 204:
            return found
        found += reply.body["messages"]


async def body(server: Server, path: str, **query: Any) -> Any:  # noqa: ANN401
    reply = await server.get(path, **query)
    assert reply.status == 200, reply.body
    return reply.body


async def test_a_queue_and_its_groups_are_listed_once_with_all_counts(server: Server) -> None:
    await pop(server, consumerGroup="g", subscriptionMode="all")
    await server.post("/push", {"items": [{"queue": THREE, "payload": 1}]})

    for sort in ("name", "-name", "createdAt"):
        listed = (await body(server, "/resources/queues", sort=sort))["queues"]
        queues = {each["name"]: each for each in listed}
        assert len(listed) == 2
        assert [queues[name]["pending"] for name in ("orders", THREE)] == [ALL, 1]
    assert queues["orders"]["partitions"] == ALL
    (group,) = (await body(server, "/consumer-groups"))["consumerGroups"]
    assert (group["queue"], group["lag"], group["held"]) == ("orders", ALL, ALL)
    assert len((await body(server, "/configure"))["queues"]) == 2
    assert (await body(server, "/resources/overview"))["queues"] == 2
    detail = await body(server, QUEUE)
    assert (detail["pending"], detail["options"]["placement"]) == (ALL, "spread")
    assert [(each["consumerGroup"], each["lag"]) for each in detail["groups"]] == [("g", ALL)]


async def test_lists_of_a_queue_show_all_databases(server: Server) -> None:
    assert len(await pop(server, consumerGroup="g", subscriptionMode="all")) == ALL
    partitions: list[str] = []
    query: dict[str, Any] = {"limit": 2}
    while query.get("cursor", "") is not None:
        page = await body(server, f"{QUEUE}/partitions", **query)
        partitions += [each["name"] for each in page["partitions"]]
        query["cursor"] = page["nextCursor"]
    messages = (await body(server, "/messages", queue="orders"))["messages"]
    one = await body(server, "/messages", queue="orders", partition=PARTITIONS[-1])
    deliveries = (await body(server, f"{QUEUE}/deliveries"))["deliveries"]
    positions = await body(server, "/consumer-groups/g/queues/orders/partitions")

    assert partitions == sorted(PARTITIONS)
    assert sorted(each["data"] for each in messages) == sorted(PARTITIONS)
    assert [each["data"] for each in one["messages"]] == PARTITIONS[-1:]
    assert len(deliveries) == len(positions["partitions"]) == ALL


async def test_a_delivery_is_released_in_its_database(server: Server) -> None:
    await pop(server)
    for each in (await body(server, f"{QUEUE}/deliveries"))["deliveries"]:
        reply = await server.post(f"{QUEUE}/deliveries/{each['id']}/release")
        assert reply.status == 200, reply.body

    assert len(await pop(server)) == ALL


async def test_pause_seek_and_purge_apply_to_all_databases(server: Server) -> None:
    group = "/consumer-groups/g/queues/orders"
    assert len(await pop(server, consumerGroup="g", subscriptionMode="all")) == ALL
    assert (await server.post(f"{group}/seek", {"toStart": True})).status == 200
    assert (await server.post(f"{QUEUE}/pause")).status == 200
    assert await pop(server, consumerGroup="g") == []
    assert (await server.post(f"{QUEUE}/resume")).status == 200
    assert len(await pop(server, consumerGroup="g")) == ALL

    counted = await server.post(f"{QUEUE}/purge", {"scope": "all", "dryRun": True})
    assert counted.body["count"] == ALL
    one = await server.post(f"{group}/partitions/{PARTITIONS[-1]}/seek", {"toStart": True})
    assert one.status == 200, one.body
    assert len(await pop(server, consumerGroup="g")) == 1


async def test_dead_letters_of_all_databases(server: Server) -> None:
    for each in await pop(server):
        says = {"id": each["id"], "leaseId": each["leaseId"], "status": "dlq", "error": "x"}
        assert (await server.post("/ack", says)).body["success"]
    letters = (await body(server, "/dlq", queue="orders"))["messages"]
    (kind,) = (await body(server, "/dlq/errors", queue="orders"))["errors"]

    assert sorted(each["partition"] for each in letters) == sorted(PARTITIONS)
    assert kind["count"] == ALL
    for letter in letters[:-1]:
        filter_ = {"ids": [letter["id"]]}
        reply = await server.post("/dlq/redrive", {"filter": filter_})
        assert reply.status == 200, reply.body
    assert len(await pop(server)) == ALL - 1
    counted = await server.delete("/dlq?queue=orders&dryRun=true")
    assert counted.body["count"] == 1


async def test_delete_of_group_and_queue(server: Server) -> None:
    assert len(await pop(server, consumerGroup="g", subscriptionMode="all")) == ALL
    assert (await server.delete("/consumer-groups/g/queues/orders")).status == 200
    assert len(await pop(server, consumerGroup="g", subscriptionMode="all")) == ALL
    assert (await server.delete("/consumer-groups/g")).status == 200
    assert len(await pop(server, consumerGroup="g", subscriptionMode="all")) == ALL

    assert (await server.delete(QUEUE)).status == 202
    assert (await server.get(QUEUE)).status == 404
    items = [{"queue": "orders", "partition": p, "payload": "new"} for p in PARTITIONS]
    assert (await server.post("/push", {"items": items})).status == 201
    assert [each["data"] for each in await pop(server)] == ["new"] * ALL


async def test_what_does_not_work_is_rejected(server: Server) -> None:
    schedule = {"name": "s", "queue": "orders", "cron": "* * * * *", "payload": 1}
    for path, request in (
        ("/schedules", schedule),
        ("/dlq/redrive", {"filter": {"queue": "orders"}}),
        ("/jobs/clean", {"queue": "orders", "status": "failed", "graceSeconds": 1}),
        ("/workflows", {"name": "w", "steps": [{"name": "a", "queue": "orders", "job": "j"}]}),
    ):
        reply = await server.post(path, request)
        assert (reply.status, reply.body["code"]) == (422, "cross_shard"), (path, reply.body)
    assert await configure(server, maxSize=5) == 400
    assert await configure(server, placement="home") == 400


async def test_jobs_are_found_in_any_database(server: Server) -> None:
    await configure(server, "work", placement="spread", ordered=False)
    jobs = [{"queue": "work", "name": "n", "data": p, "key": p} for p in PARTITIONS]
    reply = await server.post("/jobs/bulk", {"jobs": jobs})
    assert reply.status == 201, reply.body
    added = reply.body["jobs"]

    for each in added:
        assert (await server.get(f"/jobs/work/{each['id']}")).status == 200, each
    assert (await server.post(f"/jobs/work/{added[-1]['id']}/cancel")).status == 200
    listed = (await body(server, "/jobs", queue="work"))["jobs"]
    assert len(listed) == ALL
    (metrics,) = (await body(server, "/jobs/metrics", queue="work"))["queues"]
    assert metrics["waiting"] == ALL - 1
