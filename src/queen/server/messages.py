"""Push, pop, ack, transaction, lease, configure: decode, one call to the engine, reply."""

import asyncio
import contextlib
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal

import msgspec

from queen import errors
from queen.engine.catalogue import Queue
from queen.engine.deliveries import Delivery
from queen.engine.names import check_name, check_queue_name
from queen.engine.schemas import PayloadSchema
from queen.engine.waiters import QUEUE_MODE
from queen.server import encoding, tracing
from queen.server.access import Permission
from queen.server.http import Answer, Call, ClientGone, refused, trace_of
from queen.server.instants import in_utc
from queen.server.protocol import GONE, Gone
from queen.server.routing import API, Route
from queen.settings import Settings
from queen.store.database import Record
from queen.wire.messages import (
    Acknowledged,
    Acknowledgment,
    AckOperation,
    AckRequest,
    AckResponse,
    Extended,
    ExtendManyRequest,
    ExtendManyResponse,
    ExtendRequest,
    OperationResult,
    PopAnswer,
    PopRequest,
    Pushed,
    PushItem,
    PushOperation,
    PushRequest,
    PushResponse,
    Released,
    Request,
    TransactionRequest,
    TransactionResponse,
)
from queen.wire.options import Configured, ConfigureRequest, QueueOptions

_MODES: Final = {"all": "all", "earliest": "all", "new": "new", "latest": "new", "new-only": "new"}
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
_EMPTY: Final = Answer(status=204)
_MAINTENANCE: Final = Answer(status=204, headers={"Queen-Reason": "maintenance"})


class PopQuery(Request, frozen=True, kw_only=True):
    """How much, for whom and how long; too much is lowered to what the server allows."""

    batch: Annotated[int, msgspec.Meta(ge=1)] | None = None
    partitions: Annotated[int, msgspec.Meta(ge=1)] = 1
    wait: bool = False
    timeout: Annotated[int, msgspec.Meta(ge=0)] | None = None
    consumer_group: str | None = None
    auto_ack: bool = False
    subscription_mode: Literal["all", "earliest", "new", "latest", "new-only"] | None = None
    subscription_from: str | None = None
    lease_seconds: float | None = None


class ScopedPopQuery(PopQuery, frozen=True, kw_only=True):
    """From any queue of a namespace, of a task, or both."""

    namespace: str | None = None
    task: str | None = None


class AnyPopQuery(ScopedPopQuery, frozen=True, kw_only=True):
    """From wherever the body says."""

    queue: str | None = None
    partition: str | None = None


async def push(call: Call) -> Answer:
    """Store messages, durably, before the answer: in the database, or on disk while it is away."""
    request = await call.body(PushRequest)
    await call.require_queues(Permission.PRODUCE, {item.queue for item in request.items})
    tracing.describe_push(call.span, request.items)
    items = _with_trace(call, request.items)
    result = await call.state.engine.push(
        items, producer_id=request.producer_id, sequence=request.sequence, is_json=True
    )
    body = encoding.pushed(result)
    if (refusal := result.first_refused) is not None:
        raise _first_problem(refusal, body)
    return Answer(body, status=202 if result.is_buffered else 201)


async def pop(call: Call) -> Answer:
    """Claim messages; waits for them if asked to."""
    names = call.parameters
    if call.scope["method"] == "HEAD":
        # It would claim messages that nobody sees.
        raise errors.MethodNotAllowed("HEAD does not go with a pop", allow="GET, POST")
    if call.scope["method"] == "POST":
        query = await call.body(PopQuery if names else AnyPopQuery)
    else:
        query = call.query(PopQuery if names else ScopedPopQuery)
    request = _pop_request(call, query)
    await call.require_scope(Permission.CONSUME, request.queue, request.namespace, request.task)
    engine = call.state.engine
    if call.state.pulse.is_pop_off:
        return _MAINTENANCE
    deliveries = await _while_there(call, engine.pop(request))
    if not deliveries:
        reason = await _reason(call, request)
        return Answer(status=204, headers={"Queen-Reason": reason}) if reason else _EMPTY
    queues: dict[str, Queue] = {}
    # They are out already: an answer without options of a queue is better than none.
    with contextlib.suppress(errors.QueenError):
        queues = await engine.catalogue.queues({delivery.queue for delivery in deliveries})
    tracing.describe_pop(call.span, deliveries, request.consumer_group)
    return Answer(encoding.popped(deliveries, queues))


def _pop_request(call: Call, query: PopQuery) -> PopRequest:
    settings = call.state.settings
    queue = call.parameters.get("queue", getattr(query, "queue", None))
    namespace, task = getattr(query, "namespace", None), getattr(query, "task", None)
    if queue is not None and (namespace is not None or task is not None):
        raise errors.BadRequest("give a queue, or a namespace and a task")
    for what, name in (("queue", queue), ("namespace", namespace), ("task", task)):
        if name:
            check_name(what, name, settings.max_name_bytes)
    start: datetime | None = None
    mode = _MODES[query.subscription_mode] if query.subscription_mode else None
    if query.subscription_from == "now":
        if mode == "all":
            raise errors.BadRequest("subscriptionFrom now and subscriptionMode all contradict")
        mode = "new"
    elif query.subscription_from is not None:
        start = _instant(query.subscription_from, "subscriptionFrom")
        if mode is not None:
            raise errors.BadRequest("give subscriptionMode or subscriptionFrom, not both")
    timeout = settings.default_timeout_ms if query.timeout is None else query.timeout
    return PopRequest(
        queue=queue,
        partition=call.parameters.get("partition", getattr(query, "partition", None)),
        namespace=namespace,
        task=task,
        consumer_group=None if query.consumer_group == QUEUE_MODE else query.consumer_group,
        batch=query.batch or settings.default_batch_size,
        partitions=query.partitions,
        wait=query.wait,
        timeout_seconds=min(timeout, settings.max_timeout_ms) / 1000,
        auto_ack=query.auto_ack,
        subscription_mode=mode,  # pyright: ignore[reportArgumentType] - of _MODES
        subscription_from=start,
        lease_seconds=query.lease_seconds,
    )


async def _while_there(call: Call, popping: Any) -> list[Delivery]:  # noqa: ANN401 - a coroutine
    """Wait for messages as long as the client does: a waiter who has gone gets nothing."""
    gone: Gone | None = call.scope.get(GONE)
    if gone is None:
        return await popping
    gone.task = asyncio.current_task()
    try:
        return await popping
    except asyncio.CancelledError:
        if gone.is_told:
            raise ClientGone from None
        raise
    finally:
        gone.task = None


async def _reason(call: Call, request: PopRequest) -> str | None:
    """Why there is nothing, where somebody stopped it."""
    if call.state.pulse.is_pop_off:
        return "maintenance"
    if request.queue is None:
        return None
    queues = await call.state.engine.catalogue.queues({request.queue})
    queue = queues.get(request.queue)
    return "paused" if queue is not None and queue.is_paused else None


async def ack(call: Call) -> Answer:
    """Say what became of one message."""
    request = await call.body(Acknowledgment)
    (answer,) = await _acknowledge(call, [request], None)
    if answer.code is not None:
        raise _refusal(answer)
    return Answer(answer)


async def ack_batch(call: Call) -> Answer:
    """Say what became of several messages; the accepted ones commit together."""
    request = await call.body(AckRequest)
    if not request.acknowledgments:
        raise errors.BadRequest("there is nothing to acknowledge")
    answers = await _acknowledge(call, request.acknowledgments, request.consumer_group)
    return Answer(encoding.acknowledged(answers))


async def _acknowledge(
    call: Call, acknowledgments: Sequence[Acknowledgment], group: str | None
) -> list[Acknowledged]:
    if call.state.settings.require_lease:
        _require_leases(acknowledgments)
    await call.require_acks(acknowledgments)
    tracing.describe_settle(call.span, len(acknowledgments), group)
    return await call.state.engine.acknowledge(acknowledgments, consumer_group=group)


def _require_leases(operations: Sequence[Acknowledgment | PushOperation]) -> None:
    for index, each in enumerate(operations):
        if isinstance(each, Acknowledgment) and not each.lease_id:
            raise errors.BadRequest(
                "this server takes acknowledgments with a leaseId alone",
                # In a transaction an acknowledgment is one of its operations.
                **({"failed_index": index} if isinstance(each, AckOperation) else {}),
            )


async def transaction(call: Call) -> Answer:
    """Acks and pushes, all applied or none."""
    request = await call.body(TransactionRequest)
    if not request.operations:
        raise errors.BadRequest("a transaction needs at least one operation")
    if len(request.operations) > (most := call.state.settings.max_items):
        raise errors.TooManyItems(f"at most {most} operations fit a transaction")
    acks = [each for each in request.operations if isinstance(each, AckOperation)]
    items: list[PushItem] = []
    for index, each in enumerate(request.operations):
        if not isinstance(each, AckOperation):
            if not each.items:
                raise errors.BadRequest("a push needs at least one item", failed_index=index)
            items.extend(each.items)
    if call.state.settings.require_lease:
        _require_leases(request.operations)
    if acks:
        await call.require_acks(acks)
    if request.required_leases:
        await call.require_leases(request.required_leases)
    if items:
        await call.require_queues(Permission.PRODUCE, {item.queue for item in items})
        call.state.pulse.require_push()
    try:
        result = await call.state.engine.transact(
            acknowledgments=acks,
            items=_with_trace(call, items),
            required_leases=request.required_leases,
            consumer_group=request.consumer_group,
            is_rolled_back_on_duplicate=request.on_duplicate == "rollback",
            producer_id=request.producer_id,
            sequence=request.sequence,
        )
    except errors.QueenError as error:
        if "failed" in error.members:
            error.members["failed_index"] = _index_of(request, *error.members["failed"])
        raise
    results: list[OperationResult] = []
    at = 0
    for index, each in enumerate(request.operations):
        if isinstance(each, AckOperation):
            name = each.transaction_id or each.id
            results.append(OperationResult(index=index, type="ack", transaction_id=name))
        else:
            messages = result[at : at + len(each.items)]
            at += len(each.items)
            results.append(OperationResult(index=index, type="push", messages=messages))
    return Answer(
        TransactionResponse(
            transaction_id=request.producer_id or call.request_id,
            success=True,
            results=results,
            replayed=result.is_replayed,
        )
    )


def _index_of(request: TransactionRequest, kind: str, number: int) -> int:
    """Which operation the engine's n-th ack or n-th pushed item was of."""
    seen = 0
    for index, each in enumerate(request.operations):
        if isinstance(each, AckOperation):
            size = 1 if kind == "ack" else 0
        else:
            size = len(each.items) if kind == "item" else 0
        if seen <= number < seen + size:
            return index
        seen += size
    return 0


async def extend(call: Call) -> Answer:
    """Move the end of a lease; never shortens it."""
    request = await call.body(ExtendRequest)
    lease_id = call.parameters["leaseId"]
    await call.require_leases([lease_id])
    (result,) = await call.state.engine.extend_many([lease_id], seconds=request.seconds)
    if result.code is not None:
        raise _refusal(result)
    return Answer(result)


async def extend_many(call: Call) -> Answer:
    """Move the ends of several leases."""
    request = await call.body(ExtendManyRequest)
    if not request.lease_ids:
        raise errors.BadRequest("there is no lease to extend")
    await call.require_leases(request.lease_ids)
    results = await call.state.engine.extend_many(request.lease_ids, seconds=request.seconds)
    return Answer(ExtendManyResponse(results=results))


async def release(call: Call) -> Answer:
    """Give back what is left of a delivery, at once and uncounted."""
    lease_id = call.parameters["leaseId"]
    await call.require_leases([lease_id])
    await call.state.engine.release(lease_id)
    return Answer(Released(lease_id=lease_id))


async def configure(call: Call) -> Answer:
    """Make a queue or change its options."""
    request = await call.body(ConfigureRequest)
    await call.require_scope(
        Permission.CONFIGURE, request.queue, request.namespace, request.task, is_made=True
    )
    engine = call.state.engine
    check_queue_name("queue", request.queue, call.state.settings.max_name_bytes)
    columns = request.options.columns()
    _check_options(call, request)
    if columns.get("schema") is not None:
        PayloadSchema(columns["schema"])  # Raises InvalidOption, before anything is stored.
    found = await engine.store.queues.named([request.queue])
    call.note(queue=request.queue, before=_configured(found[0]) if found else None)
    if request.partition is not None:
        if set(columns) - {"priority"}:
            raise errors.InvalidOption("a partition has one option: priority")
        if (
            request.namespace is not None
            or request.task is not None
            or request.mode == "replace"
            or call.header(b"if-match") is not None
        ):
            raise errors.BadRequest(
                "a partition has a priority alone: no namespace, task, mode replace or If-Match"
            )
        priority: int = columns.get("priority") or 0
        await engine.configure_partition(request.queue, request.partition, priority=priority)
        row = await engine.queue_row(request.queue)
    else:
        row = await engine.configure(
            request.queue,
            columns,
            namespace=request.namespace,
            task=request.task,
            is_replaced=request.mode == "replace",
            version=_version(call),
        )
    answer = _configured(row)
    call.note(after=answer)
    return Answer(answer)


def _check_options(call: Call, request: ConfigureRequest) -> None:
    """Raise InvalidOption for what no type can say: a limit of the server, two names of one."""
    options = request.options
    most = call.state.settings.max_lease_seconds
    if isinstance(options.lease_time, float | int) and options.lease_time > most:
        raise errors.InvalidOption(f"leaseTime must be at most {most}: QUEEN_MAX_LEASE_SECONDS")
    names = (options.dlq_after_max_retries, options.dead_letter_queue)
    if msgspec.UNSET not in names and names[0] is not names[1]:
        raise errors.InvalidOption(
            "deadLetterQueue is another name for dlqAfterMaxRetries: they contradict each other"
        )


def _configured(row: Record) -> Configured:
    return Configured(
        configured=True,
        queue=row["name"],
        namespace=row["namespace"],
        task=row["task"],
        options=QueueOptions.of_row(dict(row)),
        version=row["version"],
    )


def _version(call: Call) -> int | None:
    text = call.header(b"if-match")
    if text is None:
        return None
    text = text.strip().strip('"')
    if not text.isdigit() or len(text) > 18:
        raise errors.BadRequest("If-Match must be the version of the queue")
    return int(text)


def _with_trace(call: Call, items: list[PushItem]) -> list[PushItem]:
    """
    Items that say no traceId of their own get that of the request's ``traceparent``.

    That header goes into each message's headers as well, so that its consumer goes on with the
    trace.
    """
    parent = tracing.parent_of(call)
    trace_id = parent and trace_of(parent)
    if parent is None or trace_id is None:
        return items
    return [
        msgspec.structs.replace(
            item,
            trace_id=item.trace_id or trace_id,
            headers=_with_parent(item.headers or {}, parent, call.state.settings),
        )
        for item in items
    ]


def _with_parent(headers: dict[str, str], parent: str, settings: Settings) -> dict[str, str]:
    """Headers with the trace's, unless they have one or no room for it."""
    size_bytes = sum(
        len(text.encode("utf-8", "replace")) for pair in headers.items() for text in pair
    )
    has_room = (
        len(headers) < settings.max_message_headers
        and size_bytes + len("traceparent") + len(parent) <= settings.max_message_header_bytes
    )
    return {"traceparent": parent, **headers} if has_room else headers


def _instant(text: str, what: str) -> datetime:
    try:
        at = msgspec.convert(text, datetime)
    except msgspec.ValidationError as error:
        raise refused(error, f"/{what}") from error
    if at.tzinfo is None:
        raise errors.BadRequest(f"{what} needs a time zone")
    return in_utc(at, f"/{what}")


def _refusal(answer: Acknowledged | Extended) -> errors.QueenError:
    error = errors.of_code(answer.code or "") or errors.RequestError
    is_settled = isinstance(answer, Acknowledged) and answer.settled is True
    return error(answer.error, **({"settled": True} if is_settled else {}))


def _first_problem(refusal: Pushed, body: bytes) -> errors.QueenError:
    error = errors.of_code(refusal.code or "") or errors.InvalidItem
    raws = msgspec.json.decode(body, type=dict[str, list[msgspec.Raw]])
    return error(refusal.error, messages=raws["messages"])


_POP: Final[dict[str, Any]] = {
    "handler": pop,
    "permission": Permission.CONSUME,
    "answers": {200: PopAnswer, 204: None},
    "problems": (
        errors.QueueNotFound,
        errors.SubscriptionConflict,
        errors.TooManyWaiters,
        errors.InvalidName,
    ),
}
_IN_QUEUE: Final = f"{API}/pop/queue/{{queue}}"
_IN_PARTITION: Final = f"{_IN_QUEUE}/partition/{{partition}}"
_REFUSED_ITEM: Final = (
    errors.InvalidItem,
    errors.InvalidName,
    errors.PayloadTooLarge,
    errors.TooManyItems,
    errors.QueueFull,
    errors.QueueNotFound,
    errors.SchemaViolation,
    errors.SequenceStale,
)
_REFUSED_ACK: Final = (
    errors.InvalidStatus,
    errors.LeaseLost,
    errors.AlreadySettled,
    errors.AmbiguousMessage,
    errors.MessageNotFound,
    errors.TooManyItems,
)

ROUTES: Final = (
    Route(
        method="POST",
        path=f"{API}/push",
        handler=push,
        summary="Push messages",
        permission=Permission.PRODUCE,
        body=PushRequest,
        answers={201: PushResponse, 202: PushResponse},
        problems=_REFUSED_ITEM,
    ),
    Route(method="GET", path=f"{API}/pop", query=ScopedPopQuery, summary="Pop by scope", **_POP),
    Route(method="POST", path=f"{API}/pop", body=AnyPopQuery, summary="Pop", **_POP),
    Route(method="GET", path=_IN_QUEUE, query=PopQuery, summary="Pop from a queue", **_POP),
    Route(method="POST", path=_IN_QUEUE, body=PopQuery, summary="Pop from a queue", **_POP),
    Route(method="GET", path=_IN_PARTITION, query=PopQuery, summary="Pop a partition", **_POP),
    Route(method="POST", path=_IN_PARTITION, body=PopQuery, summary="Pop a partition", **_POP),
    Route(
        method="POST",
        path=f"{API}/ack",
        handler=ack,
        summary="Acknowledge a message",
        permission=Permission.CONSUME,
        body=Acknowledgment,
        answers={200: Acknowledged},
        problems=_REFUSED_ACK,
    ),
    Route(
        method="POST",
        path=f"{API}/ack/batch",
        handler=ack_batch,
        summary="Acknowledge several messages",
        permission=Permission.CONSUME,
        body=AckRequest,
        answers={200: AckResponse},
        problems=_REFUSED_ACK,
    ),
    Route(
        method="POST",
        path=f"{API}/transaction",
        handler=transaction,
        summary="Ack and push, all or nothing",
        permission=None,  # Each operation needs its own.
        body=TransactionRequest,
        answers={200: TransactionResponse},
        problems=(*_REFUSED_ITEM, *_REFUSED_ACK, errors.CrossShard, errors.Duplicate),
    ),
    Route(
        method="POST",
        path=f"{API}/lease/{{leaseId}}/extend",
        handler=extend,
        summary="Extend a lease",
        permission=Permission.CONSUME,
        body=ExtendRequest,
        answers={200: Extended},
        problems=(errors.LeaseLost,),
    ),
    Route(
        method="POST",
        path=f"{API}/lease/extend",
        handler=extend_many,
        summary="Extend several leases",
        permission=Permission.CONSUME,
        body=ExtendManyRequest,
        answers={200: ExtendManyResponse},
        problems=(errors.TooManyItems,),
    ),
    Route(
        method="POST",
        path=f"{API}/lease/{{leaseId}}/release",
        handler=release,
        summary="Give a delivery back",
        permission=Permission.CONSUME,
        answers={200: Released},
        problems=(errors.LeaseLost,),
    ),
    Route(
        method="POST",
        path=f"{API}/configure",
        handler=configure,
        summary="Make or change a queue",
        permission=Permission.CONFIGURE,
        body=ConfigureRequest,
        headers={"If-Match": "The version that the queue must have"},
        answers={200: Configured},
        problems=(
            errors.InvalidOption,
            errors.InvalidName,
            errors.PartitionNotFound,
            errors.QueueNotFound,
            errors.VersionMismatch,
        ),
    ),
)
