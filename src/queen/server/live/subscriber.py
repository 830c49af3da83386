"""One open dashboard: what it subscribed to, and the frames that it has not read yet."""

import asyncio
import contextlib
from collections import deque
from typing import Any, Final

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from queen.server import logs
from queen.server.auth.revocations import REASON
from queen.server.http.call import Call
from queen.telemetry import Event
from queen.wire.live_feed import EVENTS, EventName, Subscribe

_MOST_FRAMES: Final = 64
_MOST_BYTES: Final = 2**20
"""A subscriber with more unread bytes is dropped. One frame always fits."""
_CLOSE_SECONDS: Final = 0.2
_SUBSCRIBE: Final = msgspec.json.Decoder(Subscribe)

Flow = dict[tuple[str, str], float]
"""Counters by queue and name, over all groups."""


class Subscriber:
    """One WebSocket."""

    def __init__(self, call: Call, socket: WebSocket) -> None:
        self.call = call
        self._socket = socket
        self.events: frozenset[EventName] = frozenset(EVENTS)
        self.queues: frozenset[str] | None = None
        self.seconds = 1
        """Shortest time between two frames of processed messages."""
        self.due_at = 0.0
        self.flow: Flow = {}
        """The counters of its last frame."""
        self.has_ended = asyncio.Event()
        """Its key or token is no longer accepted."""
        self._frames: deque[bytes] = deque()
        self._has_frames = asyncio.Event()
        self._is_slow = asyncio.Event()

    def put(self, frame: bytes) -> None:
        """Queue a frame, or drop a subscriber that does not read."""
        if len(self._frames) >= _MOST_FRAMES or sum(map(len, self._frames)) >= _MOST_BYTES:
            self._is_slow.set()
        else:
            self._frames.append(frame)
            self._has_frames.set()

    async def visible(self, names: set[str]) -> set[str]:
        """Return the subscribed queues that the caller may see now."""
        return await self.call.visible(names if self.queues is None else names & self.queues)

    async def run(self, log: logs.Log) -> None:
        """Receive subscriptions and send frames until one side ends the connection."""
        receiving = asyncio.create_task(self._receive())
        sending = asyncio.create_task(self._send())
        slow = asyncio.create_task(self._is_slow.wait())
        ended = asyncio.create_task(self.has_ended.wait())
        tasks: set[asyncio.Task[Any]] = {receiving, sending, slow, ended}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if self._is_slow.is_set():
            log.warning(Event.SOCKET_DROPPED, request_id=self.call.request_id)
            # Without a close frame, which would wait behind the unread frames.
            self._abort()
        elif self.has_ended.is_set() and receiving.cancelled():
            await self._close()

    async def _receive(self) -> None:
        with contextlib.suppress(WebSocketDisconnect):
            while True:
                text = await self._socket.receive_text()
                try:
                    wanted = _SUBSCRIBE.decode(text)
                except msgspec.DecodeError as error:
                    await self._socket.close(1008, str(error)[:100])
                    return
                self.events = frozenset(EVENTS if wanted.subscribe is None else wanted.subscribe)
                self.queues = None if wanted.queues is None else frozenset(wanted.queues)
                self.seconds = wanted.seconds

    async def _send(self) -> None:
        with contextlib.suppress(WebSocketDisconnect):
            while True:
                await self._has_frames.wait()
                if not await self.call.state.authenticator.is_valid(self.call.caller):
                    self.has_ended.set()
                    return
                while self._frames:
                    await self._socket.send_text(self._frames.popleft().decode())
                self._has_frames.clear()

    async def _close(self) -> None:
        """Send the reason. A client that does not read it in time is disconnected."""
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._socket.close(1008, REASON)
        except TimeoutError:
            self._abort()

    def _abort(self) -> None:
        if (abort := self.call.connection.abort) is not None:
            abort()
