"""Dead letters over HTTP: list, count by error, redrive, purge."""

from typing import Any

import pytest

from tests.support.clock import Clock
from tests.support.server import Server
from tests.support.verbs import bury, finished, pages, pop, push


async def letters(server: Server, **parameters: str | int) -> list[Any]:
    """The payloads of the dead letters that a search returns."""
    reply = await server.get("/dlq", **parameters)
    assert reply.status == 200, reply
    return [each["data"] for each in reply.body["messages"]]


async def test_a_dead_letter_shows_all_fields_of_its_message(server: Server) -> None:
    (pushed,) = await push(
        server, "orders", {"n": 1}, transactionId="t", headers={"k": "v"}, partition="a"
    )
    await bury(server, "orders", "boom", consumerGroup="g")

    body = (await server.get("/dlq", queue="orders")).body

    (letter,) = body["messages"]
    assert (body["total"], body["nextCursor"]) == (1, None)
    assert (letter["messageId"], letter["transactionId"]) == (pushed["id"], "t")
    assert (letter["data"], letter["headers"]) == ({"n": 1}, {"k": "v"})
    assert (letter["queue"], letter["partition"], letter["consumerGroup"]) == ("orders", "a", "g")
    assert (letter["errorMessage"], letter["reason"], letter["attempts"]) == ("boom", "dead", 1)
    assert (await server.get(f"/dlq/{letter['id']}")).body == letter


async def test_dead_letters_are_listed_newest_first_in_pages(server: Server) -> None:
    await push(server, "orders", *range(5))
    for _ in range(5):
        await bury(server, "orders")

    found = await pages(server, "/dlq", "messages", queue="orders", limit=2)
    every = await pages(server, "/dlq", "messages", limit=2)

    assert [[each["data"] for each in page] for page in found] == [[4, 3], [2, 1], [0]]
    assert found == every


@pytest.mark.parametrize("parameters", [{"queue": "orders"}, {}])
async def test_dead_letters_are_listed_oldest_first(
    server: Server, parameters: dict[str, str]
) -> None:
    await push(server, "orders", *range(5))
    for _ in range(5):
        await bury(server, "orders", consumerGroup="g")
    await push(server, "mails", "m")
    await bury(server, "mails", consumerGroup="h")

    found = await pages(
        server, "/dlq", "messages", sort="failedAt", consumerGroup="g", limit=2, **parameters
    )

    assert [[each["data"] for each in page] for page in found] == [[0, 1], [2, 3], [4]]


async def test_dead_letters_are_filtered_by_all_fields(server: Server, clock: Clock) -> None:
    await push(server, "orders", "a", partition="a")
    await bury(server, "orders", "order 17 failed", consumerGroup="g")
    await bury(server, "orders", "order 18 failed", consumerGroup="h")
    await clock.advance(seconds=100)
    await push(server, "orders", "b", partition="b")
    letter = await bury(server, "orders", "timeout", consumerGroup="g")
    await push(server, "mails", "m")
    await bury(server, "mails")

    assert await letters(server) == ["m", "b", "a", "a"]
    assert await letters(server, queue="orders", consumerGroup="h") == ["a"]
    assert await letters(server, queue="orders", partition="b") == ["b"]
    assert await letters(server, queue="orders", fingerprint=letter["fingerprint"]) == ["b"]
    assert await letters(server, **{"from": "2030-01-01T00:00:50Z"}) == ["m", "b"]
    assert await letters(server, queue="orders", to="2030-01-01T00:00:50Z") == ["a", "a"]
    assert await letters(server, queue="nothing") == []
    total = (await server.get("/dlq", queue="orders", partition="a")).body["total"]
    assert total == 2


async def test_errors_that_differ_only_in_numbers_are_grouped(server: Server, clock: Clock) -> None:
    await push(server, "orders", *range(4))
    await bury(server, "orders", "order 17 failed at 0xdeadbeef")
    await clock.advance(seconds=10)
    await bury(server, "orders", "order 4711 failed at 0xcafebabe99")
    for _ in range(2):
        await bury(server, "orders", "timeout")

    body = (await server.get("/dlq/errors", queue="orders")).body

    assert (body["scanned"], body["complete"]) == (4, True)
    assert sorted((each["count"], each["sample"]) for each in body["errors"]) == [
        (2, "order 4711 failed at 0xcafebabe99"),
        (2, "timeout"),
    ]
    order = next(each for each in body["errors"] if each["sample"].startswith("order"))
    assert order["firstAt"] < order["lastAt"]
    assert len(await letters(server, queue="orders", fingerprint=order["fingerprint"])) == 2


async def test_a_dry_run_only_counts(server: Server) -> None:
    await push(server, "orders", *range(3))
    ids = [(await bury(server, "orders"))["id"] for _ in range(3)]

    by_filter = {"filter": {"queue": "orders"}, "dryRun": True}
    by_ids = {"filter": {"ids": [*ids[:2], "0.4711", "odd"]}, "dryRun": True}

    assert (await server.post("/dlq/redrive", by_filter)).body == {"count": 3, "complete": True}
    assert (await server.post("/dlq/redrive", by_ids)).body == {"count": 2, "complete": True}
    purged = await server.delete("/dlq?queue=orders&partition=Default&dryRun=true")
    assert (purged.status, purged.body) == (200, {"count": 3, "complete": True})
    nothing = await server.delete("/dlq?queue=orders&partition=other&dryRun=true")
    assert nothing.body == {"count": 0, "complete": True}
    assert len(await letters(server)) == 3


async def test_dead_letters_are_purged_by_id_and_the_others_stay(server: Server) -> None:
    await push(server, "orders", *range(3))
    ids = [(await bury(server, "orders"))["id"] for _ in range(3)]
    chosen = {"filter": {"ids": [*ids[:2], "0.4711", "odd"]}}

    dry = await server.post("/dlq/purge", {**chosen, "dryRun": True})
    purged = await server.post("/dlq/purge", chosen)
    again = await server.post("/dlq/purge", chosen)

    assert [each.status for each in (dry, purged, again)] == [200, 200, 200]
    assert [each.body["count"] for each in (dry, purged, again)] == [2, 2, 0]
    assert await letters(server) == [2]


async def test_an_operation_purges_many_ids(server: Server) -> None:
    await server.post("/configure", {"queue": "orders", "options": {"ordered": False}})
    await push(server, "orders", *range(502))
    messages = await pop(server, "orders", batch=502)
    told = [
        {
            **{name: each[name] for name in ("transactionId", "partitionId", "leaseId")},
            "status": "dlq",
        }
        for each in messages
    ]
    await server.post("/ack/batch", {"acknowledgments": told})
    found = await pages(server, "/dlq", "messages", queue="orders", limit=1000)
    ids = [each["id"] for page in found for each in page]

    reply = await server.post("/dlq/purge", {"filter": {"ids": ids[:501]}})
    operation = await finished(server, reply.body)

    assert (reply.status, operation["done"], operation["total"]) == (202, 501, 501)
    assert len(await letters(server, queue="orders")) == 1


async def test_a_purge_by_filter_equals_a_delete(server: Server) -> None:
    await push(server, "orders", 1, partition="a")
    await push(server, "orders", 2, partition="b")
    for _ in range(2):
        await bury(server, "orders")

    both = await server.post("/dlq/purge", {"filter": {"queue": "orders", "ids": []}})
    neither = await server.post("/dlq/purge", {"filter": {}})
    reply = await server.post("/dlq/purge", {"filter": {"queue": "orders", "partition": "a"}})

    assert (both.code, neither.code) == ("bad_request", "bad_request")
    assert (await finished(server, reply.body))["done"] == 1
    assert await letters(server) == [2]


async def test_dead_letters_are_redriven_by_id_to_their_group(server: Server) -> None:
    await push(server, "orders", 1)
    letter = await bury(server, "orders", consumerGroup="g")
    (other,) = await pop(server, "orders", consumerGroup="h")

    reply = await server.post("/dlq/redrive", {"filter": {"ids": [letter["id"]]}})

    assert (reply.status, reply.body) == (200, {"count": 1, "complete": True})
    assert await letters(server) == []
    (again,) = await pop(server, "orders", consumerGroup="g")
    assert (again["id"], again["attempt"]) == (letter["messageId"], 1)
    assert other["data"] == 1
    assert await pop(server, "orders", consumerGroup="h") == []


async def test_an_operation_redrives_matching_dead_letters(server: Server) -> None:
    await server.post("/configure", {"queue": "orders", "options": {"ordered": False}})
    await push(server, "orders", *range(6))
    for n in range(6):
        await bury(server, "orders", "keep" if n % 2 else "go")
    kinds = (await server.get("/dlq/errors", queue="orders")).body["errors"]
    go = next(each["fingerprint"] for each in kinds if each["sample"] == "go")

    reply = await server.post("/dlq/redrive", {"filter": {"queue": "orders", "fingerprint": go}})
    operation = await finished(server, reply.body)

    assert reply.status == 202
    assert (operation["kind"], operation["state"]) == ("redrive", "done")
    assert (operation["done"], operation["total"], operation["queue"]) == (3, 3, "orders")
    again = await pop(server, "orders", batch=10, partitions=10)
    assert sorted(each["data"] for each in again) == [0, 2, 4]
    assert await letters(server) == [5, 3, 1]


@pytest.mark.parametrize("by_ids", [True, False])
async def test_a_redrive_to_another_queue_creates_messages_that_link_to_the_old_ones(
    server: Server, by_ids: bool
) -> None:
    await server.post("/configure", {"queue": "repair"})
    await push(server, "orders", {"n": 1}, transactionId="t", headers={"k": "v"}, traceId="x")
    letter = await bury(server, "orders")
    which = {"ids": [letter["id"]]} if by_ids else {"queue": "orders"}

    reply = await server.post(
        "/dlq/redrive",
        {"filter": which, "destination": {"queue": "repair", "partition": "p"}},
    )
    if not by_ids:
        assert (await finished(server, reply.body))["done"] == 1

    assert await letters(server) == []
    assert await pop(server, "orders") == []
    (new,) = await pop(server, "repair")
    assert (new["data"], new["partition"], new["traceId"]) == ({"n": 1}, "p", "x")
    assert new["headers"] == {"k": "v", "queen-redriven-from": letter["messageId"]}
    assert new["id"] != letter["messageId"]


async def test_a_redrive_at_a_rate_runs_until_it_is_cancelled(server: Server) -> None:
    await server.post("/configure", {"queue": "orders", "options": {"ordered": False}})
    await push(server, "orders", *range(5))
    for _ in range(5):
        await bury(server, "orders")

    body = {"filter": {"queue": "orders"}, "ratePerSecond": 0.1}
    operation = (await server.post("/dlq/redrive", body)).body["operation"]
    path = f"/operations/{operation['id']}"
    cancelled = await server.delete(path)

    assert cancelled.body["operation"]["state"] == "cancelled"
    assert len(await letters(server)) >= 4
    assert (await server.get(path)).body["operation"]["finishedAt"] is not None


async def test_one_dead_letter_is_purged(server: Server) -> None:
    await push(server, "orders", 1, 2)
    first = await bury(server, "orders")
    await bury(server, "orders")

    assert (await server.delete(f"/dlq/{first['id']}")).body == {"count": 1, "complete": True}

    assert await letters(server) == [2]
    assert (await server.delete(f"/dlq/{first['id']}")).code == "not_found"


async def test_an_operation_purges_matching_dead_letters(server: Server) -> None:
    await push(server, "orders", *range(4))
    for n in range(4):
        await bury(server, "orders", consumerGroup="g" if n else "h")

    reply = await server.delete("/dlq", queue="orders", consumerGroup="g")
    operation = await finished(server, reply.body)

    assert reply.status == 202
    assert (operation["done"], operation["state"]) == (3, "done")
    assert [each["consumerGroup"] for each in (await server.get("/dlq")).body["messages"]] == ["h"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"filter": {}},
        {"filter": {"consumerGroup": "g"}},
        {"filter": {"queue": "orders", "ids": ["0.1"]}},
        {"filter": {"queue": "orders", "colour": "red"}},
        {"filter": {"queue": "orders"}, "ratePerSecond": 0},
        {"filter": {"queue": "orders"}, "destination": {}},
        {"filter": {"queue": "orders", "from": "never"}},
    ],
)
async def test_an_ambiguous_redrive_is_rejected(server: Server, body: dict[str, Any]) -> None:
    assert (await server.post("/dlq/redrive", body)).code == "bad_request"


async def test_missing_dead_letters_and_queues_are_not_found(server: Server) -> None:
    for path in ("/dlq/0.4711", "/dlq/nonsense"):
        assert (await server.get(path)).code == "not_found"
        assert (await server.delete(path)).code == "not_found"
    body = {"filter": {"queue": "orders"}, "destination": {"queue": "nothing"}}
    assert (await server.post("/dlq/redrive", body)).code == "queue_not_found"
    body = {"filter": {"queue": "orders"}, "destination": {"queue": "__ours"}}
    assert (await server.post("/dlq/redrive", body)).code == "invalid_name"
    assert (await server.delete("/dlq")).code == "bad_request"
    assert (await server.get("/dlq/errors")).code == "bad_request"
    assert (await server.get("/dlq", cursor="WyJhIl0")).code == "bad_request"


async def test_too_many_ids_are_rejected(dsn: str) -> None:
    async with Server(dsn, {"QUEEN_MAX_ITEMS": "2"}) as server:
        reply = await server.post("/dlq/redrive", {"filter": {"ids": ["0.1", "0.2", "0.3"]}})

        assert (reply.status, reply.code) == (413, "too_many_items")
