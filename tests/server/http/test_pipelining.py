"""Bytes after a request on the same connection don't change the response to that request."""

import asyncio
import json

import pytest

from tests.support.calls import a_queue, configure, data, items, pop, posted, push, spoken
from tests.support.server import Server

LARGE = b"x-large: " + b"x" * 40_000


def kept(path: str, body: bytes) -> bytes:
    """A request after which another may follow."""
    return posted(path, body).replace(b"connection: close\r\n", b"")


def pushing(queue: str, value: object = "x") -> bytes:
    return kept("/push", json.dumps({"items": items(queue, value)}).encode())


@pytest.mark.parametrize(
    "behind",
    [
        b"GARBAGE\r\n\r\n",
        b"GET /x y z\r\n\r\n",
        b"GET no-path HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nhost: localhost\r\n" + LARGE + b"\r\n\r\n",
        b"POST /api/v1/push HTTP/1.1\r\nhost: localhost\r\n"
        + LARGE
        + b"\r\ncontent-length: 4\r\n\r\nmore",
        b"POST /api/v1/push HTTP/1.1\r\nhost: localhost\r\n"
        + b"transfer-encoding: chunked\r\n\r\nzz\r\n",
    ],
)
async def test_garbage_after_a_push_does_not_change_its_response(
    shared: Server, behind: bytes
) -> None:
    queue = a_queue()

    head, body = await spoken(shared, pushing(queue) + behind)

    assert head.startswith(b"HTTP/1.1 201 "), body
    assert b"\r\nconnection: close" in head
    assert json.loads(body)["messages"][0]["status"] == "queued"
    assert data(await pop(shared, queue)) == ["x"]


async def test_all_requests_before_the_garbage_get_a_response(shared: Server) -> None:
    queue = a_queue()
    requests = b"".join(pushing(queue, number) for number in range(3))

    head, rest = await spoken(shared, requests + b"GARBAGE\r\n\r\n" + pushing(queue, "never"))

    assert (head + rest).count(b"HTTP/1.1 201 ") == 3
    assert b"HTTP/1.1 400" not in rest
    assert data(await pop(shared, queue, batch=10)) == [0, 1, 2]


async def test_half_a_request_after_a_long_poll_does_not_end_it(dsn: str) -> None:
    impatient = {"QUEEN_HEADER_TIMEOUT_MS": "200", "QUEEN_BODY_TIMEOUT_MS": "200"}
    async with Server(dsn, impatient) as server:
        await configure(server, "q")
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(kept("/pop/queue/q", b'{"wait":true,"timeout":30000}') + b"GET /livez HT")
        # More than two sweeps: in this time another connection would be closed.
        for _ in range(2):
            head, _ = await spoken(server, b"GET /livez HT")
            assert head.startswith(b"HTTP/1.1 408 ")
        await push(server, "q", 1)

        async with asyncio.timeout(10):
            answer = await reader.read(-1)
        writer.close()

        assert answer.startswith(b"HTTP/1.1 200 ")
        assert answer.count(b"HTTP/1.1 ") == 1


async def test_a_waiting_client_that_sent_garbage_is_still_seen_to_disconnect(
    server: Server,
) -> None:
    await configure(server, "q")
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(kept("/pop/queue/q", b'{"wait":true,"timeout":30000}') + b"GARBAGE\r\n\r\n")
    await writer.drain()
    # When a later call has its response, the server has registered the long poll.
    assert await pop(server, "q") == []
    writer.close()
    await writer.wait_closed()
    assert await pop(server, "q") == []

    await push(server, "q", 1)

    assert data(await pop(server, "q", wait=True, timeout=5_000)) == [1]


async def test_a_broken_request_is_rejected_itself(shared: Server) -> None:
    queue = a_queue()
    broken = posted("/push", b"", "content-type: application/json", "transfer-encoding: chunked")
    broken = broken.replace(b"content-length: 0\r\n", b"") + b"zz\r\n"

    head, body = await spoken(shared, broken)

    assert head.startswith(b"HTTP/1.1 400 ")
    assert json.loads(body)["applied"] is False
    assert (await shared.post(f"/pop/queue/{queue}", {})).status == 404
