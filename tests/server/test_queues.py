"""Queues as users see them: statistics, partitions, deliveries, pause, purge, delete."""

from typing import Any

import pytest

from tests.support.clock import Clock
from tests.support.server import Server, until
from tests.support.verbs import bury, finished, pages, pop, push, settle

ODD = "a/b.c%2F ü"
ODD_PATH = "a%2Fb.c%252F%20%C3%BC"


async def names(server: Server, **parameters: str | int) -> list[str]:
    reply = await server.get("/resources/queues", **parameters)
    assert reply.status == 200, reply
    return [each["name"] for each in reply.body["queues"]]


async def test_a_queue_shows_its_statistics(server: Server, clock: Clock) -> None:
    await push(server, "orders", *range(3), partition="a")
    await push(server, "orders", 4, partition="b")
    await push(server, "orders", 5, delaySeconds=60)
    (first,) = await pop(server, "orders", consumerGroup="g")
    await settle(server, first, "dlq")
    await pop(server, "orders", consumerGroup="g")
    await clock.advance(seconds=10)

    body = (await server.get("/resources/queues/orders")).body

    assert (body["name"], body["version"], body["paused"]) == ("orders", 1, False)
    assert (body["partitions"], body["consumerGroups"], body["scheduled"]) == (3, 1, 1)
    assert (body["pending"], body["held"], body["waiting"], body["deadLetters"]) == (3, 1, 0, 1)
    assert 10 <= body["oldestAgeSeconds"] < 20
    assert body["options"]["leaseTime"] == 300
    (group,) = body["groups"]
    assert (group["consumerGroup"], group["lag"], group["held"]) == ("g", 3, 1)


async def test_an_empty_queue_has_nothing_pending_and_no_oldest_age(server: Server) -> None:
    await server.post("/configure", {"queue": "orders"})

    body = (await server.get("/resources/queues/orders")).body

    assert (body["pending"], body["partitions"], body["held"]) == (0, 0, 0)
    assert body["oldestAgeSeconds"] is None


async def test_messages_without_a_group_are_pending(server: Server) -> None:
    await push(server, "orders", *range(3), partition="a")
    await push(server, "orders", 1, partition="b")

    assert (await server.get("/resources/queues/orders")).body["pending"] == 4


async def test_a_count_over_too_many_partitions_is_null(server: Server) -> None:
    items = [{"queue": "wide", "partition": f"p{n}", "payload": n} for n in range(1002)]
    assert (await server.post("/push", {"items": items})).status == 201
    await pop(server, "wide")

    (queue,) = (await server.get("/resources/queues")).body["queues"]
    detail = (await server.get("/resources/queues/wide")).body
    overview = (await server.get("/resources/overview")).body
    (group,) = (await server.get("/consumer-groups")).body["consumerGroups"]

    assert (queue["partitions"], queue["pending"], queue["oldestAgeSeconds"]) == (None, None, None)
    assert (queue["held"], queue["consumerGroups"]) == (1, 1)
    assert (group["lag"], group["lagSeconds"], group["held"]) == (None, None, 1)
    assert (overview["partitions"], overview["pending"], overview["held"]) == (None, None, 1)
    assert (detail["partitions"], detail["pending"]) == (1002, 1002)


async def test_a_name_in_a_path_may_contain_any_character(server: Server) -> None:
    await push(server, ODD, 1, partition="x/y")

    body = (await server.get(f"/resources/queues/{ODD_PATH}")).body
    (partition,) = (await server.get(f"/resources/queues/{ODD_PATH}/partitions")).body["partitions"]

    assert (body["name"], partition["name"]) == (ODD, "x/y")


async def test_queues_are_listed_by_name_in_pages(server: Server) -> None:
    for name in ("b", "a", "d", "c", "e"):
        await server.post("/configure", {"queue": name})

    found = await pages(server, "/resources/queues", "queues", limit=2)

    assert [[each["name"] for each in page] for page in found] == [["a", "b"], ["c", "d"], ["e"]]


@pytest.mark.parametrize(
    ("sort", "order"),
    [("name", "abc"), ("-name", "cba"), ("createdAt", "bac"), ("-createdAt", "cab")],
)
async def test_queues_are_sorted_as_requested(server: Server, sort: str, order: str) -> None:
    for name in "bac":
        await server.post("/configure", {"queue": name})

    found = await pages(server, "/resources/queues", "queues", limit=2, sort=sort)

    assert [each["name"] for page in found for each in page] == list(order)


async def test_queues_are_filtered_by_namespace_task_and_part_of_the_name(server: Server) -> None:
    await server.post("/configure", {"queue": "Orders.eu", "namespace": "shop", "task": "bill"})
    await server.post("/configure", {"queue": "orders.us", "namespace": "shop", "task": "ship"})
    await server.post("/configure", {"queue": "mail", "namespace": "office"})

    assert await names(server, namespace="shop") == ["Orders.eu", "orders.us"]
    assert await names(server, task="ship") == ["orders.us"]
    assert await names(server, search="ORDERS") == ["Orders.eu", "orders.us"]
    assert await names(server, namespace="shop", search="eu") == ["Orders.eu"]
    assert await names(server, search="%") == []


async def test_namespaces_and_tasks_are_counted(server: Server) -> None:
    await server.post("/configure", {"queue": "a", "namespace": "shop", "task": "bill"})
    await server.post("/configure", {"queue": "b", "namespace": "shop"})
    await server.post("/configure", {"queue": "c", "namespace": "office"})
    await server.post("/configure", {"queue": "d"})

    found = await pages(server, "/resources/namespaces", "namespaces", limit=1)
    tasks = (await server.get("/resources/tasks")).body

    assert [(each["name"], each["queues"]) for page in found for each in page] == [
        ("office", 1),
        ("shop", 2),
    ]
    assert [(each["name"], each["queues"]) for each in tasks["tasks"]] == [("bill", 1)]
    assert tasks["nextCursor"] is None


async def test_a_namespace_sums_its_queues(server: Server) -> None:
    await server.post("/configure", {"queue": "a", "namespace": "shop"})
    await server.post("/configure", {"queue": "b", "namespace": "shop"})
    await push(server, "a", 1, 2)
    await push(server, "b", 1)
    await push(server, "c", 1)

    (shop,) = (await server.get("/resources/namespaces")).body["namespaces"]

    assert (shop["queues"], shop["pending"], shop["partitions"]) == (2, 3, 2)


async def test_the_overview_sums_all_queues(server: Server) -> None:
    await push(server, "a", 1, 2)
    await push(server, "b", 1)
    await server.post("/configure", {"queue": "c", "namespace": "n", "task": "t"})
    await bury(server, "b")

    body = (await server.get("/resources/overview")).body

    assert (body["queues"], body["namespaces"], body["tasks"]) == (3, 1, 1)
    assert (body["partitions"], body["pending"], body["deadLetters"]) == (2, 2, 1)


async def test_the_overview_lists_the_worst_queues_on_request(dsn: str) -> None:
    async with Server(dsn, {"QUEEN_SAMPLE_SECONDS": "600"}) as server:
        for name in ("waits", "waits-too", "waits-last", "done", "buried", "buried-too"):
            await push(server, name, 1)
        await bury(server, "buried")
        await push(server, "buried-too", 2)
        for _ in range(2):
            await bury(server, "buried-too")
        (done,) = await pop(server, "done")
        await settle(server, done, "completed")
        await server.post("/configure", {"queue": "still"})
        await server.post("/resources/queues/still/pause")

        async def worst_names(worst: int) -> list[str]:
            body = (await server.get("/resources/overview", worst=worst)).body
            return [each["name"] for each in body["worst"]]

        assert await worst_names(1) == ["waits", "buried-too", "still"]
        assert await worst_names(2) == ["waits", "waits-too", "buried-too", "buried", "still"]
        assert await worst_names(100) == [
            *("waits", "waits-too", "waits-last", "buried-too", "buried", "still")
        ]
        worst = (await server.get("/resources/overview", worst=1)).body["worst"]
        still = next(each for each in worst if each["name"] == "still")
        listed = (await server.get("/resources/queues", search="still")).body["queues"]
        assert [still] == listed

        assert (await server.get("/resources/overview")).body["worst"] == []
        assert (await server.get("/resources/overview", worst=101)).status == 400


async def test_the_worst_queues_are_found_beyond_the_limit_of_sums(dsn: str) -> None:
    async with Server(dsn, {"QUEEN_SAMPLE_SECONDS": "0.1"}) as server:
        items = [{"queue": f"q{n:04}", "payload": n} for n in range(1_001)]
        assert (await server.post("/push", {"items": items})).status == 201
        await bury(server, "q0500")

        async def is_sampled() -> bool:
            body = (await server.get("/resources/overview", worst=1)).body
            assert (body["queues"], body["pending"]) == (1_001, None)
            told = {each["name"]: each["deadLetters"] for each in body["worst"]}
            return len(told) == 2 and told.get("q0500") == 1

        await until(is_sampled, seconds=30)


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


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("GET", "/partitions"),
        ("GET", "/deliveries"),
        ("POST", "/pause"),
        ("POST", "/resume"),
        ("POST", "/purge"),
        ("DELETE", ""),
    ],
)
async def test_an_unknown_queue_is_not_found_and_not_created(
    server: Server, method: str, path: str
) -> None:
    body = {"scope": "all"} if path == "/purge" else None

    reply = await server.request(method, f"/resources/queues/nothing{path}", body)

    assert (reply.status, reply.code) == (404, "queue_not_found")
    assert await names(server) == []


@pytest.mark.parametrize(
    ("path", "parameters"),
    [
        ("/resources/queues", {"sort": "depth"}),
        ("/resources/queues", {"limit": "0"}),
        ("/resources/queues", {"cursor": "nonsense!"}),
        ("/resources/queues", {"cursor": "WzFd"}),
        ("/resources/queues", {"offset": "1"}),
        ("/resources/namespaces", {"cursor": "WzFd"}),
        ("/resources/queues/orders/partitions", {"state": "odd"}),
        ("/resources/queues/orders/partitions", {"prefix": "\x00"}),
        ("/resources/queues/orders/partitions", {"cursor": "WyJhIiwxMDAwMDAwXQ"}),
        ("/resources/queues/orders/deliveries", {"cursor": "WzFd"}),
        ("/resources/queues/%00", {}),
    ],
)
async def test_malformed_requests_are_rejected(
    server: Server, path: str, parameters: dict[str, str]
) -> None:
    await push(server, "orders", 1)

    reply = await server.get(path, **parameters)

    assert (reply.status, reply.code, reply.body["applied"]) == (400, "bad_request", False)


async def test_a_purge_needs_an_explicit_target(server: Server) -> None:
    await push(server, "orders", 1)
    path = "/resources/queues/orders/purge"

    assert (await server.post(path, {"scope": "some"})).code == "bad_request"
    assert (await server.post(path, {})).code == "bad_request"
    assert (await server.post(path, {"scope": "all", "olderThan": 1})).code == "bad_request"
    gone = await server.post(path, {"scope": "all", "partition": "nothing"})
    assert gone.code == "partition_not_found"


async def test_deliveries_of_an_unknown_group_are_not_found(server: Server) -> None:
    await push(server, "orders", 1)

    reply = await server.get("/resources/queues/orders/deliveries", consumerGroup="nobody")

    assert (reply.status, reply.code) == (404, "group_not_found")


async def test_a_limit_above_the_maximum_is_lowered(server: Server) -> None:
    await push(server, "orders", 1)

    assert len(await names(server, limit=1_000_000)) == 1


async def test_queues_are_sorted_by_sampled_values(dsn: str) -> None:
    async with Server(dsn, {"QUEEN_SAMPLE_SECONDS": "0.1"}) as server:
        for name, count in (("few", 1), ("many", 3), ("some", 2)):
            await push(server, name, *range(count))
        await bury(server, "few")

        async def is_sampled() -> bool:
            depths = (await server.get("/analytics/queue-depths")).body["queues"]
            found = {each["queue"]: (each["depth"], each["deadLetters"]) for each in depths}
            return found == {"few": (0, 1), "many": (3, 0), "some": (2, 0)}

        await until(is_sampled)
        found = await pages(server, "/resources/queues", "queues", sort="-pending", limit=1)

        assert [each["name"] for page in found for each in page] == ["many", "some", "few"]
        assert await names(server, sort="-deadLetters", limit=1) == ["few"]
        assert await names(server, sort="-oldestAgeSeconds") == ["many", "some", "few"]
        assert await names(server, sort="-pending", search="e") == ["some", "few"]
        many = (await server.get("/resources/queues/many")).body
        assert many["sampledPending"] == many["pending"]
        assert many["sampledOldestAgeSeconds"] is not None
        whole = (await server.get("/resources/overview")).body
        assert whole["sampledPending"] == whole["pending"]


async def test_the_history_of_a_queue_is_returned_on_request(dsn: str) -> None:
    async with Server(dsn, {"QUEEN_SAMPLE_SECONDS": "0.1"}) as server:
        await push(server, "orders", 1, 2)

        async def is_sampled() -> bool:
            (queue,) = (await server.get("/resources/queues", history="true")).body["queues"]
            assert len(queue["history"]) == 30
            return queue["history"][-2:] in ([None, 2], [2, 2], [2, None])

        await until(is_sampled)
        (queue,) = (await server.get("/resources/queues")).body["queues"]
        assert queue["history"] is None


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
