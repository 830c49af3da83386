"""A client of a stream, frame by frame."""

import asyncio
import json
import secrets
from base64 import b64encode
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import aiohttp

from tests.support.exercised import note_answer, note_code
from tests.support.server import Server

Frame = dict[str, Any]


class Stream:
    """
    One stream.

    Usage::

        async with stream(server) as opened:
            pushed = await opened.call(push={"items": [{"queue": "q", "payload": 1}]})
            assert pushed["result"]["messages"][0]["status"] == "queued"
    """

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self._last = 0
        self._frames: list[Frame] = []

    async def send(self, frame: object) -> None:
        """Send a frame as it is."""
        await self.socket.send_str(frame if isinstance(frame, str) else json.dumps(frame))

    async def start(self, **operation: object) -> int:
        """Send an operation, and return its id."""
        self._last += 1
        await self.send({"id": self._last, **operation})
        return self._last

    async def call(self, **operation: object) -> Frame:
        """Send an operation, and return its response."""
        return await self.answer(await self.start(**operation))

    async def answer(self, id_: int) -> Frame:
        """Wait for the next frame with this id."""
        async with asyncio.timeout(15):
            while True:
                for frame in self._frames:
                    if frame["id"] == id_:
                        self._frames.remove(frame)
                        return frame
                self._frames += await self._receive()

    async def closed(self) -> int | None:
        """Wait until the server closes the stream. Returns the code of its close frame."""
        async with asyncio.timeout(15):
            while not self.socket.closed:
                await self.socket.receive()
        return self.socket.close_code

    async def _receive(self) -> list[Frame]:
        message = await self.socket.receive()
        if message.type is not aiohttp.WSMsgType.TEXT:
            raise EOFError(f"the stream ended: {message.data} {message.extra}")
        found: Any = json.loads(message.data)
        frames = cast("list[Frame]", found if isinstance(found, list) else [found])
        for frame in frames:
            note_code(frame.get("problem", {}).get("code"))
        return frames


@asynccontextmanager
async def stream(
    server: Server, headers: Mapping[str, str] | None = None
) -> AsyncGenerator[Stream]:
    """Open a stream."""
    url = f"{server.base_url}/api/v1/stream"
    async with server.session.ws_connect(url, headers=headers, max_msg_size=0) as socket:
        note_answer("GET", "/api/v1/stream", 101)
        yield Stream(socket)


def items(queue: str, *payloads: object) -> dict[str, Any]:
    """The body of a push."""
    return {"items": [{"queue": queue, "payload": each} for each in payloads]}


def payloads(frame: Frame) -> list[Any]:
    """The payloads of a response with messages."""
    found = frame.get("result", frame)
    return [each["data"] for each in found["messages"]]


async def upgraded(server: Server) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a stream over a plain connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    key = b64encode(secrets.token_bytes(16))
    writer.write(
        b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
        b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
        + key
        + b"\r\n\r\n"
    )
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 ")
    return reader, writer
