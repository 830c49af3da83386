"""Requests as operations of streams, one stream per server; HTTP where there is none."""

import asyncio
import secrets
import time
import weakref
from base64 import b64encode
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote

import msgspec

from queen import errors
from queen.client.config import Config
from queen.client.transport import long_poll
from queen.client.transport.base import PREFERRED, Reply
from queen.client.transport.stream_connection import Pending, StreamConnection
from queen.wire.stream import Response
from queen.wire.websocket import accept_of

if TYPE_CHECKING:
    import ssl

    import aiohttp

_ENCODE: Final = msgspec.json.Encoder().encode
_PATH: Final = "/api/v1/stream"
_LEASE: Final = "/api/v1/lease/"
_VERBS: Final = {
    "/api/v1/push": b"push",
    "/api/v1/ack": b"ack",
    "/api/v1/ack/batch": b"ackBatch",
    "/api/v1/lease/extend": b"extend",
}
_ENDS: Final = {"/ack": b"complete", "/release": b"release"}
_NUMBERS: Final = frozenset({"batch", "partitions", "timeout", "leaseSeconds"})
_FLAGS: Final = frozenset({"wait", "autoAck"})
_LARGE_BYTES: Final = 2**18
"""Larger requests use HTTP, so that the operations behind them don't wait."""
_NOT_OFFERED: Final = frozenset({400, 403, 404, 405, 426, 501})
_ABSENT_SECONDS: Final = 60.0
"""How long to use HTTP for a server or proxy that does not offer streams."""
_FAILED_SECONDS: Final = 5.0
"""How long to use HTTP after a handshake that failed for another reason."""
_HANDSHAKE_SECONDS: Final = 10.0


class Operation(NamedTuple):
    """A request as an operation."""

    verb: bytes
    body: bytes
    traceparent: str | None = None


def operation_of(
    method: str, path: str, body: bytes | None, headers: dict[str, str] | None
) -> Operation | None:
    """Return the operation of a request; None if it needs HTTP."""
    traceparent = None
    if headers:
        if headers.keys() - {"traceparent"}:
            return None
        traceparent = headers["traceparent"]
    if method == "POST":
        verb = _VERBS.get(path)
        if verb is not None and body is not None:
            return Operation(verb, body, traceparent) if len(body) <= _LARGE_BYTES else None
        if body is None and path.startswith(_LEASE):
            lease_id, slash, end = path[len(_LEASE) :].partition("/")
            if (verb := _ENDS.get(slash + end)) is not None:
                return Operation(verb, b'{"leaseId":%b}' % _ENCODE(unquote(lease_id)), traceparent)
    elif method == "GET" and path.startswith("/api/v1/pop"):
        found = _pop_body(path)
        return None if found is None else Operation(b"pop", found, traceparent)
    return None


@lru_cache(maxsize=1_024)
def _pop_body(path: str) -> bytes | None:
    """Return the body of a pop, from its path. A consumer repeats the same path."""
    where, _, query = path.removeprefix("/api/v1/pop").partition("?")
    body: dict[str, Any] = {}
    for name, text in parse_qsl(query, keep_blank_values=True):
        if name in _NUMBERS:
            body[name] = float(text) if "." in text or "e" in text else int(text)
        else:
            body[name] = text == "true" if name in _FLAGS else text
    match where.split("/")[1:]:
        case []:
            pass
        case ["queue", queue]:
            body["queue"] = unquote(queue)
        case ["queue", queue, "partition", partition]:
            body |= {"queue": unquote(queue), "partition": unquote(partition)}
        case _:
            return None
    return _ENCODE(body)


class _Link:
    """The stream to one server."""

    __slots__ = ("connecting", "http_until", "stream")

    def __init__(self) -> None:
        self.stream: StreamConnection | None = None
        self.connecting: asyncio.Task[StreamConnection | None] | None = None
        self.http_until = 0.0


class _OfLoop:
    """The streams of one event loop."""

    __slots__ = ("links", "session")

    def __init__(self, session: "aiohttp.ClientSession") -> None:
        self.session = session
        self.links: dict[str, _Link] = {}


class StreamPool:
    """The streams of one client."""

    def __init__(
        self, config: Config, headers: dict[str, str], tls: "ssl.SSLContext | None"
    ) -> None:
        self._config = config
        self._headers = headers
        self._tls = tls
        self.has_preferences = False
        """A server that prefers databases has responded."""
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _OfLoop] = (
            weakref.WeakKeyDictionary()
        )

    async def close(self) -> None:
        """Close the streams of this event loop."""
        found = self._loops.pop(asyncio.get_running_loop(), None)
        if found is None:
            return
        for link in found.links.values():
            if link.connecting is not None:
                link.connecting.cancel()
            if link.stream is not None:
                link.stream.close()
        await found.session.close()

    async def exchange(self, url: str, operation: Operation, wait_seconds: float) -> Reply | None:
        """
        Send an operation to a server; None if the server or a proxy offers no streams.

        Raises TimeoutError, OSError or an error of aiohttp, as a request over HTTP does.
        """
        stream = await self._stream(url)
        if stream is None:
            return None
        pending = stream.send(*operation)
        is_pop = operation.verb == b"pop"
        if is_pop:
            long_poll.on_hang_up(lambda: stream.cancel(pending))
        try:
            async with asyncio.timeout(self._config.timeout_millis / 1000 + wait_seconds):
                response = await pending.result
        except BaseException:
            _leave(stream, pending, is_pop=is_pop)
            raise
        finally:
            if is_pop:
                long_poll.on_hang_up(None)  # The request may be repeated over HTTP.
        return _reply(response, is_pop=is_pop)

    async def _stream(self, url: str) -> StreamConnection | None:
        """Return the open stream to a server, or open one."""
        loop = asyncio.get_running_loop()
        here = self._loops.get(loop)
        if here is None:
            here = self._loops[loop] = _OfLoop(self._new_session())
        link = here.links.get(url)
        if link is None:
            link = here.links[url] = _Link()
        if link.stream is not None and link.stream.is_open:
            return link.stream
        if time.monotonic() < link.http_until:
            return None
        if link.connecting is None:
            link.connecting = asyncio.create_task(self._open(here.session, link, url))
            link.connecting.add_done_callback(_read)
        return await asyncio.shield(link.connecting)

    def _new_session(self) -> "aiohttp.ClientSession":
        import aiohttp

        # Not the session of requests: its pool may be limited, and a stream never returns to it.
        session = aiohttp.ClientSession(
            headers=self._headers,
            connector=aiohttp.TCPConnector(
                limit=0, ssl=True if self._tls is None else self._tls, force_close=True
            ),
        )
        setattr(session, "_retry_connection", False)  # noqa: B010 - as in `HttpTransport`
        return session

    async def _open(
        self, session: "aiohttp.ClientSession", link: _Link, url: str
    ) -> StreamConnection | None:
        import aiohttp

        try:
            link.stream = await self._handshake(session, link, url)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
            raise  # No server is there: the same error as for a request.
        except (aiohttp.ClientError, TimeoutError, OSError):
            link.http_until = time.monotonic() + _FAILED_SECONDS
            link.stream = None
        finally:
            link.connecting = None
        return link.stream

    async def _handshake(
        self, session: "aiohttp.ClientSession", link: _Link, url: str
    ) -> StreamConnection | None:
        import aiohttp
        from yarl import URL

        key = b64encode(secrets.token_bytes(16)).decode()
        limit = min(_HANDSHAKE_SECONDS, self._config.timeout_millis / 1000)
        response = await session.get(
            URL(url + _PATH, encoded=True),
            headers={
                "Connection": "Upgrade",
                "Upgrade": "websocket",
                "Sec-WebSocket-Version": "13",
                "Sec-WebSocket-Key": key,
            },
            allow_redirects=False,
            read_until_eof=False,
            timeout=aiohttp.ClientTimeout(total=limit, sock_connect=min(5.0, limit)),
        )
        if PREFERRED in response.headers:
            self.has_preferences = True
        connection = response.connection
        if (
            response.status != 101
            or response.headers.get("Sec-WebSocket-Accept") != accept_of(key)
            or connection is None
            or connection.transport is None
            or connection.protocol is None
        ):
            is_absent = response.status in _NOT_OFFERED or response.status < 400
            seconds = _ABSENT_SECONDS if is_absent else _FAILED_SECONDS
            link.http_until = time.monotonic() + seconds
            response.close()
            return None

        def end(has_answered: bool) -> None:
            response.close()
            if not has_answered:
                # A proxy may accept the handshake and then not forward frames.
                link.http_until = time.monotonic() + _FAILED_SECONDS

        transport = connection.transport
        stream = StreamConnection(connection.protocol, end)
        transport.set_protocol(stream)
        stream.connection_made(transport)
        return stream


def _leave(stream: StreamConnection, pending: Pending, *, is_pop: bool) -> None:
    if is_pop:
        stream.abandon(pending)
    else:
        stream.forget(pending)


def _reply(response: Response, *, is_pop: bool) -> Reply:
    """Return the response of the same request over HTTP."""
    after = response.retry_after
    retry_after = None if after is None else str(after)
    if response.problem is not msgspec.UNSET:
        problem = bytes(response.problem)
        return Reply(msgspec.json.decode(problem, type=_Status).status, problem, retry_after)
    if response.result is msgspec.UNSET:
        raise errors.OutcomeUnknown("the response does not come from a Queen server")
    body = bytes(response.result)
    if is_pop and body.startswith(b'{"messages":[]'):
        return Reply(204, b"", retry_after)
    return Reply(200, body)


class _Status(msgspec.Struct):
    status: int


def _read(task: "asyncio.Task[Any]") -> None:
    """Read the error of a handshake whose callers have left."""
    if not task.cancelled():
        task.exception()
