"""A stream to one server: operations in frames, their results, and the end of the connection."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple, cast

import msgspec

from queen.wire import websocket
from queen.wire.stream import MAX_PER_FRAME, Response
from queen.wire.websocket import FrameError, Receiver

_DECODE: Final = msgspec.json.Decoder(Response).decode
_DECODE_MANY: Final = msgspec.json.Decoder(list[Response]).decode
_JOINED_BYTES: Final = 2**16
_CHECK_SECONDS: Final = 10.0
_DEAD_SECONDS: Final = 30.0
"""A server that sends nothing for this long although it was pinged is not there any more."""
_LARGEST_BYTES: Final = 2**31
_TOO_BIG: Final = 1009
_RESTART: Final = 1012


class NotReceived(OSError):
    """The server closed the stream before it read the operation."""


class _Leased(msgspec.Struct, rename="camel"):
    lease_id: str | None = None


class _Popped(msgspec.Struct):
    runs: list[_Leased] = []
    messages: list[_Leased] = []


_DECODE_POPPED: Final = msgspec.json.Decoder(_Popped).decode


class Pending(NamedTuple):
    """An operation in progress."""

    id: int
    result: "asyncio.Future[Response]"


class StreamConnection(asyncio.Protocol):
    """
    The connection after its handshake.

    Usage::

        pending = stream.send(b"push", body)
        response = await pending.result
    """

    def __init__(self, before: asyncio.BaseProtocol, on_end: Callable[[bool], None]) -> None:
        """
        ``before``: the protocol of the handshake, which also has to know that the connection ends.

        ``on_end``: called at the end, with whether a server behind it ever responded.
        """
        self._before = before
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._receiver = Receiver(_LARGEST_BYTES)
        self._transport: asyncio.Transport | None = None
        self._pending: dict[int, asyncio.Future[Response]] = {}
        self._last_id = 0
        self._out: list[bytes] = []
        self._heard_at = time.monotonic()
        self._has_answered = False
        self._timer: asyncio.TimerHandle | None = None
        self._code: int | None = None
        """The code of the server's close frame."""
        self.is_open = True

    # Operations.

    def send(self, verb: bytes, body: bytes, traceparent: str | None = None) -> Pending:
        """Send an operation, in one frame with the others of this loop iteration."""
        self._last_id = id_ = self._last_id + 1
        result: asyncio.Future[Response] = self._loop.create_future()
        self._pending[id_] = result
        if traceparent is None:
            self._put(b'{"id":%d,"%b":%b}' % (id_, verb, body))
        else:
            parent = msgspec.json.encode(traceparent)
            self._put(b'{"id":%d,"traceparent":%b,"%b":%b}' % (id_, parent, verb, body))
        if self._timer is None:
            self._timer = self._loop.call_later(_CHECK_SECONDS, self._check)
        return Pending(id_, result)

    def cancel(self, pending: Pending) -> None:
        """Ask the server to end a pop. It responds with the messages, or without any."""
        if pending.id in self._pending:
            self._put(b'{"cancel":%d}' % pending.id)

    def abandon(self, pending: Pending) -> None:
        """End a pop whose caller does not wait any more, and release its messages."""
        if self._pending.get(pending.id) is pending.result:
            self._pending[pending.id] = late = self._loop.create_future()
            late.add_done_callback(self._release)
            self.cancel(pending)
        elif pending.result.done():
            self._release(pending.result)  # It arrived at the moment of the cancellation.

    def forget(self, pending: Pending) -> None:
        """Ignore the result of an operation."""
        self._pending.pop(pending.id, None)

    def close(self) -> None:
        """Close the connection. Operations in progress fail."""
        self._flush()
        if self._transport is not None and self.is_open:
            self._write(websocket.CLOSE, websocket.close_payload(1000, ""))
            self._transport.close()
        self.is_open = False

    def _release(self, late: "asyncio.Future[Response]") -> None:
        if late.cancelled() or late.exception() is not None or not self.is_open:
            return
        self._release_leases(late.result())

    def _release_leases(self, response: Response) -> None:
        """Release the messages of a pop; other responses have none."""
        result = response.result
        if result is msgspec.UNSET or not self.is_open:
            return
        popped = _DECODE_POPPED(result)
        for lease_id in {each.lease_id for each in (*popped.runs, *popped.messages)} - {None}:
            pending = self.send(b"release", b'{"leaseId":%b}' % msgspec.json.encode(lease_id))
            pending.result.add_done_callback(lambda each: each.cancelled() or each.exception())

    # asyncio.Protocol.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._heard_at = time.monotonic()
        try:
            for opcode, payload in self._receiver.feed(data):
                if opcode <= websocket.BINARY:
                    self._receive(payload)
                elif opcode == websocket.PING:
                    self._write(websocket.PONG, payload)
                elif opcode == websocket.CLOSE:
                    self._code = websocket.code_of(payload)
                    self._write(websocket.CLOSE, payload[:2])
                    self._end()
        except (FrameError, msgspec.DecodeError):
            self._end()  # Not a Queen server, or a proxy that changes frames.

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        if self._timer is not None:
            self._timer.cancel()
        kind = NotReceived if self._code == _RESTART else ConnectionResetError
        pending, self._pending = self._pending, {}
        for result in pending.values():
            if not result.done():
                result.set_exception(kind("the stream ended"))
        self._out.clear()
        before = cast("Any", self._before)
        before.connection_lost(exc)
        self._on_end(self._has_answered and self._code != _TOO_BIG)

    def pause_writing(self) -> None:
        """Callers limit how much they send."""

    def resume_writing(self) -> None: ...

    # Frames.

    def _receive(self, payload: bytes) -> None:
        found = _DECODE_MANY(payload) if payload[:1] == b"[" else [_DECODE(payload)]
        self._has_answered = True
        for response in found:
            result = self._pending.pop(response.id, None)
            if result is None:
                continue
            if result.done():
                # Its task was cancelled and has not run since, so it could not abandon the pop.
                self._release_leases(response)
            else:
                result.set_result(response)

    def _put(self, text: bytes) -> None:
        self._out.append(text)
        if len(self._out) == 1:
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        out, self._out = self._out, []
        if not out or not self.is_open:
            return
        if len(out) == 1:
            self._write(websocket.TEXT, out[0])
        elif len(out) <= MAX_PER_FRAME and sum(map(len, out)) <= _JOINED_BYTES:
            self._write(websocket.TEXT, b"[%b]" % b",".join(out))
        else:
            for each in out:
                self._write(websocket.TEXT, each)

    def _write(self, opcode: int, payload: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(websocket.masked_frame(opcode, payload))

    def _check(self) -> None:
        """Ping a silent server while operations are in progress, and close a dead one."""
        self._timer = None
        if not self._pending or self._transport is None:
            return
        silent = time.monotonic() - self._heard_at
        if silent > _DEAD_SECONDS:
            self._transport.abort()
            return
        if silent > _CHECK_SECONDS / 2:
            self._write(websocket.PING, b"")
        self._timer = self._loop.call_later(_CHECK_SECONDS, self._check)

    def _end(self) -> None:
        self.is_open = False
        if self._transport is not None:
            self._transport.close()
