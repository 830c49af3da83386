"""Pause, purge and delete a queue."""

from typing import Any

import pytest

from tests.support.clock import Clock
from tests.support.server import Server
from tests.support.verbs import bury, finished, pop, push, settle


async def test_a_paused_queue_delivers_no_messages_until_it_is_resumed(server: Server) -> None:
    await push(server, "orders", 1)

    assert (await server.post("/resources/queues/orders/pause")).body == {"paused": True}
    assert await pop(server, "orders") == []
    assert (await server.get("/resources/queues/orders")).body["paused"] is True
    assert (await server.post("/resources/queues/orders/resume")).body == {"paused": False}
    assert len(await pop(server, "orders")) == 1


async def test_a_purge_of_all_messages_ends_leases(server: Server) -> None:
    await push(server, "orders", *range(5))
    (held,) = await pop(server, "orders")

    reply = await server.post("/resources/queues/orders/purge", {"scope": "all"})
    operation = await finished(server, reply.body)

    assert reply.status == 202
    assert (operation["kind"], operation["state"], operation["done"]) == ("purge", "done", 5)
    assert await pop(server, "orders") == []
    names = ("transactionId", "partitionId", "leaseId")
    ack = await server.post("/ack", {name: held[name] for name in names})
    assert ack.code == "lease_lost"


async def test_a_purge_of_completed_messages_keeps_the_rest(server: Server) -> None:
    await push(server, "orders", 1)
    await push(server, "orders", 2)
    (first,) = await pop(server, "orders")
    await settle(server, first)

    reply = await server.post("/resources/queues/orders/purge", {"scope": "completed"})

    assert (await finished(server, reply.body))["done"] == 1
    assert [each["data"] for each in await pop(server, "orders")] == [2]


async def test_a_purge_can_be_limited_by_partition_and_age(server: Server, clock: Clock) -> None:
    await push(server, "orders", "old", partition="a")
    await push(server, "orders", "old", partition="b")
    await clock.advance(seconds=100)
    await push(server, "orders", "new", partition="a")

    reply = await server.post(
        "/resources/queues/orders/purge",
        {"scope": "all", "olderThanSeconds": 50, "partition": "a"},
    )

    assert (await finished(server, reply.body))["done"] == 1
    left = await pop(server, "orders", batch=10, partitions=10)
    assert sorted((each["partition"], each["data"]) for each in left) == [
        ("a", "new"),
        ("b", "old"),
    ]


@pytest.mark.parametrize(
    "purge",
    [
        {"scope": "all"},
        {"scope": "completed"},
        {"scope": "all", "olderThanSeconds": 50},
        {"scope": "completed", "olderThanSeconds": 50},
        {"scope": "all", "partition": "a"},
        {"scope": "completed", "partition": "b"},
    ],
)
async def test_a_dry_run_counts_the_messages_of_a_purge(
    server: Server, clock: Clock, purge: dict[str, Any]
) -> None:
    for partition in "abc":
        await push(server, "orders", 1, 2, partition=partition)
        await push(server, "orders", 3, partition=partition)
    for _ in range(2):
        for message in await pop(server, "orders", batch=4, partitions=2):
            await settle(server, message)
    emptied = await server.post(
        "/resources/queues/orders/purge", {"scope": "all", "partition": "c"}
    )
    await finished(server, emptied.body)
    await clock.advance(seconds=100)
    for partition in "abc":
        await push(server, "orders", 4, 5, partition=partition)
        await push(server, "orders", 6, partition=partition, delaySeconds=60)

    dry = await server.post("/resources/queues/orders/purge", {**purge, "dryRun": True})
    again = await server.post("/resources/queues/orders/purge", {**purge, "dryRun": True})
    reply = await server.post("/resources/queues/orders/purge", purge)

    assert (dry.status, again.body) == (200, dry.body)
    done = (await finished(server, reply.body))["done"]
    assert done > 0
    assert dry.body == {"count": done, "complete": True}


async def test_a_dry_run_counts_scheduled_messages_in_some_hundred_partitions(
    server: Server,
) -> None:
    await push(server, "orders", 1, partition="a")
    await push(server, "orders", 2, partition="a", delaySeconds=60)
    path, purge = "/resources/queues/orders/purge", {"scope": "all", "dryRun": True}
    assert (await server.post(path, purge)).body == {"count": 2, "complete": True}

    items = [{"queue": "orders", "partition": str(n), "payload": n} for n in range(250)]
    await server.post("/push", {"items": items})

    assert (await server.post(path, purge)).body == {"count": 251, "complete": False}


async def test_a_deleted_queue_disappears_immediately_and_its_dead_letters_stay(
    server: Server,
) -> None:
    await push(server, "orders", 1, 2)
    await bury(server, "orders")

    reply = await server.delete("/resources/queues/orders")

    assert (reply.status, reply.body["operation"]["kind"]) == (202, "delete")
    assert (await server.get("/resources/queues/orders")).code == "queue_not_found"
    assert (await server.get("/pop/queue/orders")).code == "queue_not_found"
    assert (await finished(server, reply.body))["state"] == "done"
    assert len((await server.get("/dlq", queue="orders")).body["messages"]) == 1
    await push(server, "orders", "new")
    assert [each["data"] for each in await pop(server, "orders")] == ["new"]


async def test_a_purge_needs_an_explicit_target(server: Server) -> None:
    await push(server, "orders", 1)
    path = "/resources/queues/orders/purge"

    assert (await server.post(path, {"scope": "some"})).code == "bad_request"
    assert (await server.post(path, {})).code == "bad_request"
    assert (await server.post(path, {"scope": "all", "olderThan": 1})).code == "bad_request"
    gone = await server.post(path, {"scope": "all", "partition": "nothing"})
    assert gone.code == "partition_not_found"
