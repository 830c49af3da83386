"""Read the body and the query string of a request."""

import asyncio
import io
import zlib
from collections.abc import Callable
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.types import Receive

from queen import errors
from queen.server.decoding.bodies import DIRECT_BYTES, Bodies
from queen.server.decoding.decoder import decode
from queen.server.decoding.violations import refused
from queen.server.http import timestamps
from queen.server.http.scope_keys import ClientGone, Exchange
from queen.server.memory_budget import Share

T = TypeVar("T")
Header = Callable[[bytes], str | None]

_INFLATED_BYTES: Final = 2**16


def parse_query(text: bytes, type_: type[T]) -> T:
    """Decode a query string; raises BadRequest for unknown and repeated parameters."""
    try:
        pairs = parse_qsl(
            text.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100
        )
    except ValueError as error:
        raise errors.BadRequest(f"the query string: {error}") from error
    values = dict(pairs)
    if len(values) < len(pairs):
        raise errors.BadRequest("the query string has a parameter twice")
    try:
        found = msgspec.convert(values, type_, strict=False)
    except msgspec.ValidationError as error:
        raise refused(error, "") from error
    timestamps.check(found)
    return found


async def parse_body(raw: bytes, type_: type[T], large: Bodies, share: Share) -> T:
    """Decode a body. It may be empty if all fields of the struct are optional."""
    if not raw and not _is_required(type_):
        raw = b"{}"
    if len(raw) <= DIRECT_BYTES:
        return parse_small(raw, type_)
    found: T = await large.decode(raw, type_, share.take)
    timestamps.check(found)
    return found


def parse_small(raw: bytes, type_: type[T]) -> T:
    """Decode a body that needs no limits and is not empty."""
    try:
        if not raw.isascii():
            raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise errors.BadRequest(f"the body is not JSON in UTF-8: {error}") from error
    found: T = decode(raw, type_)
    timestamps.check(found)
    return found


def _is_required(type_: type[Any]) -> bool:
    return any(each.required for each in msgspec.structs.fields(type_))


async def read_body(
    header: Header, receive: Receive | None, exchange: Exchange | None, share: Share, most: int
) -> bytes:
    """Read a JSON body of at most this many bytes, and decompress it."""
    length = header(b"content-length")
    if length is not None and length.isdigit() and int(length) > most:
        raise errors.BodyTooLarge(f"the body has {length} bytes; the limit is {most}")
    is_packed = _is_packed(header)
    body = None if exchange is None else exchange.take_body()
    is_more = False
    if body is None:
        body, is_more = await _receive_part(receive)
    if body and not _is_json(header):
        raise errors.UnsupportedMediaType("Content-Type must be application/json")
    if not is_packed and not is_more:
        share.take(len(body))
        if len(body) > most:
            raise errors.BodyTooLarge(f"the body has {len(body)} bytes; the limit is {most}")
        return body
    whole = _Inflated(most, share) if is_packed else _Body(most, share)
    await whole.add(body)
    while is_more:
        body, is_more = await _receive_part(receive)
        await whole.add(body)
    return whole.end()


async def _receive_part(receive: Receive | None) -> tuple[bytes, bool]:
    """Receive a part of the body, and whether more follow; raises ClientGone."""
    assert receive is not None  # Only an exchange may have its body already.
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientGone
    return message.get("body", b""), message.get("more_body", False)


def _is_packed(header: Header) -> bool:
    encoding = (header(b"content-encoding") or "identity").strip().lower()
    if encoding not in ("identity", "gzip"):
        raise errors.UnsupportedMediaType(f"Content-Encoding {encoding} is not supported; use gzip")
    return encoding == "gzip"


def _is_json(header: Header) -> bool:
    media_type, _, rest = (header(b"content-type") or "").partition(";")
    if media_type.strip().lower() != "application/json":
        return False
    charset = rest.strip().lower()
    return not charset or charset in ("charset=utf-8", 'charset="utf-8"')


class _Body:
    """A body received in parts, up to a size. It grows in place, to be in memory only once."""

    def __init__(self, most: int, share: Share) -> None:
        self._whole = io.BytesIO()
        self._most = self._left = most
        self._share = share

    async def add(self, data: bytes) -> None:
        self._write(data)

    def end(self) -> bytes:
        return self._whole.getvalue()

    def _write(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left < 0:
            raise errors.BodyTooLarge(f"the body is larger than {self._most} bytes")
        self._share.take(len(data))
        self._whole.write(data)


class _Inflated(_Body):
    """A gzip body, decompressed part by part."""

    def __init__(self, most: int, share: Share) -> None:
        super().__init__(most, share)
        self._stream = zlib.decompressobj(wbits=31)

    async def add(self, data: bytes) -> None:
        """Decompress in steps, with other tasks in between: a small part may expand a lot."""
        while True:
            try:
                step = self._stream.decompress(data, _INFLATED_BYTES)
            except zlib.error as error:
                raise errors.BadRequest(f"the body is not gzip: {error}") from error
            self._write(step)
            data = self._stream.unconsumed_tail
            # All input may be read while decompressed output is still pending.
            if not data and len(step) < _INFLATED_BYTES:
                return
            await asyncio.sleep(0)

    def end(self) -> bytes:
        """Return the body. Raises BadRequest unless it is one complete gzip stream."""
        if not self._stream.eof or self._stream.unused_data:
            raise errors.BadRequest("the body is not one complete gzip stream")
        return super().end()
