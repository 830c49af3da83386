"""uvicorn's protocol, with deadlines, bounded headers and detection of disconnects."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol as Interface, cast
from urllib.parse import unquote

import msgspec
from uvicorn._types import ASGI3Application, ASGISendEvent
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.http11 import Request

from queen import errors
from queen.server.http.call import API, Call
from queen.server.http.connection_limits import ConnectionLimits
from queen.server.http.cycles import Cycle, DirectCycle
from queen.server.http.head import Connection
from queen.server.http.known_heads import KnownHeads, Recognised, whole_head
from queen.server.http.problems import problem
from queen.server.http.scope_keys import ABORT, DISCONNECT, EXCHANGE, SWITCH, Disconnect
from queen.server.memory_budget import Unsent
from queen.settings import Settings

_STREAM: Final = f"{API}/stream".encode()


class Socket(WebSocketsSansIOProtocol):
    """A WebSocket that the app can end even if its client does not read."""

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if not self.close_sent:
            # The app starts in a later iteration of the loop.
            self.scope[ABORT] = self.transport.abort  # pyright: ignore[reportGeneralTypeIssues] - a key of ours

    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body"):
            # A rejection is also a response: uvicorn must not log that it is missing.
            self.handshake_complete = True


class Swept(asyncio.Protocol):
    """A protocol with deadlines that one sweep checks for all connections."""

    def sweep(self, now: float) -> None:
        """Check the deadlines of this connection."""


class DirectApp(Interface):
    """The app, as far as it serves requests with known heads."""

    known_heads: KnownHeads

    def respond_directly(
        self, found: Recognised, cycle: DirectCycle, connection: Connection
    ) -> Coroutine[Any, Any, None]: ...


class Protocol(HttpToolsProtocol):
    """
    A connection with deadlines.

    There is no timer per request. Each connection records since when it reads, writes or is idle,
    and one sweep per second checks all of them.

    A whole request with a known head is served in the callback that received it. All others go
    through httptools, ASGI and a task. Both end in `App.respond`.
    """

    settings: Settings
    limits: ConnectionLimits
    unsent: Unsent
    direct: DirectApp
    open_stream: Callable[[Call, Callable[[], None]], Swept]
    """Creates the protocol of a stream, from its request and a function to call at its end."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._since: float | None = None
        """Start time of the request that is being read; None between requests."""
        self._is_reading_headers = True
        self._header_bytes = 0
        self._awaiting = b""
        """A known head, and the part of its body that has arrived."""
        self._writing_since: float | None = None
        self._resting_since: float | None = None
        self._disconnect = Disconnect()
        self._connection = Connection()
        self._answering: RequestResponseCycle | DirectCycle | None = None
        """The current or last request of the app."""
        self._is_aborted = False
        self._is_refused = False
        """No more input is read: the connection is, or will be, closed."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - as uvicorn has it
        super().connection_made(transport)
        self._connection = Connection(self.client, self._disconnect)
        # A connection that never sends data is treated like one that sends slowly.
        self._since = time.monotonic()
        if len(self.connections) > self.settings.max_connections:
            self._refuse(errors.Overloaded("this process has too many connections"))
        if not self.limits.enter(self.client):
            self._refuse(errors.RateLimited("this address has too many connections"))

    def connection_lost(self, exc: Exception | None) -> None:
        # If the transport closed without an error, it has sent everything.
        self._disconnect.is_cut = self.flow.write_paused and (exc is not None or self._is_aborted)
        super().connection_lost(exc)
        self.unsent.forget(self)
        self.limits.leave(self.client)
        self._disconnect.notify()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.unsent.note(self, self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        super().resume_writing()
        self.unsent.forget(self)

    def shutdown(self) -> None:
        if self._awaiting:
            # On the general way, this request gets a response before the connection closes.
            data, self._awaiting = self._awaiting, b""
            super().data_received(data)
        super().shutdown()

    def abort(self) -> None:
        """Close this connection immediately, and drop unread responses."""
        self._is_aborted = True
        self.transport.abort()

    def _should_upgrade(self) -> bool:
        # The app answers the request for a stream like any other, and then calls `_switch`.
        return not self._is_stream() and super()._should_upgrade()

    def _unsupported_upgrade_warning(self) -> None:
        if not self._is_stream():
            super()._unsupported_upgrade_warning()

    def _is_stream(self) -> bool:
        return self.url.partition(b"?")[0].endswith(_STREAM)

    def _switch(self, call: Call) -> None:
        """Hand this connection to a stream, after its request was accepted."""
        if self.transport.is_closing() or self.pipeline:
            self.transport.abort()  # A request behind the upgrade has no meaning.
            return
        connections: set[Any] = self.connections
        limits, client = self.limits, self.client

        def end() -> None:
            # Without a reference to this object, which would occupy memory as long as the stream.
            connections.discard(stream)
            limits.leave(client)

        stream = self.open_stream(call, end)
        connections.discard(self)
        connections.add(stream)
        self.transport.set_protocol(stream)
        stream.connection_made(self.transport)

    def handle_websocket_upgrade(self) -> None:
        # From now on, another protocol owns it, and it counts towards WS_MAX_CONNECTIONS.
        self.limits.leave(self.client)
        super().handle_websocket_upgrade()

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        is_resting = self._resting_since is not None and self._since is None
        if self._awaiting:
            data, self._awaiting, is_resting = self._awaiting + data, b"", True
        if is_resting:
            known_heads = self.direct.known_heads
            if (found := known_heads.recognise(data)) is not None:
                self._respond_directly(found)
                return
            if known_heads.is_start(data):
                self._await_body(data)
                return
            self._is_reading_headers = True
            self._header_bytes = 0
        if self._since is None:
            self._since = time.monotonic()
        self._resting_since = None
        was_reading = self._is_reading_headers
        before = self.cycle
        super().data_received(data)
        # Otherwise these bytes may start in the middle of a head.
        if is_resting and self.cycle is not before:
            self._note_head(data)
        # Headers that start or end in this chunk are not endless.
        if was_reading and self._is_in_headers():
            self._header_bytes += len(data)
            if self._header_bytes > self.settings.max_header_bytes:
                self._refuse(errors.HeadersTooLarge(self._most_headers()))

    def _respond_directly(self, found: Recognised) -> None:
        """Serve a request in this callback. While it waits, later requests are queued."""
        self._since = self._resting_since = None
        # It has what uvicorn uses of its own cycle, and of a task.
        cycle: Any = DirectCycle(self, found[1], self._disconnect)
        self._answering = self.cycle = cycle
        cycle.start(self.direct.respond_directly(found, cycle, self._connection))
        if cycle.is_running:
            # A stopping server waits for it, and cancels it in the end.
            self.tasks.add(cycle)

    def _await_body(self, data: bytes) -> None:
        """Keep a known head until its body has arrived, as many clients send it separately."""
        self._awaiting = data
        self._resting_since = None
        self._is_reading_headers = False
        if self._since is None:
            self._since = time.monotonic()

    def _note_head(self, data: bytes) -> None:
        """If these bytes are exactly one request, note its head, so that it can be recognised."""
        cycle = self.cycle
        is_whole = self._since is None and not self.pipeline
        if is_whole and isinstance(cycle, Cycle) and cycle.keep_alive and not cycle.more_body:
            cycle.raw_head = whole_head(data, len(cycle.body))

    def on_message_begin(self) -> None:
        self.url = b""
        self.expect_100_continue = False
        self.headers = []
        scope: Any = {
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": "1.1",
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "root_path": "",
            "headers": self.headers,
            "state": self.app_state,
        }
        self.scope = scope  # The rest follows after the headers.
        self._is_reading_headers = True
        self._header_bytes = 0
        if self._since is None:
            self._since = time.monotonic()

    def on_headers_complete(self) -> None:
        if self._is_refused:
            return
        self._is_reading_headers = False
        url, headers = self.url, self.headers
        size = len(url)
        for name, value in headers:
            size += len(name) + len(value) + 4
        if size > self.settings.max_header_bytes:
            self._refuse(errors.HeadersTooLarge(self._most_headers()))
            return
        parser, scope = self.parser, self.scope
        assert parser is not None
        scope["method"] = parser.get_method().decode("ascii")
        if parser.should_upgrade() and self._should_upgrade():
            return
        if not url.startswith(b"/") or b"#" in url:
            raise ValueError("the target of a request must be a path")  # Becomes a 400 response.
        raw_path, _, query = url.partition(b"?")
        path = raw_path.decode("ascii")
        scope["path"] = unquote(path) if "%" in path else path
        scope["raw_path"] = raw_path
        scope["query_string"] = query
        self._begin()

    def _begin(self) -> None:
        """Start this request in the app, after earlier ones."""
        parser = self.parser
        assert parser is not None
        version = parser.get_http_version()
        self.scope["http_version"] = version
        before = self.cycle
        app = cast("ASGI3Application", self.app)  # pyright: ignore[reportUnknownMemberType] - untyped
        self.cycle = Cycle(
            scope=self.scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=version != "1.0" and parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        self.scope[DISCONNECT] = self._disconnect  # pyright: ignore[reportGeneralTypeIssues] - a key of ours
        if self._is_stream():
            self.scope[SWITCH] = self._switch  # pyright: ignore[reportGeneralTypeIssues] - a key of ours
        if before is None or before.response_complete:  # pyright: ignore[reportUnnecessaryComparison] - None at first
            self._start_asgi_task(self.cycle, app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, app))

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._answering = cycle
        cast("dict[str, Any]", cycle.scope)[EXCHANGE] = cycle
        super()._start_asgi_task(cycle, app)

    def on_body(self, body: bytes) -> None:
        if not (self._is_refused or self.transport.is_closing()):
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._since = None
        if not (self._is_refused or self.transport.is_closing()):
            super().on_message_complete()

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self._resting_since = time.monotonic()

    def send_400_response(self, msg: str) -> None:
        self._refuse(errors.BadRequest(msg))

    def sweep(self, now: float) -> None:
        """Close this connection if its client is too slow to send, to read, or to send again."""
        transport = self.transport
        if self.pipeline:
            # The next request is not read while the first one is in progress.
            self._since = now
        if not transport.is_closing():
            if self._since is not None:
                limit = self.settings.body_timeout_ms
                if self._is_reading_headers:
                    limit = self.settings.header_timeout_ms
                if now - self._since > limit / 1000:
                    self._refuse(errors.RequestTimeout(f"the request took more than {limit} ms"))
            elif (
                self._resting_since is not None
                and now - self._resting_since > self.timeout_keep_alive
            ):
                transport.close()
        elif self._writing_since is None:
            self._writing_since = now
        unsent = transport.get_write_buffer_size()
        if self.flow.write_paused:
            self.unsent.note(self, unsent)
        if not unsent:
            self._writing_since = None
        elif self._writing_since is None:
            self._writing_since = now
        elif now - self._writing_since > self.settings.body_timeout_ms / 1000:
            self.abort()

    def _is_in_headers(self) -> bool:
        return self._is_reading_headers and self._since is not None

    def _most_headers(self) -> str:
        return f"the headers have more than {self.settings.max_header_bytes} bytes"

    def _refuse(self, error: errors.QueenError) -> None:
        """Respond without the app and close, after requests in progress."""
        if self._is_refused or self.transport.is_closing():
            return
        self._is_refused = True
        self._since = self._resting_since = None
        if self._close_behind():
            return
        cycle = self.cycle
        # None before the first request. A client that received a part of a response gets no more.
        if cycle is None or not (cycle.more_body and cycle.response_started):  # pyright: ignore[reportUnnecessaryComparison] - None at first
            body = msgspec.json.encode(problem(error))
            self.transport.write(
                STATUS_LINE[error.http_status]
                + b"content-type: application/problem+json\r\ncache-control: no-store\r\n"
                + (b"retry-after: 1\r\n" if error.http_status in (429, 503) else b"")
                + b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
                + body
            )
        self.transport.close()

    def _close_behind(self) -> bool:
        """
        Finish requests that were received completely, and close after the last one.

        False if there are none. They may have been applied, so the rejection of a later request
        must not take the place of their responses.
        """
        if self.pipeline and self.pipeline[0][0].more_body:
            self.pipeline.popleft()  # An incomplete request after others never starts.
            last = self.pipeline[0][0] if self.pipeline else self._answering
        else:
            last = self.cycle
        if last is None or last.more_body or last.response_complete:  # pyright: ignore[reportUnnecessaryComparison] - None at first
            return False
        last.keep_alive = False
        return True


async def sweep_forever(state: ServerState) -> None:
    """Check the deadlines of every connection once per second."""
    while True:
        await asyncio.sleep(1)
        now = time.monotonic()
        for connection in list(state.connections):
            if isinstance(connection, Protocol | Swept):
                connection.sweep(now)
