"""Responses: what handlers return, and how it is sent."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import msgspec
from starlette.types import Send

from queen import errors
from queen.server.http.scope_keys import Exchange

_ENCODE: Final = msgspec.json.Encoder(order=None).encode
_JSON: Final = b"content-type: application/json\r\n"


class Answer:
    """The response of a handler: a struct, or encoded JSON."""

    __slots__ = ("body", "cache", "error", "headers", "media_type", "status", "undo", "upgrade")

    def __init__(
        self,
        body: object = None,
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        media_type: str | None = None,
        error: type[errors.QueenError] | None = None,
        cache: bytes = b"no-store",
        undo: Callable[[], Awaitable[None]] | None = None,
        upgrade: Callable[[], None] | None = None,
    ) -> None:
        self.status = status
        self.undo = undo
        """Called if the client disconnected before it received this."""
        self.upgrade = upgrade
        """Called after this was sent, to hand the connection to another protocol."""
        self.cache = cache
        self.error = error
        """The type of the error that this reports, for metrics and logs. The error itself would
        keep its frames in memory, with the request body."""
        self.body = body if isinstance(body, bytes) or body is None else _ENCODE(body)
        self.headers = headers
        self.media_type = media_type


def is_known(if_none_match: str | None, etag: str) -> bool:
    """Whether the client has this version already."""
    if if_none_match is None:
        return False
    known = {each.strip().removeprefix("W/") for each in if_none_match.split(",")}
    return "*" in known or etag.removeprefix("W/") in known


async def reply(
    send: Send | None,
    exchange: Exchange | None,
    answer: Answer,
    headers: bytes,
    *,
    is_head: bool = False,
) -> None:
    """
    Send a response, or undo it if the client has disconnected.

    ``exchange``: None if the app runs on another server, which needs ``send``. ``headers``: those
    of every response, encoded.
    """
    body: bytes = answer.body or b""
    lines = b"cache-control: %b\r\n%b" % (answer.cache, headers)
    if answer.status not in (101, 204, 304):  # These have no body. RFC 9110, 8.6.
        lines += b"content-length: %d\r\n" % len(body)
    if answer.media_type is not None:
        lines += b"content-type: %b\r\n" % answer.media_type.encode()
    elif body:
        lines += _JSON
    if answer.headers:
        lines += _encoded(answer.headers)
    if is_head:
        body = b""
    if exchange is None:
        assert send is not None
        pairs = [tuple(line.split(b": ", 1)) for line in lines.split(b"\r\n")[:-1]]
        await send({"type": "http.response.start", "status": answer.status, "headers": pairs})
        await send({"type": "http.response.body", "body": body})
        return
    undo = answer.undo
    is_sent = await exchange.answer(answer.status, lines, body, is_awaited=undo is not None)
    if undo is not None and not is_sent:
        await undo()
    if answer.upgrade is not None and is_sent:
        answer.upgrade()


def _encoded(headers: Mapping[str, str]) -> bytes:
    lines: list[bytes] = []
    for name, value in headers.items():
        if "\r" in value or "\n" in value:
            raise ValueError(f"the value of header {name} contains a line break")
        lines.append(b"%b: %b\r\n" % (name.lower().encode(), value.encode("latin-1", "replace")))
    return b"".join(lines)
