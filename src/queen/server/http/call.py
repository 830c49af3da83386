"""One request: its route, its caller, its body."""

import copy
import itertools
import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Concatenate, Final, Literal, ParamSpec, TypeVar

import msgspec
from starlette.types import Receive

from queen import errors
from queen.engine.encryption.sealer import Sealer
from queen.engine.engine import Engine
from queen.server.auth import queue_scopes
from queen.server.auth.permissions import Caller, Permission
from queen.server.decoding.bodies import DIRECT_BYTES
from queen.server.decoding.decoder import decode
from queen.server.http.answer import Answer
from queen.server.http.body import parse_body, parse_query, parse_small, read_body
from queen.server.http.head import Connection, Head
from queen.server.http.scope_keys import Exchange
from queen.server.memory_budget import Share
from queen.server.state import State
from queen.wire.messages import Acknowledgment, Request

if TYPE_CHECKING:
    from opentelemetry.trace import Span

P = ParamSpec("P")
T = TypeVar("T")

API: Final = "/api/v1"
Operation = Literal["send", "receive", "settle", "transaction"]
"""Operations by the messaging conventions of OpenTelemetry."""
_PROCESS: Final = f"r-{secrets.token_hex(6)}-"
_NUMBERS: Final = itertools.count(1)
"""Prefix of generated request ids, unique per process."""
_NO_PARAMETERS: Final[Mapping[str, str]] = MappingProxyType({})
_NOT_AUDITED: Final[Mapping[str, Any]] = MappingProxyType({})
_EMPTY_BYTES: Final = 256
"""Enough for an empty object, or for an unknown field that the error can name."""
_TRACEPARENT: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?"
)

Handler = Callable[["Call"], Awaitable[Answer]]


Order = tuple[Callable[[Any], Any], bool]
"""The key by which a list is sorted, and whether the largest is first."""


def _nothing(pages: Sequence[Any]) -> dict[str, Any]:
    del pages
    return {}


Completion = Callable[["Call", Sequence[Any], Sequence[Engine]], Awaitable[list[Any]]]


class Paged(msgspec.Struct, frozen=True):
    """A list with pages: the lists of all databases are merged."""

    field: str
    """The list in the response."""
    order: Callable[[Any], Order]
    """The order of the list, from the query."""
    join: Callable[[Any, Any], Any] | None = None
    """Makes one entry of two with the same key; None: both are listed."""
    rest: Callable[[Sequence[Any]], dict[str, Any]] = _nothing
    """Other fields of the response that depend on all databases."""
    queue: str | None = None
    """The field of an entry that names its queue. Only the owner of the queue lists the entry."""
    complete: "Completion | None" = None
    """
    Adds the counts of these databases to entries about spread queues.

    Then the first database lists such a queue. Otherwise, each lists its own entries about it.
    """


class Summed(msgspec.Struct, frozen=True):
    """A response that is combined from those of all databases."""

    combine: Callable[[Sequence[Any]], Any]
    field: str | None = None
    """A list in the response whose entries name queues."""
    queue: str = "queue"
    """The field of an entry that names its queue. Only the owner of the queue lists the entry."""


class Route(msgspec.Struct, frozen=True):
    """One method of one path."""

    handler: Handler
    method: str
    path: str
    """Each name in braces is one percent-encoded segment: ``/pop/queue/{queue}``."""
    summary: str
    permission: Permission | None
    """The caller's required permission; None: public, or the handler checks."""
    answers: Mapping[int, type[Any] | None]
    """Status to struct; None if the response has no body or is not JSON."""
    tag: str = ""
    """Its section in the OpenAPI document; if empty, the name of the handler's module."""
    is_public: bool = False
    """Needs no authentication."""
    is_payload_view: bool = False
    """Shows payloads to people, which the audit log records."""
    is_shared: bool = False
    """May be served from the response cache, if the request allows it."""
    span: Operation | None = None
    """The operation of its span; None: it has no span."""
    is_probe: bool = False
    """Polled by machines, some with their own parameters; never logged."""
    body: type[Any] | None = None
    """None: any body but an empty object is rejected."""
    query: type[Any] | None = None
    """None: every parameter is rejected, except for probes."""
    headers: Mapping[str, str] = {}
    """Request headers of this route, with their descriptions."""
    is_text_too: bool = False
    """Responds in plain text, unless JSON is available and the request accepts it."""
    problems: tuple[type[errors.QueenError], ...] = ()
    """Errors in addition to those of every route."""
    everywhere: Paged | Summed | None = None
    """How the responses of several databases are merged, unless the request names a queue."""
    is_searched: bool = False
    """Names an object that can be in any database."""
    spread: Paged | Summed | Literal["handler", "first", "search"] | None = None
    """
    How a request for a spread queue is served, if there are several databases.

    The handler calls the cluster; or the first database decides, and the others get a copy; or the
    database is searched; or the responses are merged. None: as `everywhere`, or else it is
    rejected. A request that names a partition goes to its database.
    """


Decorator = Callable[Concatenate[str, P], Callable[[Handler], Handler]]


def _route_lists(
    make: Callable[Concatenate[Handler, str, str, P], Route],
) -> Callable[[], tuple[list[Route], Decorator[P]]]:
    def new_routes() -> tuple[list[Route], Decorator[P]]:
        """Return an empty list, and a decorator that adds routes: ``@route("GET /livez", …)``."""
        routes: list[Route] = []

        def route(line: str, *args: P.args, **options: P.kwargs) -> Callable[[Handler], Handler]:
            def add(handler: Handler) -> Handler:
                method, path = line.split(" ")
                routes.append(make(handler, method, path, *args, **options))
                return handler

            return add

        return routes, route

    return new_routes


new_routes: Final = _route_lists(Route)


class _Nothing(Request, frozen=True, kw_only=True):
    """Parameters, or a body, of a route that takes none."""


class Call:
    """A request in progress."""

    __slots__ = (
        "_receive",
        "audited",
        "authorization",
        "caller",
        "connection",
        "exchange",
        "head",
        "is_known",
        "keeps_body",
        "kept",
        "parameters",
        "request_id",
        "route",
        "share",
        "span",
        "spent",
        "state",
    )

    def __init__(
        self,
        head: Head,
        state: State,
        connection: Connection,
        exchange: Exchange | None,
        receive: Receive | None = None,
    ) -> None:
        self.head = head
        self.state = state
        self.connection = connection
        self.exchange = exchange
        """None: receive and send ASGI messages."""
        self.parameters: Mapping[str, str] = _NO_PARAMETERS
        """The names in the path, decoded."""
        self.audited: Mapping[str, Any] = _NOT_AUDITED
        """For the audit log: ``queue``, ``before``, ``after``, ``revealed``."""
        self.route: Route | None = None
        """None until it is found."""
        self.span: Span | None = None
        """None if tracing is off."""
        self.share = Share(state.requests)
        """Memory of its body, and of the decoded values."""
        self.spent: list[float] | None = None
        """Duration of its statements in seconds, if the response reports it."""
        self._receive = receive
        self.caller: Caller
        self.authorization: str | None = None
        """The header of this name, which is not stored with the head."""
        self.is_known = False
        """Whether all that depends only on the head was checked for an earlier request: the route,
        the origin, the query string, the media type of the body."""
        self.keeps_body = False
        """Whether the handler may be called again, for another database."""
        self.kept: Any = None
        """The decoded body, if it is kept."""
        given = head.headers.get(b"x-request-id")
        self.request_id = (given and _usable(given)) or f"{_PROCESS}{next(_NUMBERS):x}"

    def header(self, name: bytes) -> str | None:
        """Return a header by its name in lower case."""
        value = self.head.headers.get(name)
        return None if value is None else value.decode("latin-1")

    @property
    def method(self) -> str:
        return self.head.method

    @property
    def trace_id(self) -> str | None:
        """The trace of a valid ``traceparent``."""
        parent = self.header(b"traceparent")
        return None if parent is None else trace_of(parent)

    def go_to(self, engine: Engine) -> None:
        """Use the database of this engine for the rest of the request."""
        self.state = self.state.of_engine[engine]

    def at(self, engine: Engine) -> "Call":
        """A copy of this call that uses the database of this engine."""
        own = copy.copy(self)
        own.go_to(engine)
        return own

    def audit(
        self,
        *,
        queue: str | None = None,
        before: object = None,
        after: object = None,
        revealed: list[str] | None = None,
    ) -> None:
        """Add the queue and its state before and after to the audit record; never payloads."""
        added = {"queue": queue, "before": before, "after": after, "revealed": revealed}
        self.audited = {**self.audited, **{k: v for k, v in added.items() if v is not None}}

    def reveal(self, is_requested: bool) -> Sealer | None:
        """
        Return the decrypter if the request asks to reveal payloads; None: they are masked.

        Callers that may consume a payload can read it anyway. Raises Forbidden for others.
        """
        if not is_requested:
            return None
        self.caller.require(Permission.CONSUME)
        self.audit(revealed=[])
        return self.state.engine.sealer

    def revealed(self, id_: str) -> None:
        """Add a revealed message to the audit record."""
        self.audited["revealed"].append(id_)

    def query(self, type_: type[T]) -> T:
        """Decode the query string."""
        queries = self.head.queries
        if type_ not in queries:
            queries[type_] = parse_query(self.head.query_string, type_)
        return queries[type_]

    async def body(self, type_: type[T]) -> T:
        """Read and decode the body."""
        if self.kept is not None:
            return self.kept
        body = await self._decode_body(type_)
        if self.keeps_body:
            self.kept = body
        return body

    async def _decode_body(self, type_: type[T]) -> T:
        if self.is_known and self.exchange is not None:
            raw = self.exchange.take_body() or b""
            self.share.take(len(raw))
        else:
            raw = await self._read_body(self.state.settings.max_body_bytes)
        if 0 < len(raw) <= DIRECT_BYTES:
            return parse_small(raw, type_)
        return await parse_body(raw, type_, self.state.bodies, self.share)

    def _read_body(self, most: int) -> Awaitable[bytes]:
        return read_body(self.header, self._receive, self.exchange, self.share, most)

    async def refuse_unknown(self, route: Route) -> None:
        """Raise BadRequest for parameters, or a body, if the route has none."""
        if route.query is None and self.head.query_string:
            self.query(_Nothing)
        if route.body is None and (
            self.header(b"transfer-encoding") is not None
            or (self.header(b"content-length") or "0").strip("0")
        ):
            await self._refuse_body()

    async def _refuse_body(self) -> None:
        """Raise BadRequest unless the body is an empty object. Large ones are not read."""
        try:
            if self.header(b"content-encoding") is not None:
                raise errors.BadRequest("this route does not accept a request body")
            raw = await self._read_body(_EMPTY_BYTES)
        except (errors.BadRequest, errors.BodyTooLarge) as error:
            if self.exchange is not None:
                self.exchange.close_after_answer()
            raise errors.BadRequest("this route does not accept a request body") from error
        if raw:
            decode(raw, _Nothing)

    def require_queues(self, permission: Permission, names: set[str]) -> Awaitable[None]:
        """Raise Forbidden unless the caller may do this with each of these queues."""
        self.caller.require(permission)
        return queue_scopes.require_queues(self.state.cluster, self.caller, names)

    def require_scope(
        self,
        permission: Permission,
        queue: str | None,
        namespace: str | None,
        *,
        is_made: bool = False,
    ) -> Awaitable[None]:
        """Raise Forbidden unless the caller may do this with a queue, or a whole namespace."""
        self.caller.require(permission)
        return queue_scopes.require_scope(
            self.state.cluster, self.caller, queue=queue, namespace=namespace, is_made=is_made
        )

    def require_acks(self, acknowledgments: Sequence[Acknowledgment]) -> Awaitable[None]:
        """Raise Forbidden unless the caller may acknowledge these messages."""
        self.caller.require(Permission.CONSUME)
        return queue_scopes.require_acks(self.state.cluster, self.caller, acknowledgments)

    def require_leases(self, lease_ids: Sequence[str]) -> Awaitable[None]:
        """Raise Forbidden unless the caller may use these leases."""
        self.caller.require(Permission.CONSUME)
        return queue_scopes.require_leases(self.state.cluster, self.caller, lease_ids)

    def require_partitions(self, permission: Permission, ids: Iterable[int]) -> Awaitable[None]:
        """Raise Forbidden unless the caller may do this with the queues of these partitions."""
        self.caller.require(permission)
        return queue_scopes.require_partitions(self.state.cluster, self.caller, ids)

    def missing(self, error: errors.QueenError) -> errors.QueenError:
        """Return the error for an absent object: the same as for one outside the scopes."""
        return error if self.caller.scopes is None else queue_scopes.outside(self.caller)

    def visible(self, names: Iterable[str]) -> Awaitable[set[str]]:
        """Return the queues that the caller may see."""
        return queue_scopes.visible(self.state.cluster, self.caller, names)


def _usable(request_id: bytes) -> str | None:
    """Return the id that a client gave its request, if it can be logged."""
    text = request_id.decode("latin-1")
    return text if len(text) <= 128 and text.isprintable() else None


def trace_of(traceparent: str) -> str | None:
    """Return the trace id of a W3C traceparent; None if it is not valid."""
    found = _TRACEPARENT.fullmatch(traceparent.strip())
    return None if found is None or found[1] == "0" * 32 else found[1]
