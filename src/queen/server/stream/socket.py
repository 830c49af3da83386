"""The WebSocket of a stream: frames, back pressure, deadlines and the closing handshake."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from websockets.speedups import apply_mask

from queen import errors
from queen.server.http.protocol import Swept
from queen.server.memory_budget import Share, Unsent
from queen.settings import Settings
from queen.wire import websocket
from queen.wire.websocket import FrameError, Receiver

NORMAL: Final = 1000
POLICY: Final = 1008
INTERNAL_ERROR: Final = 1011
TRY_LATER: Final = 1013
RESTART: Final = 1012
GOING_AWAY: Final = 1001
_CLOSE_SECONDS: Final = 2.0
"""How long to wait for the client's close frame."""
_JOINED_BYTES: Final = 2**16
"""Larger frames are not copied together with their headers."""


class FrameSocket(Swept):
    """Sends and receives whole messages. Subclasses define what they mean."""

    def __init__(
        self,
        settings: Settings,
        unsent: Unsent,
        share: Share,
        on_end: Callable[[], None],
    ) -> None:
        """``share``: the memory of messages that are not complete."""
        self._settings = settings
        self._unsent = unsent
        self._partial = share
        self._on_end = on_end
        self._receiver = Receiver(settings.max_body_bytes, apply_mask)
        self._transport: asyncio.Transport | None = None
        self.is_closed = False
        """No more messages are sent."""
        self.is_write_paused = False
        self._is_aborted = False
        now = time.monotonic()
        self._partial_since: float | None = None
        self._writing_since: float | None = None
        self._heard_at = now
        self._pinged_at: float | None = None
        self._closed_at = 0.0

    # What subclasses define.

    def received(self, message: bytes) -> None:
        """Process a message."""

    def writable(self) -> None:
        """The client reads again."""

    def ended(self, *, is_cut: bool) -> None:
        """The connection is lost. ``is_cut``: the client did not read everything."""

    # asyncio.Protocol.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self._transport = transport  # pyright: ignore[reportAttributeAccessIssue] - uvloop's

    def data_received(self, data: bytes) -> None:
        self._heard_at = time.monotonic()
        self._pinged_at = None
        try:
            messages = self._receiver.feed(data)
            if self._partial_since is not None and any(
                opcode <= websocket.BINARY for opcode, _ in messages
            ):
                self._partial_since = None
                self._partial.give_back()
            if self._receiver.is_partial:
                self._partial.take(len(data))
                if self._partial_since is None:
                    self._partial_since = self._heard_at
        except FrameError as error:
            self.close(error.code, str(error))
            return
        except errors.TooManyBytes as error:
            self.close(TRY_LATER, str(error))
            return
        for opcode, payload in messages:
            if opcode <= websocket.BINARY:
                if not self.is_closed:
                    self.received(payload)
            elif opcode == websocket.PING:
                self._write(websocket.PONG, payload)
            elif opcode == websocket.CLOSE:
                code = websocket.code_of(payload)
                self.close(NORMAL if code is None else code, "")
                self._end_transport()

    def pause_writing(self) -> None:
        self.is_write_paused = True
        assert self._transport is not None
        self._unsent.note(self, self._transport.get_write_buffer_size())
        self.update_reading()

    def resume_writing(self) -> None:
        self.is_write_paused = False
        self._unsent.forget(self)
        self.update_reading()
        self.writable()

    def connection_lost(self, exc: Exception | None) -> None:
        is_cut = self.is_write_paused and (exc is not None or self._is_aborted)
        self.is_closed = True
        self._unsent.forget(self)
        self._partial.give_back()
        self._on_end()
        self.ended(is_cut=is_cut)

    # Sending.

    @property
    def is_lost(self) -> bool:
        """Whether the connection ends, so that the client may not receive more messages."""
        return self._transport is None or self._transport.is_closing()

    @property
    def may_read(self) -> bool:
        """Whether more messages may be received."""
        return not self.is_write_paused

    def update_reading(self) -> None:
        """Pause or resume reading."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self.may_read:
            transport.resume_reading()
        else:
            transport.pause_reading()

    def send(self, message: bytes) -> None:
        """Send a message, unless the stream is closed."""
        if not self.is_closed:
            self._write(websocket.TEXT, message)

    def close(self, code: int, reason: str) -> None:
        """Send a close frame, and close the connection when the client responds, or soon."""
        if self.is_closed:
            return
        self._write(websocket.CLOSE, websocket.close_payload(code, reason))
        self.is_closed = True
        self._closed_at = time.monotonic()

    def abort(self) -> None:
        """End the connection immediately, and drop unread messages."""
        self._is_aborted = True
        if self._transport is not None:
            self._transport.abort()

    def shutdown(self) -> None:
        """End the connection when its process ends."""
        self.close(GOING_AWAY, "the server is shutting down")
        self._end_transport()

    def sweep(self, now: float) -> None:
        """Close this stream if its client is too slow to send, to read, or to respond."""
        transport = self._transport
        if transport is None:
            return
        limit = self._settings.body_timeout_ms / 1000
        unsent = transport.get_write_buffer_size()
        if self.is_write_paused:
            self._unsent.note(self, unsent)
        if not unsent:
            self._writing_since = None
        elif self._writing_since is None:
            self._writing_since = now
        elif now - self._writing_since > limit:
            self.abort()
            return
        if self.is_closed:
            if now - self._closed_at > _CLOSE_SECONDS:
                self._end_transport()
        elif self._partial_since is not None and now - self._partial_since > limit:
            self.close(POLICY, f"a message took more than {self._settings.body_timeout_ms} ms")
        elif self.may_read:
            self._check_alive(now)

    def _check_alive(self, now: float) -> None:
        """Ping a silent client, which also keeps proxies from closing the connection."""
        if self._pinged_at is None:
            if now - self._heard_at >= self._settings.ws_heartbeat_ms / 1000:
                self._pinged_at = now
                self._write(websocket.PING, b"")
        elif now - self._pinged_at > self._settings.ws_idle_timeout_seconds:
            self.abort()

    def _write(self, opcode: int, payload: bytes) -> None:
        transport = self._transport
        if transport is None or self.is_closed or transport.is_closing():
            return
        header = websocket.head(opcode, len(payload))
        if len(payload) <= _JOINED_BYTES:
            transport.write(header + payload)
        else:
            transport.write(header)
            transport.write(payload)

    def _end_transport(self) -> None:
        if self._transport is not None:
            self._transport.close()
