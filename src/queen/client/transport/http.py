"""Requests over HTTP, with retries and failover. Rejections are raised as errors."""

import asyncio
import io
import logging
import random
import weakref
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

from queen import errors
from queen.client import tracing
from queen.client.config import Config
from queen.client.transport import long_poll, tls
from queen.client.transport.base import AT_THE_DOOR, PREFERRED, Reply, error_of
from queen.client.transport.failover import Server, Servers
from queen.client.transport.stream import StreamPool, operation_of
from queen.client.transport.stream_connection import NotReceived
from queen.redacted import without_passwords

if TYPE_CHECKING:
    import aiohttp

    from queen.client.transport.preferences import Preferences

_MOST_BACKOFF_SECONDS: Final = 30.0
_LOG: Final = logging.getLogger("queen.client")
_LARGE_BYTES: Final = 2**20
_JSON: Final = {"Content-Type": "application/json"}


class HttpTransport:
    """Exchanges over aiohttp, with one connection pool per event loop."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._servers = Servers(
            config.urls,
            config.load_balancing_strategy,
            points=config.affinity_hash_ring,
            retry_after_seconds=config.health_retry_after_millis / 1000,
        )
        self._sessions: weakref.WeakKeyDictionary[
            asyncio.AbstractEventLoop, aiohttp.ClientSession
        ] = weakref.WeakKeyDictionary()
        self._width = len(config.urls) if config.enable_failover else 1
        """The number of servers that one request may go to."""
        self._is_closed = False
        self._tls = tls.context(config)
        self._has_answered = False
        self._has_preferences = False
        self._headers = dict(config.headers)
        if config.bearer_token is not None:
            self._headers["Authorization"] = f"Bearer {config.bearer_token}"

        self._streams = StreamPool(config, self._headers, self._tls) if config.stream else None

    @property
    def urls(self) -> Sequence[str]:
        """The URLs of the servers."""
        return self._config.urls

    @property
    def has_preferences(self) -> bool:
        """Whether a server has responded that prefers databases."""
        streams = self._streams
        return self._has_preferences or (streams is not None and streams.has_preferences)

    @cached_property
    def preferences(self) -> "Preferences | None":
        """Chooses servers that prefer the databases of pushes. None: the options exclude that."""
        if self._width < 2 or self._config.load_balancing_strategy != "affinity":
            return None
        from queen.client.transport.preferences import Preferences  # It has structs of the map.

        return Preferences(self)

    async def open(self) -> None:
        self._is_closed = False

    async def close(self) -> None:
        self._is_closed = True
        if self.preferences is not None:
            await self.preferences.close()
        if self._streams is not None:
            await self._streams.close()
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.close()

    async def exchange(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        key: str | None = None,
        wait_seconds: float = 0,
        is_repeatable: bool = True,
        headers: dict[str, str] | None = None,
        preferred: Collection[str] | None = None,
    ) -> Reply:
        """``preferred``: URLs of servers to try first. Unless None, the reply names its server."""
        import aiohttp  # Slower to load than the whole SDK, so it is loaded on first use.

        tried: list[Server] = []
        unsettled: errors.QueenError | None = None
        """The error of an earlier attempt that may have been applied."""
        while True:
            # In one round, each server is tried once, without a wait between them.
            around = tried[len(tried) // self._width * self._width :]
            server = self._choose(key, around, preferred)
            tried.append(server)
            try:
                reply = await self._send(server, method, path, body, wait_seconds, headers)
            except (TimeoutError, aiohttp.ClientError, OSError) as error:
                if long_poll.is_over():
                    self._servers.left(server)
                    raise asyncio.CancelledError from error
                self._servers.failed(server)
                failure: errors.QueenError = _lost(server, error, has_answered=self._has_answered)
                if not self._repeats(failure, len(tried), is_repeatable):
                    raise _in_all(failure, unsettled) from error
            except BaseException:
                self._servers.left(server)
                raise
            else:
                if _LOG.isEnabledFor(logging.DEBUG):
                    url = without_passwords(server.url)
                    _LOG.debug("exchange: %s %s%s: %d", method, url, path, reply.status)
                if reply.status < 500:
                    self._servers.answered(server)
                    if reply.status < 400:
                        if preferred is not None:
                            reply = reply._replace(server=server.url)
                        return reply if unsettled is None else reply._replace(is_repeated=True)
                else:
                    self._servers.failed(server)
                failure = error_of(reply, is_repeated=unsettled is not None)
                if isinstance(failure, errors.RequestError):
                    # Only a rejection by Queen itself is also valid for earlier attempts.
                    is_judged = failure.problem is not None and not isinstance(failure, AT_THE_DOOR)
                    raise _in_all(failure, None if is_judged else unsettled)
                if not self._repeats(failure, len(tried), is_repeatable):
                    raise _in_all(failure, unsettled)
            if failure.applied is None:
                unsettled = failure
            is_elsewhere = len(tried) % self._width and failure.http_status != 429
            if not is_elsewhere:
                await asyncio.sleep(self._pause(len(tried) // self._width, failure))

    def _choose(
        self, key: str | None, tried: Sequence[Server], preferred: Collection[str] | None
    ) -> Server:
        if self._config.enable_failover:
            return self._servers.choose(key, tried, preferred or ())
        return self._servers.home(key)

    def _repeats(self, failure: errors.QueenError, tried: int, is_repeatable: bool) -> bool:
        attempts = max(self._config.retry_attempts, self._width)
        # For a long wait, raise: the caller may have something else to do.
        is_soon = (failure.retry_after or 0.0) <= _MOST_BACKOFF_SECONDS
        return tried < attempts and is_soon and (is_repeatable or failure.applied is False)

    def _pause(self, round_: int, failure: errors.QueenError) -> float:
        """Return a wait with full jitter, so that failed clients don't retry at the same time."""
        config = self._config
        most = config.retry_delay_millis / 1000 * config.retry_backoff ** max(round_ - 1, 0)
        wait = random.uniform(0, min(most, _MOST_BACKOFF_SECONDS))
        return max(wait, failure.retry_after or 0.0)

    async def _send(
        self,
        server: Server,
        method: str,
        path: str,
        body: bytes | None,
        wait_seconds: float,
        headers: dict[str, str] | None,
    ) -> Reply:
        sent = headers or tracing.request_headers()
        if (
            self._streams is not None
            and not self._is_closed
            and (operation := operation_of(method, path, body, sent)) is not None
            and (reply := await self._streams.exchange(server.url, operation, wait_seconds))
            is not None
        ):
            self._has_answered = True
            return reply
        return await self._request(server, method, path, body, wait_seconds, sent)

    async def _request(
        self,
        server: Server,
        method: str,
        path: str,
        body: bytes | None,
        wait_seconds: float,
        headers: dict[str, str] | None,
    ) -> Reply:
        import aiohttp
        from yarl import URL

        timeout = aiohttp.ClientTimeout(
            total=self._config.timeout_millis / 1000 + wait_seconds,
            sock_connect=min(5.0, self._config.timeout_millis / 1000),
        )
        sent = _JSON if body is not None else None
        if headers:
            sent = {**(sent or {}), **headers}
        async with self._session().request(
            method,
            # Already encoded: names may contain characters that a path may not.
            URL(server.url + path, encoded=True),
            # Large bodies are sent in parts, so that one does not block the loop.
            data=body if body is None or len(body) < _LARGE_BYTES else io.BytesIO(body),
            headers=sent,
            timeout=timeout,
        ) as response:
            self._has_answered = True
            if PREFERRED in response.headers:
                self._has_preferences = True
            return Reply(
                response.status, await response.read(), response.headers.get("Retry-After")
            )

    def _session(self) -> "aiohttp.ClientSession":
        import aiohttp

        if self._is_closed:
            raise errors.BadRequest("this client is closed")
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None:
            session = self._sessions[loop] = aiohttp.ClientSession(
                headers=self._headers,
                connector=aiohttp.TCPConnector(
                    limit=self._config.pool_size, ssl=True if self._tls is None else self._tls
                ),
                response_class=long_poll.response_class(),
            )
            # aiohttp must not repeat requests itself: this class has to know of each attempt.
            setattr(session, "_retry_connection", False)  # noqa: B010 - there is no other way
        return session


def _lost(server: Server, error: Exception, *, has_answered: bool) -> errors.QueenError:
    import aiohttp

    url = without_passwords(server.url)

    # Without a connection, the request cannot have been sent.
    if isinstance(
        error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError | NotReceived
    ):
        return errors.ServerUnreachable(f"cannot reach {url}: {error}")
    if isinstance(error, TimeoutError):
        return errors.ConnectionLost(f"{url} did not respond in time")
    hint = ""
    if server.url.startswith("https:") and not has_answered:
        # A server that rejects a client certificate often closes the connection without a reason.
        hint = "; if it requires client certificates, check client_certificate and client_key"
    return errors.ConnectionLost(f"the connection to {url} was lost: {error}{hint}")


def _in_all(last: errors.QueenError, unsettled: errors.QueenError | None) -> errors.QueenError:
    """Return the error to raise: an earlier attempt that may have been applied takes precedence."""
    if unsettled is None or last.applied is None:
        return last
    members = {**last.members, "is_repeated": True}
    return type(unsettled)(f"{unsettled}; then, on the retry: {last}", **members)
