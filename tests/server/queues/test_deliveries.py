"""Partitions and deliveries of a queue: offsets, leases, release."""

from tests.server.queues.test_queues import ODD, ODD_PATH
from tests.support.clock import Clock
from tests.support.server import Server
from tests.support.verbs import bury, finished, pages, pop, push, settle


async def test_partitions_are_listed_by_name_in_pages_and_by_prefix(server: Server) -> None:
    for name in ("a1", "a2", "a3", "b1"):
        await push(server, "orders", 1, partition=name)
    path = "/resources/queues/orders/partitions"

    every = await pages(server, path, "partitions", limit=3)
    some = await pages(server, path, "partitions", limit=2, prefix="a")

    assert [[each["name"] for each in page] for page in every] == [["a1", "a2", "a3"], ["b1"]]
    assert [each["name"] for page in some for each in page] == ["a1", "a2", "a3"]


async def test_a_partition_shows_its_offsets_and_its_lease(server: Server) -> None:
    await push(server, "orders", 1, 2, 3, partition="a")
    await push(server, "orders", 1, partition="b")
    message, _ = await pop(server, "orders", batch=2, consumerGroup="g")
    await push(server, "orders", 9, partition="c")
    done = await pop(server, "orders", consumerGroup="g")
    await settle(server, done[0])
    path = "/resources/queues/orders/partitions"

    body = (await server.get(path)).body["partitions"]
    states = {
        state: [each["name"] for each in (await server.get(path, state=state)).body["partitions"]]
        for state in ("leased", "ready", "idle")
    }

    held = body[0]
    assert (held["id"], held["name"]) == (message["partitionId"], "a")
    assert (held["firstOffset"], held["nextOffset"], held["pending"]) == (0, 3, 3)
    assert held["lease"] == {
        "consumerGroup": "g",
        "expiresAt": held["lease"]["expiresAt"],
        "attempt": 1,
        "messages": 2,
    }
    assert held["lastPushedAt"] is not None
    assert states == {"leased": ["a"], "ready": ["c"], "idle": ["b"]}


async def test_deliveries_show_leased_and_waiting_messages(server: Server, clock: Clock) -> None:
    await server.post("/configure", {"queue": "orders", "options": {"retryDelay": 60_000}})
    for name in ("a", "b", "c"):
        await push(server, "orders", 1, 2, partition=name)
    (failed,) = await pop(server, "orders", consumerGroup="g")
    await settle(server, failed, "failed", error="why")
    await pop(server, "orders", consumerGroup="g", batch=2)
    await pop(server, "orders", consumerGroup="h")
    path = "/resources/queues/orders/deliveries"

    found = await pages(server, path, "deliveries", limit=1)
    of_g = (await server.get(path, consumerGroup="g")).body["deliveries"]
    await clock.advance(seconds=400)
    late = (await server.get(path, consumerGroup="h")).body["deliveries"]

    assert len([each for page in found for each in page]) == 3
    assert {(each["partition"], each["state"], each["attempt"]) for each in of_g} == {
        ("a", "waiting", 2),
        ("b", "held", 1),
    }
    (waiting,) = (each for each in of_g if each["state"] == "waiting")
    assert (waiting["error"], waiting["messages"], waiting["firstOffset"]) == ("why", 1, 0)
    assert [each["state"] for each in late] == ["expired"]


async def test_deliveries_behind_another_one_are_listed_in_pages_too(server: Server) -> None:
    await push(server, "orders", *range(4))
    for _ in range(3):
        await bury(server, "orders")
    started = await server.post("/dlq/redrive", {"filter": {"queue": "orders"}})
    assert (await finished(server, started.body))["done"] == 3
    path = "/resources/queues/orders/deliveries"

    found = await pages(server, path, "deliveries", limit=1)

    states = [each["state"] for page in found for each in page]
    assert sorted(states) == ["parked", "parked", "waiting"]


async def test_deliveries_of_an_unknown_group_are_not_found(server: Server) -> None:
    await push(server, "orders", 1)

    reply = await server.get("/resources/queues/orders/deliveries", consumerGroup="unknown")

    assert (reply.status, reply.code) == (404, "group_not_found")


async def test_an_operator_can_release_a_delivery(server: Server) -> None:
    await push(server, ODD, 1, 2)
    (held,) = await pop(server, ODD_PATH)
    path = f"/resources/queues/{ODD_PATH}/deliveries"
    (delivery,) = (await server.get(path)).body["deliveries"]

    reply = await server.post(f"{path}/{delivery['id']}/release")

    assert (reply.status, reply.body) == (200, {"id": delivery["id"], "released": True})
    (again,) = await pop(server, ODD_PATH)
    assert (again["id"], again["attempt"]) == (held["id"], 1)
    late = await server.post(f"/lease/{held['leaseId']}/extend", {})
    assert late.code == "lease_lost"


async def test_a_delivery_without_a_lease_cannot_be_released(server: Server) -> None:
    await push(server, "orders", 1)
    await push(server, "others", 1)
    await pop(server, "others")
    (delivery,) = (await server.get("/resources/queues/others/deliveries")).body["deliveries"]

    for ref in (delivery["id"], "0.77", "x", "0.999999999999999999999", "9.1"):
        reply = await server.post(f"/resources/queues/orders/deliveries/{ref}/release")
        assert (reply.status, reply.code) == (409, "lease_lost")
