"""Pop from a queue, a partition or a scope, with long polling."""

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal

import msgspec

from queen import errors
from queen.cluster.pop import Popped
from queen.codec.names import QUEUE_MODE, check_name
from queen.engine.caches.catalogue import Queue
from queen.server.auth.permissions import Permission
from queen.server.decoding.violations import refused
from queen.server.http import message_json
from queen.server.http.answer import Answer
from queen.server.http.call import API, Call, Route
from queen.server.http.scope_keys import ClientGone
from queen.server.http.timestamps import in_utc
from queen.server.http.waiting import seconds_of, wait_for
from queen.server.middleware import tracing
from queen.server.routes.messaging.ack import check_acks
from queen.wire.messages import Acknowledged, Acknowledgment, PopAnswer, PopRequest, Request

_MODES: Final = {"all": "all", "earliest": "all", "new": "new", "latest": "new", "new-only": "new"}
_EMPTY: Final = Answer(status=204)
_MAINTENANCE: Final = Answer(
    status=204, headers={"Queen-Reason": "maintenance", "Retry-After": "1"}
)
_PAUSED: Final = Answer(status=204, headers={"Queen-Reason": "paused"})


class PopQuery(Request, frozen=True, kw_only=True):
    """Options of a pop. Values above the server's limits are lowered to them."""

    batch: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Largest number of messages, by default at most 10,000; higher values are lowered.
    Default: 1."""
    partitions: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Largest number of partitions to take messages from; higher values than the server's 1,000 are
    lowered. Default: 1, or `batch` for a namespace or task."""
    wait: bool = False
    """Whether to wait for messages if there are none (long poll). Default: false."""
    timeout: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """Longest wait in milliseconds, at most 60,000 by default. Default: 30,000."""
    consumer_group: str | None = None
    """Name of the consumer group. Each group receives every message. Default: queue mode, in which
    all consumers share the messages."""
    auto_ack: bool = False
    """Whether the pop also acknowledges the messages, so that each is delivered at most once.
    Default: false."""
    subscription_mode: Literal["all", "earliest", "new", "latest", "new-only"] | None = None
    """Start of a new group: `all` stored messages (or `earliest`), or only `new` ones (or `latest`,
    `new-only`). Default: `all`."""
    subscription_from: str | None = None
    """Time from which a new group receives messages, with a time zone, or `now`. Excludes
    `subscriptionMode`."""
    lease_seconds: float | None = None
    """Lease time of this delivery in seconds, at most 43,200 by default. Default: the queue's
    `leaseTime`."""
    layout: Literal["messages", "runs"] = "messages"
    """Form of the response: `messages` (default), or `runs`, in which consecutive messages share
    their common fields."""


class ScopedPopQuery(PopQuery, frozen=True, kw_only=True):
    """A pop from the queues of a namespace, of a task, or both."""

    namespace: str | None = None
    """Namespace of the queues to pop from. Empty: queues without a namespace."""
    task: str | None = None
    """Task of the queues to pop from. Empty: queues without a task."""


class AnyPopQuery(ScopedPopQuery, frozen=True, kw_only=True):
    """A pop whose body names the queue, the partition or the scope."""

    queue: str | None = None
    """Name of the queue to pop from. Excludes `namespace` and `task`."""
    partition: str | None = None
    """Name of the partition to pop from. Default: any partition of the queue."""


class PopBody(PopQuery, frozen=True, kw_only=True):
    """A pop, and acknowledgments that are applied with it."""

    acknowledgments: tuple[Acknowledgment, ...] = ()
    """Acknowledgments to apply in the same transaction, at most 10,000 by default. `consumerGroup`
    is the group of those that name neither a group nor a lease. Default: none."""


class AnyPopBody(AnyPopQuery, frozen=True, kw_only=True):
    """A pop whose body names the queue, the partition or the scope, and acknowledgments."""

    acknowledgments: tuple[Acknowledgment, ...] = ()
    """Acknowledgments to apply in the same transaction, at most 10,000 by default. `consumerGroup`
    is the group of those that name neither a group nor a lease. Default: none."""


async def pop(call: Call) -> Answer:
    """
    Lease messages. With `wait`, the request waits for messages if there are none.

    With `acknowledgments`, one transaction applies the accepted ones and leases the next messages.
    The response has a result for each, even if there are no messages. If such a request fails, its
    acknowledgments may have been applied; it is safe to send them again.

    Without messages the response is 204. If pops are stopped, its header `Queen-Reason` is `paused`
    or `maintenance`.
    """
    names = call.parameters
    if call.method == "HEAD":
        # It would lease messages whose response has no body.
        raise errors.MethodNotAllowed("HEAD is not supported for a pop", allow="GET, POST")
    if call.method == "POST":
        query = await call.body(PopBody if names else AnyPopBody)
    else:
        query = call.query(PopQuery if names else ScopedPopQuery)
    return await take(call, query)


class PopAnswered(Answer):
    """The response of a pop."""

    __slots__ = ("messages",)

    messages: int
    """The number of messages in it."""


async def take(call: Call, query: PopQuery) -> Answer:
    """Lease messages for a decoded request; a `PopAnswered` if there are any."""
    request = _pop_request(call, query)
    call.caller.require(Permission.CONSUME)  # The route of a stream has no permission.
    if call.caller.scopes is not None:
        await call.require_scope(Permission.CONSUME, request.queue, request.namespace)
    acknowledgments: Sequence[Acknowledgment] = getattr(query, "acknowledgments", ())
    if acknowledgments:
        await check_acks(call, acknowledgments)
    elif call.state.heartbeat.is_pop_off:
        return _MAINTENANCE
    call.state.unsent.require_room()
    if request.queue is not None:
        call.state.cluster.refresh(request.queue)
    undo = _cannot_undo if request.auto_ack else call.state.cluster.give_back
    if acknowledgments:
        return await _acknowledge_and_take(call, query, request, acknowledgments, undo)
    popped = await wait_for(call, call.state.cluster.pop(request), undo=undo)
    return await _answer(call, query, request, popped)


async def _acknowledge_and_take(
    call: Call,
    query: PopQuery,
    request: PopRequest,
    acknowledgments: Sequence[Acknowledgment],
    undo: Callable[[Popped], Awaitable[None]],
) -> Answer:
    cluster, group = call.state.cluster, request.consumer_group
    if call.state.heartbeat.is_pop_off:
        acknowledged = await cluster.acknowledge(acknowledgments, consumer_group=group)
        popped = Popped(call.state.engine, [])
    else:
        results: asyncio.Future[list[Acknowledged]] = asyncio.get_running_loop().create_future()
        both = cluster.pop_and_acknowledge(
            request, acknowledgments, consumer_group=group, results=results
        )
        try:
            acknowledged, popped = await wait_for(call, both, undo=lambda each: undo(each[1]))
        except ClientGone as gone:
            # A client that cancelled a pop of its stream still reads the response.
            start = _start(await results)
            gone.response = b'%b"%b":[],"reason":"cancelled"}' % (start, query.layout.encode())
            raise
    answer = await _answer(call, query, request, popped)
    start = _start(acknowledged)
    if answer.body is None:
        return Answer(b'%b"%b":[]}' % (start, query.layout.encode()), headers=answer.headers)
    answer.body = start + answer.body[1:]
    return answer


def _start(acknowledged: Sequence[Acknowledged]) -> bytes:
    """The beginning of a response with the results of acknowledgments."""
    return b'{"acknowledged":%b,' % message_json.acknowledged(acknowledged)


async def _answer(call: Call, query: PopQuery, request: PopRequest, popped: Popped) -> Answer:
    engine, deliveries = popped
    if not deliveries:
        return await _empty(call, request)
    queues: dict[str, Queue] = {}
    # The leases have begun, so cached or missing options are acceptable.
    with contextlib.suppress(errors.QueenError):
        queues = await engine.catalogue.latest({delivery.queue for delivery in deliveries})
    tracing.describe_pop(call.span, deliveries, request.consumer_group)
    encode = message_json.popped_runs if query.layout == "runs" else message_json.popped
    body = encode(deliveries, queues)
    answer = PopAnswered(body, undo=functools.partial(call.state.cluster.give_back, popped))
    answer.messages = sum(map(len, deliveries))
    for delivery in deliveries:
        delivery.runs = []  # Otherwise a slow client keeps them in memory with the body.
    return answer


async def _cannot_undo(popped: Popped) -> None:
    """Raise OutcomeUnknown for messages that were acknowledged by the pop itself."""
    if popped.deliveries:
        raise errors.OutcomeUnknown(
            "The API key or token was revoked during this pop. Its messages were acknowledged "
            "automatically and are not delivered."
        )


def _pop_request(call: Call, query: PopQuery) -> PopRequest:
    settings = call.state.settings
    queue = call.parameters.get("queue", getattr(query, "queue", None))
    namespace, task = getattr(query, "namespace", None), getattr(query, "task", None)
    if queue is not None and (namespace is not None or task is not None):
        raise errors.BadRequest("use either queue, or namespace and task")
    for what, name in (("queue", queue), ("namespace", namespace), ("task", task)):
        if name:
            check_name(what, name, settings.max_name_bytes)
    start: datetime | None = None
    mode = _MODES[query.subscription_mode] if query.subscription_mode else None
    if query.subscription_from == "now":
        if mode == "all":
            raise errors.BadRequest("subscriptionFrom now contradicts subscriptionMode all")
        mode = "new"
    elif query.subscription_from is not None:
        start = _instant(query.subscription_from, "subscriptionFrom")
        if mode is not None:
            raise errors.BadRequest("use either subscriptionMode or subscriptionFrom, not both")
    batch = query.batch or settings.default_batch_size
    # A pop from a namespace uses as many partitions as needed to fill the batch.
    partitions = query.partitions or (batch if queue is None else 1)
    return PopRequest(
        queue=queue,
        partition=call.parameters.get("partition", getattr(query, "partition", None)),
        namespace=namespace,
        task=task,
        consumer_group=None if query.consumer_group == QUEUE_MODE else query.consumer_group,
        batch=batch,
        partitions=partitions,
        wait=query.wait,
        timeout_seconds=seconds_of(call, query.timeout),
        auto_ack=query.auto_ack,
        subscription_mode=mode,  # pyright: ignore[reportArgumentType] - of _MODES
        subscription_from=start,
        lease_seconds=query.lease_seconds,
    )


async def _empty(call: Call, request: PopRequest) -> Answer:
    """Return no messages, with the reason if an operator stopped the delivery."""
    if call.state.heartbeat.is_pop_off:
        return _MAINTENANCE
    if request.queue is None:
        return _EMPTY
    queues = await call.state.cluster.queues({request.queue})
    queue = queues.get(request.queue)
    return _PAUSED if queue is not None and queue.is_paused else _EMPTY


def _instant(text: str, what: str) -> datetime:
    try:
        at = msgspec.convert(text, datetime)
    except msgspec.ValidationError as error:
        raise refused(error, f"/{what}") from error
    if at.tzinfo is None:
        raise errors.BadRequest(f"{what} needs a time zone")
    return in_utc(at, f"/{what}")


_POP: Final[dict[str, Any]] = {
    "permission": Permission.CONSUME,
    "answers": {200: PopAnswer, 204: None},
    "span": "receive",
    "spread": "handler",
    "problems": (
        errors.QueueNotFound,
        errors.SubscriptionConflict,
        errors.TooManyBytes,
        errors.TooManyWaiters,
        errors.InvalidName,
    ),
}
_IN_QUEUE: Final = f"{API}/pop/queue/{{queue}}"
_IN_PARTITION: Final = f"{_IN_QUEUE}/partition/{{partition}}"

ROUTES: Final = (
    Route(pop, "GET", f"{API}/pop", "Pop from a scope", query=ScopedPopQuery, **_POP),
    Route(pop, "POST", f"{API}/pop", "Pop", body=AnyPopBody, **_POP),
    Route(pop, "GET", _IN_QUEUE, "Pop from a queue", query=PopQuery, **_POP),
    Route(pop, "POST", _IN_QUEUE, "Pop from a queue", body=PopBody, **_POP),
    Route(pop, "GET", _IN_PARTITION, "Pop from a partition", query=PopQuery, **_POP),
    Route(pop, "POST", _IN_PARTITION, "Pop from a partition", body=PopBody, **_POP),
)
