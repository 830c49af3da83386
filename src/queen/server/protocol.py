"""uvicorn's protocol with what it lacks: deadlines, bounded headers, word of who has gone."""

import asyncio
import time
from typing import Any, Final

import msgspec
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.http11 import Request

from queen import errors
from queen.server.http import problem
from queen.settings import Settings

GONE: Final = "queen.gone"
"""Where in the scope a handler finds who tells it that its client has gone."""


ABORT: Final = "queen.abort"
"""Where in a WebSocket's scope the app finds how to end it without another word."""


class Socket(WebSocketsSansIOProtocol):
    """A WebSocket that the app can end although its client does not read."""

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if not self.close_sent:
            # The app begins in a later turn of the loop.
            self.scope[ABORT] = self.transport.abort  # pyright: ignore[reportGeneralTypeIssues] - a key of ours


class Gone:
    """Whose client may go while it waits."""

    __slots__ = ("task",)

    def __init__(self) -> None:
        self.task: asyncio.Task[Any] | None = None

    def tell(self) -> None:
        if self.task is not None:
            self.task.cancel()
            self.task = None


class Protocol(HttpToolsProtocol):
    """
    A connection that cannot be held for ever.

    No timer a request: whoever reads or writes notes since when, and one sweep a second looks.
    """

    settings: Settings

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._since: float | None = None
        """When the request that is being read began; None between requests."""
        self._has_headers = False
        self._header_bytes = 0
        self._writing_since: float | None = None
        self._gone = Gone()

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - as uvicorn has it
        super().connection_made(transport)
        # A connection that never sends anything is as slow as one that sends half.
        self._since = time.monotonic()
        if len(self.connections) > self.settings.max_connections:
            self._refuse(errors.Overloaded("this process has too many connections"))

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._gone.tell()

    def data_received(self, data: bytes) -> None:
        if self._since is None:
            self._since = time.monotonic()
        super().data_received(data)
        if not self._has_headers and self._is_reading():
            # All that came so far is headers, and they are not at their end.
            self._header_bytes += len(data)
            if self._header_bytes > self.settings.max_header_bytes:
                self._refuse(errors.HeadersTooLarge(self._most_headers()))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._has_headers = False
        self._header_bytes = 0
        if self._since is None:
            self._since = time.monotonic()

    def on_headers_complete(self) -> None:
        self._has_headers = True
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > self.settings.max_header_bytes:
            self._refuse(errors.HeadersTooLarge(self._most_headers()))
            return
        self.scope[GONE] = self._gone  # pyright: ignore[reportGeneralTypeIssues] - a key of ours
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self.transport.is_closing():
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._since = None
        if not self.transport.is_closing():
            super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(errors.BadRequest(msg))

    def sweep(self, now: float) -> None:
        """End this connection if its client takes too long to send, or to read."""
        if self.transport.is_closing() and self._writing_since is None:
            self._writing_since = now
        if self._since is not None and not self.transport.is_closing():
            limit = self.settings.body_timeout_ms if self._has_headers else None
            limit = limit or self.settings.header_timeout_ms
            if now - self._since > limit / 1000:
                self._refuse(errors.RequestTimeout(f"the request took more than {limit} ms"))
        if not self.transport.get_write_buffer_size():
            self._writing_since = None
        elif self._writing_since is None:
            self._writing_since = now
        elif now - self._writing_since > self.settings.body_timeout_ms / 1000:
            self.transport.abort()

    def _is_reading(self) -> bool:
        return self._since is not None

    def _most_headers(self) -> str:
        return f"the headers have more than {self.settings.max_header_bytes} bytes"

    def _refuse(self, error: errors.QueenError) -> None:
        """Answer without the app, which may not have been asked yet, and close."""
        if self.transport.is_closing():
            return
        if not (self.cycle and self.cycle.response_started):
            body = msgspec.json.encode(problem(error))
            self.transport.write(
                STATUS_LINE[error.http_status]
                + b"content-type: application/problem+json\r\ncache-control: no-store\r\n"
                + b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
                + body
            )
        self.transport.close()


async def sweep_for_ever(state: ServerState) -> None:
    """Look at every connection once a second."""
    while True:
        await asyncio.sleep(1)
        now = time.monotonic()
        for connection in list(state.connections):
            if isinstance(connection, Protocol):
                connection.sweep(now)
