"""Subscriptions: deliveries that the server sends while the client grants credit."""

import asyncio
import contextlib
import json
import re
from uuid import uuid4

import pytest

from queen.wire import websocket
from tests.server.stream.streams import Stream, items, payloads, stream, upgraded
from tests.support.server import Server, until


@pytest.fixture
def queue() -> str:
    return f"q-{uuid4().hex}"


async def push_each(opened: Stream, queue: str, count: int) -> None:
    """Push one message to each of several partitions."""
    await opened.call(
        push={"items": [{"queue": queue, "partition": f"p{n}", "payload": n} for n in range(count)]}
    )


async def test_a_subscription_sends_at_most_its_credit(shared: Server, queue: str) -> None:
    async with stream(shared) as opened:
        await push_each(opened, queue, 10)
        id_ = await opened.start(consume={"queue": queue, "credit": 3})
        first = [payloads(await opened.answer(id_)) for _ in range(3)]
        # A pop after them shows that the other messages were not taken.
        rest = await opened.call(pop={"queue": queue, "batch": 100, "partitions": 100})
        assert len(payloads(rest)) == 7
        assert sorted([each for (each,) in first] + payloads(rest)) == list(range(10))


async def test_credit_continues_a_subscription(shared: Server, queue: str) -> None:
    async with stream(shared) as opened:
        await push_each(opened, queue, 4)
        id_ = await opened.start(consume={"queue": queue, "batch": 2, "partitions": 2})
        found: list[int] = []
        while len(found) < 4:
            await opened.send({"credit": {"id": id_, "messages": 1}})
            frame = await opened.answer(id_)
            assert len(frame["messages"]) == 1
            found += payloads(frame)
        assert sorted(found) == [0, 1, 2, 3]


async def test_messages_are_sent_as_they_arrive(shared: Server, queue: str) -> None:
    async with stream(shared) as opened, stream(shared) as producer:
        await producer.call(push=items(queue, 0))
        id_ = await opened.start(consume={"queue": queue, "credit": 100, "batch": 10})
        for number in range(5):
            frame = await opened.answer(id_)
            assert payloads(frame) == [number]
            await opened.call(complete={"leaseId": frame["messages"][0]["leaseId"]})
            await producer.call(push=items(queue, number + 1))


async def test_a_subscription_reports_that_no_message_arrived(shared: Server, queue: str) -> None:
    await shared.post("/configure", {"queue": queue})
    async with stream(shared) as opened:
        id_ = await opened.start(consume={"queue": queue, "credit": 1, "timeout": 50})
        assert payloads(await opened.answer(id_)) == []
        await opened.call(push=items(queue, 1))
        while not (found := payloads(await opened.answer(id_))):
            pass
        assert found == [1]


async def frames_in(opened: Stream, id_: int, seconds: float) -> int:
    """How many frames with this id arrive in this time."""
    count = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while True:
                await opened.answer(id_)
                count += 1
    return count


async def searches(server: Server) -> int:
    """How many times the server has searched for messages of pops."""
    text = (await server.get("/metrics")).body.decode()
    pattern = r'^queen_flush_seconds_count\{kind="pop"\} (\S+)$'
    return sum(int(float(each)) for each in re.findall(pattern, text, re.MULTILINE))


async def test_a_subscription_without_a_timeout_neither_searches_nor_reports_continuously(
    server: Server,
) -> None:
    await server.post("/configure", {"queue": "q"})
    async with stream(server) as opened:
        id_ = await opened.start(consume={"queue": "q", "credit": 1, "timeout": 0})
        before = await searches(server)
        assert await frames_in(opened, id_, 2.5) <= 3
        assert await searches(server) - before < 20
        # A message that arrives meanwhile does not wait for the next search.
        await opened.call(push=items("q", 1))
        while not (found := payloads(await opened.answer(id_))):
            pass
        assert found == [1]
        assert await searches(server) > before


async def test_while_pops_are_off_a_subscription_reports_it_once_per_second(
    server: Server, queue: str
) -> None:
    await server.post("/push", items(queue, 1))
    await server.post("/system/maintenance/pop", {"enabled": True})

    async def is_off() -> bool:
        reply = await server.post(f"/pop/queue/{queue}", {"consumerGroup": "other"})
        return reply.headers.get("Queen-Reason") == "maintenance"

    await until(is_off)
    async with stream(server) as opened:
        id_ = await opened.start(consume={"queue": queue, "credit": 100})
        assert (await opened.answer(id_))["reason"] == "maintenance"
        assert await frames_in(opened, id_, 2.5) <= 3
        await server.post("/system/maintenance/pop", {"enabled": False})
        while not (found := payloads(await opened.answer(id_))):
            pass
        assert found == [1]
        await opened.send({"cancel": id_})
        assert (await opened.answer(id_))["result"] == {}


async def test_a_cancelled_subscription_ends_with_an_empty_result(
    shared: Server, queue: str
) -> None:
    async with stream(shared) as opened:
        await shared.post("/configure", {"queue": queue})
        id_ = await opened.start(consume={"queue": queue, "credit": 5})
        await opened.send({"cancel": id_})
        assert (await opened.answer(id_))["result"] == {}
        await opened.call(push=items(queue, 1))
        assert payloads(await opened.call(pop={"queue": queue})) == [1]
        # The id is free again, and credit for a subscription that has ended is ignored.
        await opened.send({"credit": {"id": id_, "messages": 5}})
        assert "result" in await opened.call(push=items(queue, 2))


async def test_a_rejected_subscription_ends_with_a_problem(shared: Server) -> None:
    async with stream(shared) as opened:
        frame = await opened.call(consume={"credit": 1})
        assert frame["problem"]["code"] == "bad_request"
        id_ = await opened.start(consume={"queue": "absent", "credit": 2, "timeout": 0})
        assert (await opened.answer(id_))["problem"]["code"] == "queue_not_found"


async def test_sent_messages_stay_leased_and_waiting_pops_end_with_the_connection(
    server: Server,
) -> None:
    async with stream(server) as opened:
        await opened.call(push=items("q", "sent"))
        id_ = await opened.start(consume={"queue": "q", "credit": 2})
        assert payloads(await opened.answer(id_)) == ["sent"]

        async def waits() -> bool:
            return 'queen_waiters{queue="q"' in (await server.get("/metrics")).body.decode()

        await until(waits)

    async def is_over() -> bool:
        return 'queen_waiters{queue="q"' not in (await server.get("/metrics")).body.decode()

    await until(is_over)
    item = {"queue": "q", "partition": "other", "payload": "kept"}
    await server.post("/push", {"items": [item]})
    reply = await server.post("/pop/queue/q", {"batch": 10, "partitions": 10})
    assert [each["data"] for each in reply.body["messages"]] == ["kept"]


async def test_a_client_that_does_not_read_gets_no_more_messages(server: Server) -> None:
    large = "x" * 500_000
    async with stream(server) as producer:
        for number in range(40):
            item = {"queue": "q", "partition": f"p{number}", "payload": large}
            await producer.call(push={"items": [item]})
    reader, writer = await upgraded(server)
    body = json.dumps({"id": 1, "consume": {"queue": "q", "credit": 1_000}}).encode()
    writer.write(websocket.masked_frame(websocket.TEXT, body))

    async def is_paused() -> bool:
        text = (await server.get("/metrics")).body.decode()
        (unsent,) = re.findall(r"^queen_http_response_bytes_unsent (\S+)", text, re.MULTILINE)
        return float(unsent) > 0

    await until(is_paused)
    left = await server.post("/pop/queue/q", {"batch": 40, "partitions": 40})
    taken = 40 - len(left.body["messages"])
    assert 0 < taken < 40
    # Messages that it has not read are given back when it disconnects.
    await server.post(f"/lease/{left.body['messages'][0]['leaseId']}/release")
    assert reader
    writer.transport.abort()

    async def are_back() -> bool:
        found = await server.post("/pop/queue/q", {"batch": 40, "partitions": 40})
        return found.status == 200

    await until(are_back)
