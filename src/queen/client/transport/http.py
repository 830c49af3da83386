"""One exchange with a server: retried, moved to another server, its refusals raised as errors."""

import asyncio
import io
import logging
import random
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

import msgspec

from queen import errors
from queen.client import tracing
from queen.client.config import Config
from queen.client.consume import long_poll
from queen.client.transport import tls
from queen.client.transport.failover import Server, Servers
from queen.redacted import without_passwords
from queen.wire.problems import Problem

if TYPE_CHECKING:
    import aiohttp

T = TypeVar("T")

_MOST_BACKOFF_SECONDS: Final = 30.0
_DECODE_PROBLEM: Final = msgspec.json.Decoder(Problem).decode
_LOG: Final = logging.getLogger("queen.client")
_LARGE_BYTES: Final = 2**20
_AT_THE_DOOR: Final = (errors.Unauthorized, errors.Forbidden, errors.OriginRefused)
"""Refusals that say nothing of an attempt before: nobody looked at what was asked."""
_BY_STATUS: Final[dict[int, type[errors.QueenError]]] = {
    401: errors.Unauthorized,
    403: errors.Forbidden,
    408: errors.RequestTimeout,
    413: errors.BodyTooLarge,
    425: errors.ServiceError,
    429: errors.RateLimited,
}
"""What a response means that has no code of ours: a proxy sent it."""
_JSON: Final = {"Content-Type": "application/json"}


class Reply(NamedTuple):
    """What a server answered."""

    status: int
    body: bytes
    retry_after: str | None = None
    is_repeated: bool = False
    """An attempt before this one may have been applied, and its answer got lost."""


class Transport(Protocol):
    """What the client needs of a way to its servers."""

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
    ) -> Reply:
        """Send a request and return the answer; raises what `queen.errors` has for a refusal."""
        ...

    async def open(self) -> None:
        """Be ready for exchanges, also after `close`."""
        ...

    async def close(self) -> None: ...


class HttpTransport:
    """Exchanges by aiohttp, with one pool of connections for each event loop."""

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
        """How many servers one exchange may go to."""
        self._is_closed = False
        self._tls = tls.context(config)
        self._has_answered = False
        self._headers = dict(config.headers)
        if config.bearer_token is not None:
            self._headers["Authorization"] = f"Bearer {config.bearer_token}"

    async def open(self) -> None:
        self._is_closed = False

    async def close(self) -> None:
        self._is_closed = True
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
    ) -> Reply:
        import aiohttp  # Takes longer to load than all of the SDK: not before it is used.

        tried: list[Server] = []
        unsettled: errors.QueenError | None = None
        """Why nobody knows what became of an attempt before this one."""
        while True:
            # In one round each server is met once; with another one at hand no wait is needed.
            around = tried[len(tried) // self._width * self._width :]
            is_free = self._config.enable_failover
            server = self._servers.choose(key, around) if is_free else self._servers.home(key)
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
                        return reply if unsettled is None else reply._replace(is_repeated=True)
                else:
                    self._servers.failed(server)
                failure = of_reply(reply, is_repeated=unsettled is not None)
                if isinstance(failure, errors.RequestError):
                    # Only Queen's own judgement of a request holds for the attempts before it.
                    is_judged = failure.problem is not None and not isinstance(
                        failure, _AT_THE_DOOR
                    )
                    raise _in_all(failure, None if is_judged else unsettled)
                if not self._repeats(failure, len(tried), is_repeatable):
                    raise _in_all(failure, unsettled)
            if failure.applied is None:
                unsettled = failure
            is_elsewhere = len(tried) % self._width and failure.http_status != 429
            if not is_elsewhere:
                await asyncio.sleep(self._pause(len(tried) // self._width, failure))

    def _repeats(self, failure: errors.QueenError, tried: int, is_repeatable: bool) -> bool:
        attempts = max(self._config.retry_attempts, self._width)
        # A caller learns of a long wait, and may do something else meanwhile.
        is_soon = (failure.retry_after or 0.0) <= _MOST_BACKOFF_SECONDS
        return tried < attempts and is_soon and (is_repeatable or failure.applied is False)

    def _pause(self, round_: int, failure: errors.QueenError) -> float:
        """Full jitter, so that clients that failed together do not come back together."""
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
        import aiohttp
        from yarl import URL

        timeout = aiohttp.ClientTimeout(
            total=self._config.timeout_millis / 1000 + wait_seconds,
            sock_connect=min(5.0, self._config.timeout_millis / 1000),
        )
        sent = _JSON if body is not None else None
        if headers or (headers := tracing.request_headers()):
            sent = {**(sent or {}), **headers}
        async with self._session().request(
            method,
            # Encoded already: names may hold what a path may not.
            URL(server.url + path, encoded=True),
            # Large ones in pieces, so that the loop is not held up by one.
            data=body if body is None or len(body) < _LARGE_BYTES else io.BytesIO(body),
            headers=sent,
            timeout=timeout,
        ) as response:
            self._has_answered = True
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
            # Repeats are ours alone: one that we do not know of could not be told from a first.
            setattr(session, "_retry_connection", False)  # noqa: B010 - there is no other way
        return session


def decoded(reply: Reply, decode: Callable[[bytes], T]) -> T:
    """What an answer says; one that is not Queen's says nothing of what was applied."""
    try:
        return decode(reply.body)
    except msgspec.DecodeError as error:
        raise errors.OutcomeUnknown(
            f"the answer is not one of a Queen server: {error}", status=reply.status
        ) from error


def _lost(server: Server, error: Exception, *, has_answered: bool) -> errors.QueenError:
    import aiohttp

    url = without_passwords(server.url)

    # A connection that did not come about in time has carried nothing either.
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return errors.ServerUnreachable(f"cannot reach {url}: {error}")
    if isinstance(error, TimeoutError):
        return errors.ConnectionLost(f"{url} did not answer in time")
    hint = ""
    if server.url.startswith("https:") and not has_answered:
        # A server that rejects a certificate just hangs up, often without a reason.
        hint = "; if it asks for client certificates, check client_certificate and client_key"
    return errors.ConnectionLost(f"the connection to {url} was lost: {error}{hint}")


def _in_all(last: errors.QueenError, unsettled: errors.QueenError | None) -> errors.QueenError:
    """What to raise after the last attempt: one before it that may have been applied counts."""
    if unsettled is None or last.applied is None:
        return last
    members = {**last.members, "is_repeated": True}
    return type(unsettled)(f"{unsettled}; then, tried again: {last}", **members)


def of_reply(reply: Reply, *, is_repeated: bool = False) -> errors.QueenError:
    """The error that an answer tells of."""
    members: dict[str, Any] = {"status": reply.status, "is_repeated": is_repeated}
    if (seconds := seconds_of_retry_after(reply.retry_after)) is not None:
        members["retry_after"] = seconds
    try:
        problem = _DECODE_PROBLEM(reply.body)
    except msgspec.DecodeError:
        text = f"the response, {reply.status}, is not one of a Queen server"
        return _of_status(reply.status)(text, **members)
    kind = errors.of_code(problem.code) or _of_status(reply.status)
    return kind(problem.detail, problem=problem, **members)


def _of_status(status: int) -> type[errors.QueenError]:
    # A proxy's 502 may stand where the response to a request belongs that was applied.
    other = errors.OutcomeUnknown if status >= 500 else errors.RequestError
    return _BY_STATUS.get(status, other)


def may_succeed_later(error: errors.QueenError) -> bool:
    """
    Whether the same request may succeed later.

    Also once a key, a permission or a proxy on the way is put right: only Queen itself can reject
    a request for what is in it.
    """
    if not isinstance(error, errors.RequestError) or isinstance(error, _AT_THE_DOOR):
        return True
    is_foreign = "status" in error.members and error.problem is None
    return is_foreign and not isinstance(error, errors.BodyTooLarge)


def seconds_of_retry_after(retry_after: str | None) -> float | None:
    """The wait that a Retry-After header asks for, given in seconds or as a date."""
    if not retry_after:
        return None
    if retry_after.isdecimal():
        return float(retry_after)
    from email.utils import parsedate_to_datetime

    try:
        until = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    return max(0.0, until.timestamp() - time.time())
