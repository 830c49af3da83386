"""Acknowledgments that a client sends with its next pop."""

import asyncio
from typing import Any

import pytest

from tests.server.stream.streams import payloads, stream
from tests.support.callers import KEYS, Caller, make_key
from tests.support.calls import a_queue, configure, data, pop_one, push, says, settle
from tests.support.server import Reply, Server, until


async def next_one(server: Server, queue: str, *acknowledgments: object, **options: Any) -> Reply:  # noqa: ANN401 - JSON
    body = {"acknowledgments": acknowledgments, **options}
    return await server.post(f"/pop/queue/{queue}", body)


async def test_one_request_acknowledges_a_message_and_returns_the_next(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1, 2)
    first = await pop_one(shared, queue)

    reply = await next_one(shared, queue, says(first))

    assert reply.status == 200
    assert data(reply.body["messages"]) == [2]
    assert reply.body["acknowledged"]["success"] is True
    (result,) = reply.body["acknowledged"]["results"]
    assert (result["index"], result["transactionId"]) == (0, first["transactionId"])
    assert result["leaseReleased"] is True


async def test_the_body_may_name_the_source_and_the_layout(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1, 2)
    first = await pop_one(shared, queue)

    reply = await shared.post(
        "/pop", {"queue": queue, "layout": "runs", "acknowledgments": [says(first)]}
    )

    assert reply.body["runs"][0]["data"] == [2]
    assert reply.body["acknowledged"]["success"] is True


async def test_without_messages_it_still_returns_the_results(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1)
    first = await pop_one(shared, queue)

    reply = await next_one(shared, queue, says(first), wait=True, timeout=50)

    assert (reply.status, reply.body["messages"]) == (200, [])
    assert reply.body["acknowledged"]["success"] is True


async def test_a_rejected_acknowledgment_does_not_prevent_the_pop(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1, 2)
    first = await pop_one(shared, queue)
    await settle(shared, first)

    reply = await next_one(shared, queue, says(first, "failed"))

    assert data(reply.body["messages"]) == [2]
    assert reply.body["acknowledged"]["success"] is False
    (result,) = reply.body["acknowledged"]["results"]
    assert (result["code"], result["settled"]) == ("lease_lost", True)


async def test_an_invalid_acknowledgment_rejects_the_request(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1, 2)
    first = await pop_one(shared, queue)

    reply = await next_one(shared, queue, says(first, "lost"))

    assert (reply.status, reply.code) == (400, "invalid_status")
    assert await settle(shared, first)


async def test_a_repeated_request_finds_its_acknowledgments_applied(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1, 2, 3)
    first = says(await pop_one(shared, queue))
    (second,) = (await next_one(shared, queue, first)).body["messages"]

    again = await next_one(shared, queue, {**first, "leaseId": None}, says(second))

    assert [each["noop"] for each in again.body["acknowledged"]["results"]] == [True, False]
    assert data(again.body["messages"]) == [3]


async def test_an_empty_list_is_an_ordinary_pop(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1)

    reply = await next_one(shared, queue)

    assert set(reply.body) == {"messages"}
    assert (await next_one(shared, queue)).status == 204


async def test_a_paused_queue_accepts_acknowledgments(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1, 2)
    first = await pop_one(shared, queue)
    await configure(shared, queue, paused=True)

    async def is_paused() -> bool:
        reply = await shared.post(f"/pop/queue/{queue}")
        return reply.headers.get("Queen-Reason") == "paused"

    await until(is_paused)
    reply = await next_one(shared, queue, says(first))

    assert (reply.status, reply.headers["Queen-Reason"]) == (200, "paused")
    assert reply.body["acknowledged"]["success"] is True
    async with stream(shared) as opened:
        frame = await opened.call(pop={"queue": queue, "acknowledgments": [says(first)]})
    assert (frame["result"]["messages"], frame["result"]["reason"]) == ([], "paused")
    assert frame["result"]["acknowledged"]["results"][0]["settled"] is True


async def test_a_stream_acknowledges_with_its_next_pop(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1, 2)
    async with stream(shared) as opened:
        (first,) = (await opened.call(pop={"queue": queue}))["result"]["messages"]
        frame = await opened.call(pop={"queue": queue, "acknowledgments": [says(first)]})

    assert payloads(frame) == [2]
    assert frame["result"]["acknowledged"]["success"] is True


@pytest.mark.parametrize("is_waiting", [True, False])
@pytest.mark.parametrize("layout", ["messages", "runs"])
async def test_a_cancelled_pop_of_a_stream_returns_the_results_of_its_acknowledgments(
    shared: Server, layout: str, is_waiting: bool
) -> None:
    queue = a_queue()
    await push(shared, queue, 1)
    first = await pop_one(shared, queue)
    async with stream(shared) as opened:
        id_ = await opened.start(
            pop={"queue": queue, "wait": True, "layout": layout, "acknowledgments": [says(first)]}
        )

        async def waits() -> bool:
            metrics = (await shared.get("/metrics")).body.decode()
            return f'queen_waiters{{queue="{queue}"' in metrics

        if is_waiting:
            await until(waits)
        await opened.send({"cancel": id_})
        result = (await opened.answer(id_))["result"]

    assert (result[layout], result["reason"]) == ([], "cancelled")
    assert result["acknowledged"]["success"] is True
    assert (await shared.post("/ack", says(first))).code == "lease_lost"


@pytest.mark.parametrize("method", ["GET", "consume"])
async def test_only_a_single_pop_takes_acknowledgments(shared: Server, method: str) -> None:
    queue = a_queue()
    await push(shared, queue, 1)
    first = await pop_one(shared, queue)

    if method == "GET":
        reply = await shared.get(f"/pop/queue/{queue}", acknowledgments="[]")
        assert (reply.status, reply.code) == (400, "bad_request")
    else:
        async with stream(shared) as opened:
            frame = await opened.call(consume={"queue": queue, "acknowledgments": [says(first)]})
        assert frame["problem"]["code"] == "bad_request"


async def test_a_client_that_disconnects_while_it_waits_has_acknowledged(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1)
    first = await pop_one(shared, queue)
    waiting = asyncio.create_task(next_one(shared, queue, says(first), wait=True))

    async def is_settled() -> bool:
        return (await shared.post("/ack", says(first))).code == "lease_lost"

    await until(is_settled)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await push(shared, queue, 2)

    # The client that is gone doesn't take the next message.
    assert (await pop_one(shared, queue, wait=True, timeout=10_000))["data"] == 2


async def test_a_key_of_one_queue_may_not_acknowledge_in_another(dsn: str) -> None:
    async with Server(dsn, KEYS) as server:
        admin = Caller(server, await make_key(dsn))
        for queue in ("ours", "theirs"):
            await admin.push(queue, queue)
        (theirs,) = (await admin.post("/pop/queue/theirs")).body["messages"]
        scopes = [{"queue": "ours"}]
        ours = Caller(server, await make_key(dsn, role="read-write", scopes=scopes))

        reply = await ours.post("/pop/queue/ours", {"acknowledgments": [says(theirs)]})

        assert reply.status in (403, 404)
        popped = await ours.post("/pop/queue/ours")
        assert data(popped.body["messages"]) == ["ours"]
        assert (await admin.post("/ack", says(theirs))).status == 200
