"""The operations of a stream: the requests of HTTP, in frames."""

import functools
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from queen import errors
from queen.server.decoding.bodies import DIRECT_BYTES, Bodies
from queen.server.http.answer import Answer
from queen.server.http.call import Call, Route
from queen.server.routes.messaging import ack, lease, pop, push
from queen.wire.messages import Acknowledgment, AckRequest, ExtendManyRequest, PushRequest
from queen.wire.stream import MAX_PER_FRAME, VERBS, Complete, Operation


class ConsumeRequest(pop.AnyPopQuery, frozen=True, kw_only=True):
    """A pop that is repeated while it has credit."""

    credit: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0
    """Number of messages that the server may send. Default: 0."""


class Verb(NamedTuple):
    """One kind of operation."""

    name: str
    """Its name in frames."""
    type: type[Any]
    """The struct of its body."""
    run: Callable[[Call, Any], Awaitable[Answer]]
    route: Route | None
    """The route that does the same over HTTP, for traces."""


async def _complete(call: Call, request: Complete) -> Answer:
    return await lease.complete_lease(call, request.lease_id)


async def _release(call: Call, request: Complete) -> Answer:
    return await lease.release_lease(call, request.lease_id)


def _route(routes: list[Route], path: str) -> Route:
    return next(route for route in routes if route.path == path)


_ACK: Final = _route(ack.ROUTES, "/api/v1/ack")
_TABLE: Final = {
    "push": Verb("push", PushRequest, push.store, push.ROUTES[0]),
    "pop": Verb("pop", pop.AnyPopBody, pop.take, pop.ROUTES[0]),
    "consume": Verb("consume", ConsumeRequest, pop.take, pop.ROUTES[0]),
    "ack": Verb("ack", Acknowledgment, ack.settle_one, _ACK),
    "ack_batch": Verb("ackBatch", AckRequest, ack.settle, _ACK),
    "complete": Verb("complete", Complete, _complete, _ACK),
    "release": Verb("release", Complete, _release, _ACK),
    "extend": Verb("extend", ExtendManyRequest, lease.extend_leases, _ACK),
}
POP: Final = _TABLE["pop"]
CONSUME: Final = _TABLE["consume"]
_ONE: Final = msgspec.json.Decoder(Operation)
_MANY: Final = msgspec.json.Decoder(list[Operation])


class BadFrame(Exception):
    """A frame that is not an operation, or a list of them: the stream is closed."""


def read_frame(frame: bytes) -> list[Operation]:
    """Decode a small frame; raises BadFrame."""
    try:
        if not frame.isascii():
            frame.decode()
        if frame[:1] != b"[":
            return [_ONE.decode(frame)]
        found = _MANY.decode(frame)
        if len(found) > MAX_PER_FRAME:
            raise BadFrame(f"a frame has more than {MAX_PER_FRAME} operations")
        return found
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadFrame(str(error)) from error


async def read_large_frame(frame: bytes, bodies: Bodies) -> list[Operation]:
    """Decode a frame with bounded work and memory; raises BadFrame."""
    if len(frame) <= DIRECT_BYTES:
        return read_frame(frame)
    try:
        await bodies.check(frame)
        if frame[:1] != b"[":
            return [_ONE.decode(frame)]
        parts = msgspec.structs.astuple(_few().decode(frame))
        return [_ONE.decode(each) for each in parts if each is not msgspec.UNSET]
    except (errors.RequestError, msgspec.DecodeError, RecursionError) as error:
        raise BadFrame(str(error)) from error


@functools.cache
def _few() -> "msgspec.json.Decoder[Any]":
    """Return a decoder of a limited list. msgspec checks it early only for structs as arrays."""
    part = msgspec.Raw | msgspec.UnsetType
    fields = [(f"_{n}", part, msgspec.UNSET) for n in range(MAX_PER_FRAME)]
    few = msgspec.defstruct("Few", fields, array_like=True, forbid_unknown_fields=True)
    return msgspec.json.Decoder(few)


def verb_of(operation: Operation) -> tuple[Verb, msgspec.Raw] | None:
    """Return the verb of an operation and its body; None for credit and cancel."""
    found: tuple[Verb, msgspec.Raw] | None = None
    for name in VERBS:
        body = getattr(operation, name)
        if body is not msgspec.UNSET:
            if found is not None:
                raise BadFrame(f"operation {operation.id} has two verbs")
            found = _TABLE[name], body
    return found
