"""One request and its response, in a task of its own or in the callback that received it."""

import asyncio
import logging
from typing import Any, Final

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from queen.server.http.scope_keys import DISCONNECT, Disconnect
from queen.tasks import InlineTask

_JOINED_BYTES: Final = 2**16
"""Larger bodies are not copied together with their headers."""


class _Responding:
    """Writes the response of a cycle."""

    __slots__ = ()

    transport: asyncio.Transport
    flow: FlowControl
    default_headers: list[tuple[bytes, bytes]]
    disconnected: bool
    keep_alive: bool
    response_started: bool
    response_complete: bool

    async def answer(
        self, status: int, headers: bytes, body: bytes, *, is_awaited: bool = False
    ) -> bool:
        """Implement `Exchange.answer`."""
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return False
        head = STATUS_LINE[status] + headers
        for pair in self.default_headers:
            head += b"%b: %b\r\n" % pair
        head += b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n"
        self.response_started = self.response_complete = True
        if len(body) <= _JOINED_BYTES:
            self.transport.write(head + body)
        else:
            # Without a copy, because it may wait in the transport for a long time.
            self.transport.write(head)
            self.transport.write(body)
        # If a write fails immediately, the transport closes, and connection_lost is called later.
        is_reset = self.transport.is_closing()
        if not self.keep_alive:
            self.transport.close()
        self.responded()
        if is_reset:
            return False
        if is_awaited and self.flow.write_paused:
            await self.flow.drain()
            return not self.find_disconnect().is_cut
        return True

    def close_after_answer(self) -> None:
        """Implement `Exchange.close_after_answer`."""
        self.keep_alive = False

    def responded(self) -> None:
        """Let the connection continue with the next request."""
        raise NotImplementedError

    def find_disconnect(self) -> Disconnect:
        raise NotImplementedError


class Cycle(_Responding, RequestResponseCycle):
    """A request that an ASGI task serves, while its body may still arrive."""

    raw_head: bytes | None = None
    """Its head as received, if one read returned the whole request and no other bytes."""

    def take_body(self) -> bytes | None:
        """Implement `Exchange.take_body`."""
        if self.more_body or self.disconnected or self.waiting_for_100_continue:
            return None
        body = bytes(self.body)
        self.body = bytearray()
        return body

    def responded(self) -> None:
        self.message_event.set()
        self.on_response()

    def find_disconnect(self) -> Disconnect:
        scope: Any = self.scope
        return scope[DISCONNECT]


class DirectCycle(_Responding, InlineTask):
    """A whole request with a known head, served in the callback that received it."""

    __slots__ = (
        "_body",
        "_disconnect",
        "_on_response",
        "_tasks",
        "default_headers",
        "disconnected",
        "flow",
        "keep_alive",
        "raw_head",
        "response_complete",
        "response_started",
        "transport",
    )

    # What uvicorn's protocol uses of a cycle.
    more_body: Final = False
    message_event: Final = asyncio.Event()
    """Set, because no task waits for the body."""

    def __init__(self, protocol: Any, body: bytes, disconnect: Disconnect) -> None:  # noqa: ANN401 - `Protocol`, which imports this
        super().__init__(protocol.loop)
        self.transport = protocol.transport
        self.flow = protocol.flow
        self.default_headers = protocol.server_state.default_headers
        self.disconnected = False
        self.keep_alive = True
        self.response_started = False
        self.response_complete = False
        self.raw_head: bytes | None = None  # It is known already.
        self._body = body
        self._disconnect = disconnect
        self._on_response = protocol.on_response_complete
        self._tasks: set[Any] = protocol.tasks

    def take_body(self) -> bytes:
        """Implement `Exchange.take_body`."""
        body, self._body = self._body, b""
        return body

    def responded(self) -> None:
        self._on_response()

    def find_disconnect(self) -> Disconnect:
        return self._disconnect

    def ended(self, error: BaseException | None) -> None:
        """Close the connection if the coroutine failed, as uvicorn does for a task."""
        self._tasks.discard(self)
        if error is not None:
            logging.getLogger("uvicorn.error").error(
                "Exception while responding to a request", exc_info=error
            )
        if not (self.response_complete or self.disconnected):
            self.transport.close()
