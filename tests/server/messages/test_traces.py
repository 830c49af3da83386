"""Events that consumers record about messages."""

from typing import Any

import pytest

from tests.support.server import Server
from tests.support.verbs import pages, push


async def trace(server: Server, message: dict[str, Any], data: object, **fields: object) -> str:
    names = {name: message[name] for name in ("transactionId", "partitionId")}
    reply = await server.post("/traces", {**names, "data": data, **fields})
    assert (reply.status, reply.body["success"]) == (201, True)
    return reply.body["traceId"]


async def test_events_of_a_message_are_listed_in_time_order(server: Server) -> None:
    (message,) = await push(server, "orders", 1, transactionId="a/b", partition="p")
    first = await trace(server, message, {"step": 1}, traceName="tenant")
    await trace(server, message, "text", eventType="error", consumerGroup="g")
    await trace(server, message, None, traceNames=["x", "y"])
    path = f"/traces/{message['partitionId']}/a%2Fb"

    body = (await server.get(path)).body
    found = await pages(server, path, "traces", limit=2)

    one, two, three = body["traces"]
    assert (one["id"], one["data"], one["traceNames"]) == (first, {"step": 1}, ["tenant"])
    assert (one["eventType"], one["consumerGroup"]) == ("info", None)
    assert (one["queue"], one["partition"], one["transactionId"]) == ("orders", "p", "a/b")
    assert (two["eventType"], two["consumerGroup"], two["data"]) == ("error", "g", "text")
    assert (three["data"], three["traceNames"]) == (None, ["x", "y"])
    assert [len(page) for page in found] == [2, 1]


async def test_events_are_found_by_name_across_messages(server: Server) -> None:
    first, second = await push(server, "orders", 1, 2)
    await trace(server, first, 1, traceName="tenant/7")
    await trace(server, second, 2, traceNames=["tenant/7", "other", "other"])
    await trace(server, second, 3)

    found = await pages(server, "/traces/by-name/tenant%2F7", "traces", limit=1)

    assert [each["data"] for page in found for each in page if page] == [1, 2]
    assert (await server.get("/traces/by-name/nothing")).body == {"traces": [], "nextCursor": None}


async def test_names_are_listed_with_their_counts(server: Server) -> None:
    (message,) = await push(server, "orders", 1)
    for name in ("b1", "a1", "a2", "a1", "c"):
        await trace(server, message, 1, traceName=name)

    every = await pages(server, "/traces/names", "names", limit=2)
    some = (await server.get("/traces/names", prefix="a")).body

    assert [(each["name"], each["count"]) for page in every for each in page] == [
        ("a1", 2),
        ("a2", 1),
        ("b1", 1),
        ("c", 1),
    ]
    assert [each["name"] for each in some["names"]] == ["a1", "a2"]
    assert all(each["lastSeenAt"] for each in some["names"])
    assert some["nextCursor"] is None


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"data": ...}, 400, "bad_request"),
        ({"transactionId": ...}, 400, "bad_request"),
        ({"partitionId": ...}, 400, "bad_request"),
        ({"traceName": 7}, 400, "bad_request"),
        ({"colour": "red"}, 400, "bad_request"),
        ({"traceName": "n" * 256}, 400, "invalid_name"),
        ({"traceNames": ["\x01"]}, 400, "invalid_name"),
        ({"traceNames": ["n"] * 101}, 413, "too_many_items"),
        ({"data": "x" * 70_000}, 413, "payload_too_large"),
        ({"partitionId": "0.4711"}, 404, "partition_not_found"),
        ({"partitionId": "odd"}, 404, "partition_not_found"),
    ],
)
async def test_an_invalid_event_is_rejected(
    server: Server, change: dict[str, Any], status: int, code: str
) -> None:
    (message,) = await push(server, "orders", 1)
    body = {"transactionId": "t", "partitionId": message["partitionId"], "data": 1, **change}

    reply = await server.post(
        "/traces", {name: value for name, value in body.items() if value is not ...}
    )

    assert (reply.status, reply.code) == (status, code)


async def test_a_list_of_events_needs_an_existing_partition(server: Server) -> None:
    assert (await server.get("/traces/0.4711/t")).code == "partition_not_found"
    assert (await server.get("/traces/names", cursor="WzFd")).code == "bad_request"
    assert (await server.get("/traces/by-name/x", cursor="WyJhIl0")).code == "bad_request"
