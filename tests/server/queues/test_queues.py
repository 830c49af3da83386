"""Queues as users see them: statistics, lists, sums, history."""

import pytest

from tests.support.clock import Clock
from tests.support.server import Server, until
from tests.support.verbs import bury, pages, pop, push, settle

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
