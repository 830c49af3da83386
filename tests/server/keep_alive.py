"""Connections that stay open between requests."""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncGenerator

from tests.support.server import Server

ROUNDS = 4
"""After this many requests with one head, the server knows it."""


def posted(path: str, body: object, *headers: str) -> bytes:
    """A raw request, after which the connection stays open."""
    raw = json.dumps(body).encode()
    lines = [
        f"POST /api/v1{path} HTTP/1.1",
        "host: localhost",
        "content-type: application/json",
        *headers,
        f"Content-Length: {len(raw)}",
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + raw


class Connection:
    """A connection that stays open between requests."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def exchange(self, request: bytes) -> tuple[bytes, bytes]:
        """Send a request and return the response's head and body."""
        self.writer.write(request)
        return await self.response()

    async def response(self) -> tuple[bytes, bytes]:
        async with asyncio.timeout(10):
            head = await self._reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head)
            return head, await self._reader.readexactly(int(length[1]) if length else 0)

    async def frame(self) -> bytes:
        """The payload of a short WebSocket frame."""
        async with asyncio.timeout(10):
            size = (await self._reader.readexactly(2))[1]
            if size == 126:
                size = int.from_bytes(await self._reader.readexactly(2))
            return await self._reader.readexactly(size)

    async def rest(self) -> bytes:
        """Everything until the server closes."""
        async with asyncio.timeout(10):
            return await self._reader.read(-1)


@contextlib.asynccontextmanager
async def connected(server: Server) -> AsyncGenerator[Connection]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        yield Connection(reader, writer)
    finally:
        writer.close()


@contextlib.asynccontextmanager
async def trained(server: Server, request: bytes) -> AsyncGenerator[Connection]:
    """A connection on which the server knows the head of this request."""
    async with connected(server) as connection:
        for _ in range(ROUNDS):
            head, body = await connection.exchange(request)
            assert head.startswith(b"HTTP/1.1 2"), body
        yield connection
