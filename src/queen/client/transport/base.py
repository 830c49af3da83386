"""The interface of transports, replies, and the errors that replies represent."""

import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import msgspec

from queen import errors
from queen.wire.problems import Problem

T = TypeVar("T")

_DECODE_PROBLEM: Final = msgspec.json.Decoder(Problem).decode
AT_THE_DOOR: Final = (errors.Unauthorized, errors.Forbidden, errors.OriginRefused)
"""Rejections before the request is processed. An earlier attempt may still be applied."""
_BY_STATUS: Final[dict[int, type[errors.QueenError]]] = {
    401: errors.Unauthorized,
    403: errors.Forbidden,
    408: errors.RequestTimeout,
    413: errors.BodyTooLarge,
    425: errors.ServiceError,
    429: errors.RateLimited,
}
"""Errors for responses without a Queen error code, which come from a proxy."""


class Reply(NamedTuple):
    """The response of a server."""

    status: int
    body: bytes
    retry_after: str | None = None
    is_repeated: bool = False
    """An earlier attempt may have been applied, and its response got lost."""
    server: str = ""
    """URL of the server, if the request had preferred ones."""


PREFERRED: Final = "Queen-Preferred-Databases"
"""A header of servers that prefer databases."""


class Transport(Protocol):
    """The interface between a client and its servers."""

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
        """Send a request and return the reply; raises an error of `queen.errors` if rejected."""
        ...

    async def open(self) -> None:
        """Prepare for exchanges, also after `close`."""
        ...

    async def close(self) -> None: ...


def decoded(reply: Reply, decode: Callable[[bytes], T]) -> T:
    """The decoded body; raises OutcomeUnknown if it does not come from a Queen server."""
    try:
        return decode(reply.body)
    except msgspec.DecodeError as error:
        raise errors.OutcomeUnknown(
            f"the response does not come from a Queen server: {error}", status=reply.status
        ) from error


def error_of(reply: Reply, *, is_repeated: bool = False) -> errors.QueenError:
    """Return the error that a reply represents."""
    members: dict[str, Any] = {"status": reply.status, "is_repeated": is_repeated}
    if (seconds := seconds_of_retry_after(reply.retry_after)) is not None:
        members["retry_after"] = seconds
    try:
        problem = _DECODE_PROBLEM(reply.body)
    except msgspec.DecodeError:
        text = f"the response, {reply.status}, does not come from a Queen server"
        return _kind_of(reply.status)(text, **members)
    kind = errors.of_code(problem.code) or _kind_of(reply.status)
    return kind(problem.detail, problem=problem, **members)


def _kind_of(status: int) -> type[errors.QueenError]:
    # A proxy may send 502 although the server applied the request.
    other = errors.OutcomeUnknown if status >= 500 else errors.RequestError
    return _BY_STATUS.get(status, other)


def may_succeed_later(error: errors.QueenError) -> bool:
    """
    Whether the same request may succeed later.

    A key, a permission or a proxy can be corrected. Only a rejection of the contents, by Queen
    itself, is final.
    """
    if not isinstance(error, errors.RequestError) or isinstance(error, AT_THE_DOOR):
        return True
    is_foreign = "status" in error.members and error.problem is None
    return is_foreign and not isinstance(error, errors.BodyTooLarge)


def seconds_of_retry_after(retry_after: str | None) -> float | None:
    """Return the seconds of a Retry-After header, which has a number or a date."""
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
