"""
Later requests on a connection get the same responses as the first one.

From the third request with the same head on, the server no longer parses the head.
"""

import asyncio
import json
import re
from typing import Any

import pytest

from tests.server.keep_alive import ROUNDS, connected, posted, trained
from tests.support.calls import a_queue, configure, items, pop, push
from tests.support.server import Server

_VOLATILE = re.compile(rb"date: [^\r]*\r\n|content-length: \d+|[0-9a-f-]{20,}|r-[0-9a-f-]+")


def same(response: tuple[bytes, bytes]) -> bytes:
    """A response without what differs every time."""
    return _VOLATILE.sub(b"", b"".join(response))


REQUESTS: dict[str, tuple[str, Any, tuple[str, ...]]] = {
    "a push": ("/push", {"items": [{"queue": "Q", "payload": 1}]}, ()),
    "a rejected push": ("/push", {"items": [{"queue": "Q", "payload": 1, "priority": 99}]}, ()),
    "an invalid push": ("/push", {"items": 1}, ()),
    "an empty push": ("/push", {"items": []}, ()),
    "a pop without messages": ("/pop/queue/Qempty", {"batch": 2}, ()),
    "a pop of no queue": ("/pop", {}, ()),
    "a pop for an unknown queue": ("/pop/queue/Qunknown", {}, ()),
    "a pop of an own page": ("/pop/queue/Qempty", {}, ("origin: http://localhost",)),
    "a lost lease": ("/ack/batch", {"acknowledgments": [{"transactionId": "x"}]}, ()),
    "no acknowledgments": ("/ack/batch", {"acknowledgments": []}, ()),
}


@pytest.mark.parametrize("name", REQUESTS)
async def test_the_response_does_not_depend_on_the_number_of_the_request(
    shared: Server, name: str
) -> None:
    queue = a_queue()
    path, body, headers = REQUESTS[name]
    await push(shared, queue, 0)  # The first message of a partition has a slower way of its own.
    await configure(shared, f"{queue}empty")
    path, body = path.replace("Q", queue), json.loads(json.dumps(body).replace('"Q"', f'"{queue}"'))
    # A successful request with the same head first, so that the server knows it.
    right: dict[str, Any] = {
        "/push": {"items": items(f"{queue}other", 1)},
        "/ack/batch": {"acknowledgments": [{"transactionId": "x", "leaseId": "0.1.0.0"}]},
    }
    async with connected(shared) as connection:
        first = await connection.exchange(posted(path, body, *headers))
        for _ in range(ROUNDS):
            await connection.exchange(posted(path, right.get(path, body), *headers))

        later = await connection.exchange(posted(path, body, *headers))

    offset = re.compile(rb'"offset":\d+')
    assert offset.sub(b"", same(later)) == offset.sub(b"", same(first))


async def test_messages_are_pushed_popped_and_acknowledged_on_one_connection(
    shared: Server,
) -> None:
    queue = a_queue()
    await configure(shared, queue)
    async with connected(shared) as connection:
        for number in range(10):
            head, _ = await connection.exchange(posted("/push", {"items": items(queue, number)}))
            assert head.startswith(b"HTTP/1.1 201 ")
            _, body = await connection.exchange(posted(f"/pop/queue/{queue}", {"wait": True}))
            (message,) = json.loads(body)["messages"]
            assert message["data"] == number
            done = {"id": message["id"], "leaseId": message["leaseId"]}
            _, body = await connection.exchange(posted("/ack/batch", {"acknowledgments": [done]}))
            assert json.loads(body)["success"] is True


async def test_a_long_poll_with_a_known_head_is_woken(shared: Server) -> None:
    queue = a_queue()
    await configure(shared, queue)
    async with trained(shared, posted(f"/pop/queue/{queue}", {"batch": 1})) as connection:
        connection.writer.write(posted(f"/pop/queue/{queue}", {"wait": True, "timeout": 30_000}))
        await push(shared, queue, 1)

        _, body = await connection.response()

    assert [each["data"] for each in json.loads(body)["messages"]] == [1]


async def test_a_client_that_disconnects_from_a_long_poll_gets_no_message(
    shared: Server,
) -> None:
    queue = a_queue()
    await configure(shared, queue)
    async with trained(shared, posted(f"/pop/queue/{queue}", {"batch": 1})) as connection:
        connection.writer.write(posted(f"/pop/queue/{queue}", {"wait": True, "timeout": 30_000}))
        await connection.writer.drain()
        # When a later call has its response, the server has registered the long poll.
        assert await pop(shared, queue) == []
        connection.writer.close()
        await connection.writer.wait_closed()
    assert await pop(shared, queue) == []

    await push(shared, queue, 1)
    (message,) = await pop(shared, queue, wait=True, timeout=5_000)

    assert (message["data"], message["attempt"]) == (1, 1)


@pytest.mark.parametrize(
    "behind",
    [
        b"GARBAGE\r\n\r\n",
        b"GET no-path HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"POST /api/v1/push HTTP/1.1\r\nhost: localhost\r\n"
        b"transfer-encoding: chunked\r\n\r\nzz\r\n",
    ],
)
async def test_garbage_behind_a_waiting_request_does_not_change_its_response(
    shared: Server, behind: bytes
) -> None:
    queue = a_queue()
    await configure(shared, queue)
    async with trained(shared, posted(f"/pop/queue/{queue}", {"batch": 1})) as connection:
        connection.writer.write(posted(f"/pop/queue/{queue}", {"wait": True, "timeout": 30_000}))
        await connection.writer.drain()
        assert await pop(shared, queue) == []
        connection.writer.write(behind)
        await connection.writer.drain()
        assert await pop(shared, queue) == []
        await push(shared, queue, 1)

        answer = await connection.rest()

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"\r\nconnection: close\r\n" in answer
    assert answer.count(b"HTTP/1.1 ") == 1


async def test_requests_behind_a_waiting_one_get_their_responses_in_order(
    shared: Server,
) -> None:
    queue = a_queue()
    await configure(shared, queue)
    async with trained(shared, posted(f"/pop/queue/{queue}", {"batch": 1})) as connection:
        connection.writer.write(posted(f"/pop/queue/{queue}", {"wait": True, "timeout": 30_000}))
        await connection.writer.drain()
        assert await pop(shared, queue) == []
        connection.writer.write(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n")
        connection.writer.write(posted(f"/pop/queue/{queue}", {"batch": 1}))
        await push(shared, queue, 1)

        heads = [await connection.response() for _ in range(3)]

    assert [head[:12] for head, _ in heads] == [b"HTTP/1.1 200", b"HTTP/1.1 200", b"HTTP/1.1 204"]
    assert b"messages" in heads[0][1]


async def test_a_stopping_server_responds_to_a_waiting_request_and_closes(dsn: str) -> None:
    async with Server(dsn) as server:
        await configure(server, "q")
        async with trained(server, posted("/pop/queue/q", {"batch": 1})) as connection:
            connection.writer.write(posted("/pop/queue/q", {"wait": True, "timeout": 30_000}))
            await connection.writer.drain()
            assert await pop(server, "q") == []

            await server.stop()

            assert (await connection.rest()).startswith(b"HTTP/1.1 204 ")


async def test_a_stopping_server_responds_to_a_request_whose_body_is_missing(dsn: str) -> None:
    async with Server(dsn) as server:
        await configure(server, "q")
        request = posted("/push", {"items": items("q", 1)})
        async with trained(server, request) as connection, connected(server) as later:
            head = request.partition(b"\r\n\r\n")[0]
            connection.writer.write(head + b"\r\n\r\n")
            await connection.writer.drain()
            assert await pop(server, "q") != []  # The server has read the head before.
            stopping = asyncio.create_task(server.stop())
            await later.rest()  # It closes this connection when it stops.

            assert (await connection.rest()).startswith(b"HTTP/1.1 503 ")
            await stopping


async def test_a_body_cannot_contain_a_second_request(shared: Server) -> None:
    queue = a_queue()
    await configure(shared, queue)
    hidden = b"POST /api/v1/resources/queues/%b/pause HTTP/1.1\r\nhost: localhost\r\n\r\n" % (
        queue.encode()
    )
    request = posted("/push", {"items": items(queue, 1)})
    async with trained(shared, request) as connection:
        head, _ = await connection.exchange(request.replace(b"ength: ", b"ength: +") + hidden)
        assert head.startswith(b"HTTP/1.1 400 ")
        assert await connection.rest() == b""

    assert (await shared.get(f"/resources/queues/{queue}")).body["paused"] is False


async def test_half_a_known_head_after_another_request_is_not_mistaken_for_it(
    shared: Server,
) -> None:
    """A request whose header has the text of another request must not teach that text."""
    queue = a_queue()
    await push(shared, queue, 1)
    popping = posted(f"/pop/queue/{queue}", {})
    async with connected(shared) as connection:
        await connection.exchange(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n")
        connection.writer.write(b"POST /api/v1/push HTTP/1.1\r\nx-a: b")
        await connection.writer.drain()
        await shared.get(f"/resources/queues/{queue}")  # Meanwhile the server reads the first part.
        head, body = await connection.exchange(
            posted(f"/pop/queue/{queue}", {"items": items(queue, 2)})
        )
        assert head.startswith(b"HTTP/1.1 201 "), body
    async with connected(shared) as connection:
        heads = [(await connection.exchange(popping))[0] for _ in range(ROUNDS)]

    statuses = [head[:12] for head in heads]
    assert statuses == [b"HTTP/1.1 200", *[b"HTTP/1.1 204"] * 3]
