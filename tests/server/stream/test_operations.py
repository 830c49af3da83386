"""Operations of a stream have the results of the same requests over HTTP."""

from uuid import uuid4

import pytest

from tests.server.stream.streams import items, payloads, stream
from tests.support.server import Server, until


@pytest.fixture
def queue() -> str:
    return f"q-{uuid4().hex}"


async def test_a_push_returns_a_receipt_per_message(shared: Server, queue: str) -> None:
    async with stream(shared) as opened:
        frame = await opened.call(push=items(queue, 1, {"a": 2}))
    first, second = frame["result"]["messages"]
    assert (first["status"], second["status"]) == ("queued", "queued")
    assert (first["offset"], second["offset"]) == (0, 1)
    reply = await shared.post(f"/pop/queue/{queue}", {"batch": 2})
    assert [each["data"] for each in reply.body["messages"]] == [1, {"a": 2}]


async def test_a_repeated_push_of_a_producer_is_stored_once(shared: Server, queue: str) -> None:
    body = {**items(queue, 1), "producerId": f"p-{queue}", "sequence": 1}
    async with stream(shared) as opened:
        await opened.call(push=body)
    async with stream(shared) as opened:
        again = await opened.call(push=body)
        assert again["result"]["replayed"] is True
        stale = await opened.call(
            push={**items(queue, 2), "producerId": f"p-{queue}", "sequence": 1}
        )
        assert stale["problem"]["code"] == "sequence_reused"
        popped = await opened.call(pop={"queue": queue, "batch": 10})
    assert payloads(popped) == [1]


async def test_a_pop_without_messages_returns_none(shared: Server, queue: str) -> None:
    async with stream(shared) as opened:
        await opened.call(push=items(queue, 1))
        first = await opened.call(pop={"queue": queue})
        second = await opened.call(pop={"queue": queue})
    assert (payloads(first), payloads(second)) == ([1], [])


async def test_a_waiting_pop_returns_as_soon_as_a_message_arrives(
    shared: Server, queue: str
) -> None:
    async with stream(shared) as opened:
        await shared.post("/configure", {"queue": queue})
        waiting = await opened.start(pop={"queue": queue, "wait": True, "layout": "runs"})
        await opened.call(push=items(queue, "late"))
        frame = await opened.answer(waiting)
    assert frame["result"]["runs"][0]["data"] == ["late"]


async def test_a_cancelled_pop_returns_at_once_and_takes_no_message(
    shared: Server, queue: str
) -> None:
    async with stream(shared) as opened:
        await shared.post("/configure", {"queue": queue})
        waiting = await opened.start(pop={"queue": queue, "wait": True})
        await opened.send({"cancel": waiting})
        frame = await opened.answer(waiting)
        assert frame["result"] == {"messages": [], "reason": "cancelled"}
        await opened.call(push=items(queue, 1))
        assert payloads(await opened.call(pop={"queue": queue})) == [1]


async def test_acknowledgments_by_message_by_batch_and_by_lease(shared: Server, queue: str) -> None:
    async with stream(shared) as opened:
        for number in range(3):
            await opened.call(push={"items": [{"queue": queue, "payload": number}]})
        (one,) = (await opened.call(pop={"queue": queue}))["result"]["messages"]
        acked = await opened.call(ack={"id": one["id"], "leaseId": one["leaseId"]})
        assert acked["result"]["success"] is True
        (two,) = (await opened.call(pop={"queue": queue}))["result"]["messages"]
        batch = [{"id": two["id"], "leaseId": two["leaseId"], "status": "retry"}]
        acked = await opened.call(ackBatch={"acknowledgments": batch})
        assert acked["result"]["results"][0]["success"] is True
        (again,) = (await opened.call(pop={"queue": queue}))["result"]["messages"]
        assert (again["data"], again["attempt"]) == (1, 1)
        done = await opened.call(complete={"leaseId": again["leaseId"]})
        assert done["result"]["settled"] == 1
        late = await opened.call(complete={"leaseId": again["leaseId"]})
        assert late["problem"]["code"] == "lease_lost"
        assert payloads(await opened.call(pop={"queue": queue})) == [2]


async def test_a_nack_with_an_error_redelivers_the_message(shared: Server, queue: str) -> None:
    await shared.post("/configure", {"queue": queue, "options": {"retryDelay": 0}})
    async with stream(shared) as opened:
        await opened.call(push=items(queue, 1))
        (one,) = (await opened.call(pop={"queue": queue}))["result"]["messages"]
        nack = {"id": one["id"], "leaseId": one["leaseId"], "status": "failed", "error": "boom"}
        await opened.call(ack=nack)
        frame = await opened.call(pop={"queue": queue, "wait": True})
    assert frame["result"]["messages"][0]["attempt"] == 2


async def test_leases_are_extended_and_released(shared: Server, queue: str) -> None:
    async with stream(shared) as opened:
        await opened.call(push=items(queue, 1))
        (one,) = (await opened.call(pop={"queue": queue}))["result"]["messages"]
        extended = await opened.call(
            extend={"leaseIds": [one["leaseId"], "0.0.0.00"], "seconds": 60}
        )
        assert [each["success"] for each in extended["result"]["results"]] == [True, False]
        released = await opened.call(release={"leaseId": one["leaseId"]})
        assert released["result"]["leaseId"] == one["leaseId"]
        assert payloads(await opened.call(pop={"queue": queue})) == [1]


async def test_several_operations_ride_in_one_frame(shared: Server, queue: str) -> None:
    async with stream(shared) as opened:
        await opened.send([{"id": n, "push": items(queue, n)} for n in range(1, 21)])
        frames = [await opened.answer(n) for n in range(1, 21)]
    assert {each["result"]["messages"][0]["status"] for each in frames} == {"queued"}
    offsets = {each["result"]["messages"][0]["offset"] for each in frames}
    assert offsets == set(range(20))


async def test_a_rejected_operation_has_the_problem_of_http(shared: Server) -> None:
    async with stream(shared) as opened:
        frame = await opened.call(push=items("", 1))
        reply = await shared.post("/push", items("", 1))
        assert {**frame["problem"], "requestId": ""} == {**reply.body, "requestId": ""}
        frame = await opened.call(push={"items": [{"payload": 1}]})
        assert frame["problem"]["errors"][0]["pointer"] == "/items/0/queue"
        frame = await opened.call(pop={"queue": "q", "batch": 0})
        assert frame["problem"]["code"] == "bad_request"
        frame = await opened.call(ackBatch={"acknowledgments": []})
        assert frame["problem"]["code"] == "bad_request"


async def test_metrics_count_streams_frames_and_operations(server: Server) -> None:
    async with stream(server) as opened:
        await opened.call(push=items("q", 1))
        await opened.call(push=items("", 1))
        metrics = (await server.get("/metrics")).body.decode()
        assert "queen_stream_connections 1" in metrics
        assert 'queen_stream_frames_total{direction="received"} 2' in metrics
        assert 'queen_stream_frames_total{direction="sent"} 2' in metrics
        assert 'operation="push",status="200"} 1' in metrics
        assert 'operation="push",status="400"} 1' in metrics

    async def is_closed() -> bool:
        return "queen_stream_connections 0" in (await server.get("/metrics")).body.decode()

    await until(is_closed)


async def test_a_request_without_a_handshake_is_rejected(shared: Server) -> None:
    reply = await shared.get("/stream")
    assert (reply.status, reply.code) == (426, "upgrade_required")
    headers = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "8",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    reply = await shared.request("GET", "/stream", headers=headers)
    assert (reply.status, reply.code) == (426, "upgrade_required")


async def test_waiting_pops_do_not_block_a_burst_of_other_operations(server: Server) -> None:
    await server.post("/configure", {"queue": "idle"})
    async with stream(server) as opened:
        wait = {"queue": "idle", "wait": True, "timeout": 60_000}
        await opened.send([{"id": n, "pop": wait} for n in range(600)])
        for first in (1_000, 2_000):
            await opened.send(
                [{"id": n, "push": items("busy", n)} for n in range(first, first + 1_000)]
            )
        frames = [await opened.answer(n) for n in range(1_000, 3_000)]
    assert all("result" in each for each in frames)
