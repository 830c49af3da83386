"""Clients that disconnect before they have read a pop's response."""

import asyncio
import socket
import struct

from tests.support.server import Server, until

COUNT = 100
PAYLOAD = "x" * 100_000
"""Ten megabytes together, more than socket buffers hold."""


async def hang_up_while_reading(server: Server, path: str) -> None:
    """Send a request, read the start of the response, and reset the connection."""
    loop = asyncio.get_running_loop()
    with socket.socket() as client:
        client.setblocking(False)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await loop.sock_connect(client, ("127.0.0.1", server.port))
        await loop.sock_sendall(client, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert (await loop.sock_recv(client, 512)).startswith(b"HTTP/1.1 200")


async def test_unread_messages_are_redelivered_immediately_without_counting(server: Server) -> None:
    items = [{"queue": "orders", "payload": PAYLOAD} for _ in range(COUNT)]
    for first in range(0, COUNT, 20):
        pushed = await server.post("/push", {"items": items[first : first + 20]})
        assert pushed.status == 201

    await hang_up_while_reading(server, f"/api/v1/pop/queue/orders?batch={COUNT}")

    popped: list[int] = []

    async def have_come() -> bool:
        reply = await server.get("/pop/queue/orders", batch=COUNT)
        if reply.status == 200:
            popped.extend(message["attempt"] for message in reply.body["messages"])
        return len(popped) == COUNT

    # Their lease would last for five minutes.
    await until(have_come, seconds=30)
    assert popped == [1] * COUNT
