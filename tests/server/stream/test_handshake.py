"""A stream begins on a connection that requests have used, and every handshake is checked."""

import json
import re
from uuid import uuid4

from queen.wire import websocket
from tests.server.keep_alive import Connection, posted, trained
from tests.server.stream.streams import Frame, items
from tests.support.server import Server

HANDSHAKE = (
    b"GET /api/v1/stream HTTP/1.1\r\nhost: localhost\r\nconnection: Upgrade\r\n"
    b"upgrade: websocket\r\nsec-websocket-version: 13\r\n"
    b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


async def pushed(connection: Connection, queue: str) -> Frame:
    """Push over an open stream, and return the response."""
    text = json.dumps({"id": 1, "push": items(queue, 1)}).encode()
    connection.writer.write(websocket.masked_frame(websocket.TEXT, text))
    return json.loads(await connection.frame())


async def test_a_connection_with_known_heads_becomes_a_stream(shared: Server) -> None:
    queue = f"q-{uuid4().hex}"
    async with trained(shared, posted("/push", items(queue, 0))) as connection:
        head, _ = await connection.exchange(HANDSHAKE)
        assert head.startswith(b"HTTP/1.1 101 ")
        assert b"content-length" not in head
        frame = await pushed(connection, queue)
    assert frame["result"]["messages"][0]["status"] == "queued"


async def test_the_head_of_a_handshake_is_never_recognised(shared: Server) -> None:
    queue = f"q-{uuid4().hex}"
    ids: set[bytes] = set()
    for _ in range(6):
        async with trained(shared, posted("/push", items(queue, 0))) as connection:
            head, _ = await connection.exchange(HANDSHAKE)
            assert head.startswith(b"HTTP/1.1 101 ")
            assert "result" in await pushed(connection, queue)
            found = re.search(rb"x-request-id: (.+?)\r", head)
            assert found is not None
            ids.add(found[1])
    assert len(ids) == 6


async def test_a_handshake_behind_a_waiting_known_head_is_a_stream(shared: Server) -> None:
    queue = f"q-{uuid4().hex}"
    await shared.post("/configure", {"queue": queue})
    pop = posted("/pop", {"queue": queue, "wait": True, "timeout": 300})
    async with trained(shared, pop) as connection:
        connection.writer.write(pop)
        connection.writer.write(HANDSHAKE)
        assert (await connection.response())[0].startswith(b"HTTP/1.1 204 ")
        assert (await connection.response())[0].startswith(b"HTTP/1.1 101 ")
        assert "result" in await pushed(connection, queue)
