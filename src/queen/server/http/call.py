"""One exchange over HTTP: bytes to structs, structs to bytes, errors to problems."""

import asyncio
import io
import itertools
import re
import secrets
import zlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec
from starlette.types import Message, Receive, Scope, Send

from queen import errors
from queen.engine.encryption.sealer import Seals
from queen.server.auth import queue_scopes
from queen.server.auth.permissions import Caller, Permission
from queen.server.http import decoding, timestamps
from queen.server.http.memory_budget import Share
from queen.server.http.problems import refused
from queen.server.state import State
from queen.wire.messages import Acknowledgment, Request
from queen.wire.problems import Problem

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from queen.server.http.router import Route

T = TypeVar("T")

_ENCODE: Final = msgspec.json.Encoder(order=None).encode
_MEMBERS: Final = {"errors", "failed_index", "messages", "settled"}
_JSON: Final = (b"content-type", b"application/json")
_PROCESS: Final = f"r-{secrets.token_hex(6)}-"
_NUMBERS: Final = itertools.count(1)
"""Ids of requests that came without one: unlike those of any other process."""
_INFLATED_BYTES: Final = 2**18
_EMPTY_BYTES: Final = 256
"""Room for an empty object, or for a field that a route without a body can name as unknown."""
_TRACEPARENT: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?"
)


class Whole:
    """An exchange that can be taken and answered whole, without messages in between."""

    def take_body(self) -> bytes | None:
        """The body, if it is all here already; None: receive it."""
        raise NotImplementedError

    async def answer(
        self, status: int, headers: bytes, body: bytes, *, is_awaited: bool = False
    ) -> bool:
        """
        Send an answer whose headers are lines already, and end the exchange.

        Returns False if the client is known to have gone before. ``is_awaited``: also if it goes
        while most of the answer is unsent, which is waited for.
        """
        raise NotImplementedError

    def close_after_answer(self) -> None:
        """Make this the last request of its connection."""
        raise NotImplementedError


class Nothing(Request, frozen=True, kw_only=True):
    """What a route takes that says nothing of parameters, or of a body."""


class ClientGone(Exception):
    """The client closed its connection before it had sent all of its request."""


class Answer:
    """What a handler says: a struct, or bytes that are JSON already."""

    __slots__ = ("body", "cache", "error", "headers", "media_type", "status", "undo")

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
    ) -> None:
        self.status = status
        self.undo = undo
        """What to do if the client has gone and did not get this."""
        self.cache = cache
        self.error = error
        """What kind a refusal tells of, for those who count and log: the error itself would keep
        its frames, the body in them, and through them this answer."""
        self.body = body if isinstance(body, bytes) or body is None else _ENCODE(body)
        self.headers = headers
        self.media_type = media_type


Handler = Callable[["Call"], Awaitable[Answer]]


class Call:
    """A request that is being answered."""

    __slots__ = (
        "_headers",
        "_receive",
        "caller",
        "noted",
        "parameters",
        "request_id",
        "route",
        "scope",
        "share",
        "span",
        "spent",
        "state",
    )

    def __init__(self, scope: Scope, receive: Receive, state: State) -> None:
        self.scope = scope
        self.state = state
        self.parameters: dict[str, str] = {}
        """The names in the path, decoded."""
        self.noted: Mapping[str, Any] = {}
        """What the audit log is told besides: ``queue``, ``before``, ``after``, ``revealed``."""
        self.route: Route | None = None
        """Which route it met, once that is known."""
        self.span: Span | None = None
        """Its span, where tracing is on."""
        self.share = Share(state.requests)
        """Memory of its body, and of the values in it."""
        self.spent: list[float] | None = None
        """Seconds of its statements, where the answer says so."""
        self._receive = receive
        self._headers: dict[bytes, bytes] | None = None
        self.caller: Caller
        self.request_id = self.header(b"x-request-id") or ""
        if not (0 < len(self.request_id) <= 128 and self.request_id.isprintable()):
            self.request_id = f"{_PROCESS}{next(_NUMBERS):x}"

    def header(self, name: bytes) -> str | None:
        """A header by its name in lower case."""
        if self._headers is None:
            self._headers = dict(self.scope["headers"])
        value = self._headers.get(name)
        return None if value is None else value.decode("latin-1")

    def note(
        self,
        *,
        queue: str | None = None,
        before: object = None,
        after: object = None,
        revealed: list[str] | None = None,
    ) -> None:
        """Tell the audit log which queue this is about, and how it was and is; never payloads."""
        told = {"queue": queue, "before": before, "after": after, "revealed": revealed}
        self.noted = {**self.noted, **{k: v for k, v in told.items() if v is not None}}

    def reveal(self, is_asked: bool) -> Seals | None:
        """
        What opens payloads, for who asks for it and may; None: what is sealed is masked.

        Whoever may consume a payload can read it anyway. Raises Forbidden.
        """
        if not is_asked:
            return None
        self.caller.require(Permission.CONSUME)
        self.note(revealed=[])
        return self.state.engine.seals

    def revealed(self, id_: str) -> None:
        """Tell the audit log of a message that was sealed and is shown."""
        self.noted["revealed"].append(id_)

    @property
    def method(self) -> str:
        return self.scope["method"]

    @property
    def trace_id(self) -> str | None:
        """The trace that the caller's ``traceparent`` names, if it is one."""
        parent = self.header(b"traceparent")
        return None if parent is None else trace_of(parent)

    def query(self, type_: type[T]) -> T:
        """The query string as a struct: unknown and repeated parameters are refused."""
        text: bytes = self.scope["query_string"]
        try:
            pairs = parse_qsl(
                text.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100
            )
        except ValueError as error:
            raise errors.BadRequest(f"the query string: {error}") from error
        values = dict(pairs)
        if len(values) < len(pairs):
            raise errors.BadRequest("a parameter is given twice")
        try:
            found = msgspec.convert(values, type_, strict=False)
        except msgspec.ValidationError as error:
            raise refused(error, "") from error
        timestamps.check(found)
        return found

    async def refuse_unknown(self, route: "Route") -> None:
        """Raise BadRequest for parameters, or a body, where the route takes none."""
        if route.query is None and self.scope["query_string"]:
            self.query(Nothing)
        if route.body is None and (
            self.header(b"transfer-encoding") is not None
            or (self.header(b"content-length") or "0").strip("0")
        ):
            await self._refuse_body()

    async def _refuse_body(self) -> None:
        """Raise BadRequest unless the body is an empty object; a large one is not even read."""
        try:
            if self.header(b"content-encoding") is not None:
                raise errors.BadRequest("this route takes no request body")
            raw = await self.raw_body(_EMPTY_BYTES)
        except (errors.BadRequest, errors.BodyTooLarge) as error:
            if isinstance(exchange := getattr(self._receive, "__self__", None), Whole):
                exchange.close_after_answer()
            raise errors.BadRequest("this route takes no request body") from error
        if raw:
            decoding.decode(raw, Nothing)

    async def require_queues(self, permission: Permission, names: set[str]) -> None:
        """Raise Forbidden unless the caller may do this with each of these queues."""
        self.caller.require(permission)
        if self.caller.scopes is not None:
            await queue_scopes.require_queues(self.state.engine, self.caller, names)

    async def require_scope(
        self,
        permission: Permission,
        queue: str | None,
        namespace: str | None,
        task: str | None,
        *,
        is_made: bool = False,
    ) -> None:
        """Raise Forbidden unless the caller may do this with a queue, or a whole scope."""
        del task  # A task alone is no scope of callers.
        self.caller.require(permission)
        if self.caller.scopes is not None:
            await queue_scopes.require_scope(
                self.state.engine, self.caller, queue=queue, namespace=namespace, is_made=is_made
            )

    async def require_acks(self, acknowledgments: Sequence[Acknowledgment]) -> None:
        """Raise Forbidden unless the caller may settle these messages."""
        self.caller.require(Permission.CONSUME)
        if self.caller.scopes is not None:
            await queue_scopes.require_acks(self.state.engine, self.caller, acknowledgments)

    async def require_leases(self, lease_ids: Sequence[str]) -> None:
        """Raise Forbidden unless the caller may hold these leases."""
        self.caller.require(Permission.CONSUME)
        if self.caller.scopes is not None:
            await queue_scopes.require_leases(self.state.engine, self.caller, lease_ids)

    async def require_partitions(self, permission: Permission, ids: Iterable[int]) -> None:
        """Raise Forbidden unless the caller may do this with the queues of these partitions."""
        self.caller.require(permission)
        if self.caller.scopes is not None:
            await queue_scopes.require_partitions(self.state.engine, self.caller, ids)

    def missing(self, error: errors.QueenError) -> errors.QueenError:
        """What to raise of something that is not there: to callers with scopes it is outside."""
        return error if self.caller.scopes is None else queue_scopes.outside(self.caller)

    async def visible(self, names: Iterable[str]) -> set[str]:
        """Those of the queues that the caller may see: what a list shows."""
        if self.caller.scopes is None:
            return set(names)
        return await queue_scopes.visible(self.state.engine, self.caller, names)

    async def body(self, type_: type[T]) -> T:
        """The body as a struct; a body that may be left out is one whose fields all may."""
        raw = await self.raw_body()
        if not raw and not self._is_required(type_):
            raw = b"{}"
        return await self._decode(raw, type_)

    async def _decode(self, raw: bytes, type_: type[T]) -> T:
        if len(raw) > decoding.DIRECT_BYTES:
            found: T = await self.state.bodies.decode(raw, type_, self.share.take)
        else:
            try:
                if not raw.isascii():
                    raw.decode("utf-8")
            except UnicodeDecodeError as error:
                raise errors.BadRequest(f"the body is not JSON in UTF-8: {error}") from error
            found = decoding.decode(raw, type_)
        timestamps.check(found)
        return found

    async def raw_body(self, most: int | None = None) -> bytes:
        """The body, inflated, as long as it is not too large and says that it is JSON."""
        if most is None:
            most = self.state.settings.max_body_bytes
        length = self.header(b"content-length")
        if length is not None and length.isdigit() and int(length) > most:
            raise errors.BodyTooLarge(f"the body has {length} bytes; at most {most} fit")
        is_packed = self._is_packed()
        exchange = getattr(self._receive, "__self__", None)
        taken = exchange.take_body() if isinstance(exchange, Whole) else None
        message: Message = {"more_body": False}
        if taken is None:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
        body: bytes = message.get("body", b"") if taken is None else taken
        if body and not self._is_json():
            raise errors.UnsupportedMediaType("Content-Type must be application/json")
        if not is_packed and not message.get("more_body", False):
            self.share.take(len(body))
            if len(body) > most:
                raise errors.BodyTooLarge(f"the body has {len(body)} bytes; at most {most} fit")
            return body
        whole = _Inflated(most, self.share) if is_packed else _Body(most, self.share)
        await whole.add(body)
        while message.get("more_body", False):
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            await whole.add(message.get("body", b""))
        return whole.end()

    def _is_packed(self) -> bool:
        encoding = (self.header(b"content-encoding") or "identity").strip().lower()
        if encoding not in ("identity", "gzip"):
            raise errors.UnsupportedMediaType(f"Content-Encoding {encoding} is not known; use gzip")
        return encoding == "gzip"

    def _is_json(self) -> bool:
        media_type, _, rest = (self.header(b"content-type") or "").partition(";")
        if media_type.strip().lower() != "application/json":
            return False
        charset = rest.strip().lower()
        return not charset or charset in ("charset=utf-8", 'charset="utf-8"')

    @staticmethod
    def _is_required(type_: type[Any]) -> bool:
        return any(each.required for each in msgspec.structs.fields(type_))


class _Body:
    """A body that comes in parts, up to a size; it grows in place, so it is in memory once."""

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
    """Undoes gzip as it comes."""

    def __init__(self, most: int, share: Share) -> None:
        super().__init__(most, share)
        self._stream = zlib.decompressobj(wbits=31)

    async def add(self, data: bytes) -> None:
        """In steps between which others get their turn: a little may hold very much."""
        while True:
            try:
                step = self._stream.decompress(data, _INFLATED_BYTES)
            except zlib.error as error:
                raise errors.BadRequest(f"the body is not gzip: {error}") from error
            self._write(step)
            data = self._stream.unconsumed_tail
            # All may have been read and a step's worth of it not written yet.
            if not data and len(step) < _INFLATED_BYTES:
                return
            await asyncio.sleep(0)

    def end(self) -> bytes:
        """Raises BadRequest unless one stream came, to its end."""
        if not self._stream.eof or self._stream.unused_data:
            raise errors.BadRequest("the body is not one whole gzip stream")
        return super().end()


def trace_of(traceparent: str) -> str | None:
    """The trace id of a W3C traceparent; None if it is none."""
    found = _TRACEPARENT.fullmatch(traceparent.strip())
    return None if found is None or found[1] == "0" * 32 else found[1]


def split_path(raw_path: bytes) -> list[str]:
    """The segments of a path: split first, then decoded once, so that names may hold a slash."""
    try:
        parts = [
            (unquote_to_bytes(part) if b"%" in part else part).decode("utf-8")
            for part in raw_path.split(b"/")[1:]
        ]
    except UnicodeDecodeError as error:
        raise errors.BadRequest("the path is not UTF-8") from error
    if b"%00" in raw_path and any("\x00" in part for part in parts):
        raise errors.BadRequest("the path has a NUL character")
    return parts


async def reply(
    send: Send,
    answer: Answer,
    request_id: str,
    always: Iterable[tuple[bytes, bytes]] = (),
    *,
    is_head: bool = False,
) -> None:
    """
    Send an answer, or undo it if the client has gone.

    ``always``: headers that every answer of this server has.
    """
    body: bytes = answer.body or b""
    headers = [
        (b"cache-control", answer.cache),
        (b"x-request-id", request_id.encode("latin-1", "replace")),
        *always,
    ]
    if answer.status != 204:
        headers.append((b"content-length", b"%d" % len(body)))
    if answer.media_type is not None:
        headers.append((b"content-type", answer.media_type.encode()))
    elif body:
        headers.append(_JSON)
    for name, value in (answer.headers or {}).items():
        if "\r" in value or "\n" in value:
            raise ValueError(f"header {name} would end before its value does")
        headers.append((name.lower().encode(), value.encode("latin-1", "replace")))
    exchange = getattr(send, "__self__", None)
    if isinstance(exchange, Whole):
        lines = [b"%b: %b\r\n" % pair for pair in headers]
        undo = answer.undo
        is_sent = await exchange.answer(
            answer.status, b"".join(lines), body, is_awaited=undo is not None
        )
        if undo is not None and not is_sent:
            await undo()
        return
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if is_head else body})


def problem(error: errors.QueenError, request_id: str | None = None) -> Problem:
    """An error as the contract tells it."""
    detail = str(error) or error.default_message
    return Problem(
        type=f"urn:queen:{error.code}",
        title=error.code.replace("_", " ").capitalize(),
        status=error.http_status,
        code=error.code,
        detail=detail,
        error=detail,
        applied=error.applied,
        request_id=request_id,
        **{name: value for name, value in error.members.items() if name in _MEMBERS},
    )


def refusal(error: errors.QueenError, request_id: str) -> Answer:
    """The answer that tells of an error."""
    headers: dict[str, str] = {}
    if isinstance(error, errors.ServiceError | errors.OutcomeUnknown):
        headers["Retry-After"] = str(error.members.get("retry_after", 1))
    if isinstance(error, errors.Unauthorized):
        headers["WWW-Authenticate"] = 'Bearer realm="queen"'
    if isinstance(error, errors.MethodNotAllowed):
        headers["Allow"] = error.members["allow"]
    return Answer(
        problem(error, request_id),
        status=error.http_status,
        headers=headers,
        media_type="application/problem+json",
        error=type(error),
    )
