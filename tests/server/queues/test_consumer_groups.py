"""Consumer groups: lag, positions, seek and delete."""

from typing import Any

import pytest

from tests.support.clock import Clock
from tests.support.server import Server, until
from tests.support.verbs import pages, pop, push, settle

IN_ORDERS = "/consumer-groups/g/queues/orders"


async def group_of(server: Server, **parameters: str | int) -> dict[str, Any]:
    (group,) = (await server.get("/consumer-groups", **parameters)).body["consumerGroups"]
    return group


async def test_a_group_shows_its_lag_in_messages_and_seconds(server: Server, clock: Clock) -> None:
    await push(server, "orders", 1)
    await clock.advance(seconds=30)
    await push(server, "orders", 2, 3)
    (first,) = await pop(server, "orders", consumerGroup="g")
    await clock.advance(seconds=10)

    before = await group_of(server)
    await settle(server, first)
    between = await group_of(server)
    for message in await pop(server, "orders", consumerGroup="g", batch=2):
        await settle(server, message)
    after = await group_of(server)

    assert (before["consumerGroup"], before["queue"], before["lag"]) == ("g", "orders", 3)
    assert (before["held"], before["waiting"]) == (1, 0)
    assert 40 <= before["lagSeconds"] < 50
    assert between["lag"] == 2
    assert 10 <= between["lagSeconds"] < 20
    assert (after["lag"], after["lagSeconds"]) == (0, 0)
    assert (after["subscriptionMode"], after["subscriptionFrom"]) == ("all", None)
    assert after["lastPopAt"] is None


async def test_groups_are_listed_in_pages_by_queue_and_by_lag(server: Server, clock: Clock) -> None:
    for queue in ("orders", "mails"):
        await push(server, queue, 1)
        for group in ("g", "h"):
            (message,) = await pop(server, queue, consumerGroup=group)
            if (queue, group) != ("orders", "h"):
                await settle(server, message)
    await clock.advance(seconds=20)

    every = await pages(server, "/consumer-groups", "consumerGroups", limit=3)
    of_queue = (await server.get("/consumer-groups", queue="orders")).body["consumerGroups"]
    late = await pages(server, "/consumer-groups", "consumerGroups", minLagSeconds=15, limit=1)

    assert [len(page) for page in every] == [3, 1]
    assert [each["consumerGroup"] for each in of_queue] == ["g", "h"]
    found = [each for page in late for each in page]
    assert [(each["queue"], each["consumerGroup"]) for each in found] == [("orders", "h")]
    named = (await server.get("/consumer-groups", queue="mails", consumerGroup="h")).body
    assert [(each["queue"], each["consumerGroup"]) for each in named["consumerGroups"]] == [
        ("mails", "h")
    ]


SORTED = {
    "createdAt": ["b", "c", "a"],
    "name": ["a", "b", "c"],
    "-name": ["c", "b", "a"],
    "-lag": ["c", "b", "a"],
    "-lagSeconds": ["c", "b", "a"],
}


async def test_groups_are_sorted_by_sampled_values(dsn: str) -> None:
    async with Server(dsn, {"QUEEN_SAMPLE_SECONDS": "0.1"}) as server:
        for n in range(3):
            await push(server, "orders", n)
        for group, settled in (("b", 2), ("c", 1), ("a", 3)):
            for _ in range(settled):
                (message,) = await pop(server, "orders", consumerGroup=group)
                await settle(server, message)
        for sort, groups in SORTED.items():

            async def is_so(sort: str = sort, groups: list[str] = groups) -> bool:
                found = await pages(
                    server, "/consumer-groups", "consumerGroups", sort=sort, limit=2
                )
                names = [[each["consumerGroup"] for each in page] for page in found]
                return names == [groups[:2], groups[2:]]

            await until(is_so, seconds=20)


async def test_pops_without_a_group_have_a_named_group(server: Server) -> None:
    await push(server, "orders", 1)
    await pop(server, "orders")

    assert (await group_of(server))["consumerGroup"] == "__QUEUE_MODE__"
    path = "/consumer-groups/__QUEUE_MODE__/queues/orders/seek"
    assert (await server.post(path, {"toStart": True})).status == 200
    assert len(await pop(server, "orders")) == 1


async def test_a_group_shows_its_position_in_each_partition(server: Server) -> None:
    await push(server, "orders", 1, 2, 3, partition="a")
    await push(server, "orders", 1, partition="b")
    first, _ = await pop(server, "orders", batch=2, consumerGroup="g")
    await settle(server, first)

    (a, b) = (await server.get(f"{IN_ORDERS}/partitions")).body["partitions"]
    behind = (await server.get(f"{IN_ORDERS}/partitions", minLag=2)).body["partitions"]
    paged = await pages(server, f"{IN_ORDERS}/partitions", "partitions", limit=1)

    assert (a["partition"], a["partitionId"]) == ("a", first["partitionId"])
    assert (a["position"], a["claimed"], a["nextOffset"], a["lag"]) == (1, 2, 3, 2)
    assert (a["lease"]["messages"], a["lease"]["consumerGroup"]) == (1, "g")
    assert (b["position"], b["claimed"], b["lag"], b["lease"]) == (0, 0, 1, None)
    assert [each["partition"] for each in behind] == ["a"]
    assert [each["partition"] for page in paged for each in page] == ["a", "b"]


@pytest.mark.parametrize(
    ("how", "left"),
    [
        ({"toStart": True}, [1, 2, 3]),
        ({"toEnd": True}, []),
        ({"timestamp": "2030-01-01T00:00:50Z"}, [2, 3]),
        ({"timestamp": "2030-01-01T02:00:50+02:00"}, [2, 3]),
    ],
)
@pytest.mark.parametrize("where", ["", "/partitions/a"])
async def test_a_group_seeks_to_a_time(
    server: Server, clock: Clock, how: dict[str, Any], left: list[int], where: str
) -> None:
    await push(server, "orders", 1, partition="a")
    await clock.advance(seconds=100)
    await push(server, "orders", 2, 3, partition="a")
    (held,) = await pop(server, "orders", consumerGroup="g")

    reply = await server.post(f"{IN_ORDERS}{where}/seek", how)

    assert (reply.status, reply.body["success"]) == (200, True)
    names = ("transactionId", "partitionId", "leaseId", "consumerGroup")
    assert (await server.post("/ack", {name: held[name] for name in names})).code == "lease_lost"
    found = await pop(server, "orders", consumerGroup="g", batch=10)
    assert [each["data"] for each in found] == left


async def test_a_group_seeks_to_an_offset_of_a_partition(server: Server) -> None:
    await push(server, "orders", 1, 2, 3, partition="x/y")
    await pop(server, "orders", consumerGroup="g", batch=3)

    reply = await server.post(f"{IN_ORDERS}/partitions/x%2Fy/seek", {"offset": 1})

    assert reply.body["partition"] == "x/y"
    found = await pop(server, "orders", consumerGroup="g", batch=10)
    assert [each["data"] for each in found] == [2, 3]


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"toStart": True, "toEnd": True},
        {"offset": 1},
        {"offset": -1},
        {"timestamp": "yesterday"},
        {"timestamp": "2030-01-01T00:00:50"},
        {"toBegin": True},
    ],
)
async def test_an_ambiguous_seek_is_rejected(server: Server, how: dict[str, Any]) -> None:
    await push(server, "orders", 1)
    await pop(server, "orders", consumerGroup="g")

    assert (await server.post(f"{IN_ORDERS}/seek", how)).code == "bad_request"


async def test_the_next_pop_recreates_a_deleted_group(server: Server) -> None:
    for queue in ("orders", "mails"):
        await push(server, queue, 1)
        (message,) = await pop(server, queue, consumerGroup="g")
        await settle(server, message)

    one = await server.delete(IN_ORDERS)
    again = await pop(server, "orders", consumerGroup="g")
    every = await server.delete("/consumer-groups/g")

    assert one.body == {"success": True, "consumerGroup": "g", "queues": ["orders"]}
    assert len(again) == 1
    assert every.body["queues"] == ["mails", "orders"]
    assert (await server.get("/consumer-groups")).body["consumerGroups"] == []


async def test_missing_groups_and_queues_are_not_found(server: Server) -> None:
    await push(server, "orders", 1)
    seek = {"toEnd": True}

    assert (await server.get("/consumer-groups", queue="nothing")).code == "queue_not_found"
    for path in ("/consumer-groups/g/queues/nothing", IN_ORDERS):
        code = "group_not_found" if path == IN_ORDERS else "queue_not_found"
        assert (await server.get(f"{path}/partitions")).code == code
        assert (await server.post(f"{path}/seek", seek)).code == code
        assert (await server.delete(path)).code == code
    assert (await server.delete("/consumer-groups/g")).code == "group_not_found"
    await pop(server, "orders", consumerGroup="g")
    gone = await server.post(f"{IN_ORDERS}/partitions/nothing/seek", seek)
    assert gone.code == "partition_not_found"
