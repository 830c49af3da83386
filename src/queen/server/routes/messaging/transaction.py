"""Transactions: acks, pushes and workflow steps, applied together or not at all."""

from collections.abc import Collection, Iterable, Sequence

from queen import errors
from queen.cluster.lookups import is_searched
from queen.cluster.steps import Elsewhere, advance_elsewhere, find_elsewhere
from queen.cluster.transactions import Division
from queen.engine.engine import Engine
from queen.engine.push.batches import PushResult
from queen.engine.push.producers import digest_of
from queen.server.auth.permissions import Permission
from queen.server.http.answer import Answer
from queen.server.http.call import Call, new_routes
from queen.server.routes.messaging.ack import REFUSED_ACK, require_leases
from queen.server.routes.messaging.push import REFUSED_ITEM, with_trace
from queen.wire.messages import PushItem
from queen.wire.transactions import (
    AckOperation,
    AdvanceOperation,
    OperationResult,
    PushOperation,
    TransactionRequest,
    TransactionResponse,
)

ROUTES, route = new_routes()


@route(
    "POST /api/v1/transaction",
    "Apply acks, pushes and workflow steps together",
    None,  # Each operation needs its own.
    {200: TransactionResponse},
    span="transaction",
    body=TransactionRequest,
    problems=(*REFUSED_ITEM, *REFUSED_ACK, errors.CrossShard, errors.Duplicate),
)
async def transaction(call: Call) -> Answer:
    """
    Apply acks, pushes and workflow steps together, or not at all.

    Acks and workflow steps need the permission `consume`, pushes need `produce`.
    """
    request = await call.body(TransactionRequest)
    if not request.operations:
        raise errors.BadRequest("a transaction needs at least one operation")
    if len(request.operations) > (most := call.state.settings.max_items):
        raise errors.TooManyItems(f"a transaction can have at most {most} operations")
    acks = [each for each in request.operations if isinstance(each, AckOperation)]
    advances = [each for each in request.operations if isinstance(each, AdvanceOperation)]
    items: list[PushItem] = []
    for index, each in enumerate(request.operations):
        if isinstance(each, PushOperation):
            if not each.items:
                raise errors.BadRequest("a push needs at least one item", failed_index=index)
            items.extend(each.items)
    await _authorize(call, request, acks, items)
    division = await _place(call, request, acks, items)
    if isinstance(division, PushResult):
        return _response(call, request, division)
    call.go_to(division.engine)
    if items:
        call.state.heartbeat.require_push()
    elsewhere: Elsewhere = {}
    here = [*range(len(advances))]
    try:
        if advances:
            elsewhere = await find_elsewhere(call.state.cluster, call.state.engine, advances)
            await _require_steps(call, [call.state.engine, *elsewhere], advances)
        stale: set[int] = set()
        if elsewhere:
            # With a hindrance, the transaction below changes nothing.
            if division.hindrance is None:
                stale = await advance_elsewhere(
                    call.state.engine, elsewhere, advances, acks, request.consumer_group
                )
            here = [at for at in here if not any(at in some for some in elsewhere.values())]
        result = await _transact(
            call, request, acks, items, division, [advances[at] for at in here]
        )
    except errors.QueenError as error:
        if "failed" in error.members:
            kind: str = error.members["failed"][0]
            number: int = error.members["failed"][1]
            if kind == "advance":
                number = here[number]
            error.members["failed_index"] = _index_of(request, kind, number)
        raise
    stale |= {here[at] for at in result.stale_advances}
    return _response(call, request, result, stale)


async def _first_outcome(
    call: Call, request: TransactionRequest, items: list[PushItem]
) -> PushResult | None:
    """The outcome of this request if it has a number and one of several databases applied it."""
    if request.producer_id is None:
        return None
    return await call.state.cluster.first_outcome(
        items,
        producer_id=request.producer_id,
        sequence=request.sequence,
        scope=call.caller.producer_scope,
        digest=_digest(request),
    )


def _response(
    call: Call,
    request: TransactionRequest,
    result: PushResult,
    stale: Collection[int] | None = None,
) -> Answer:
    return Answer(
        TransactionResponse(
            transaction_id=request.producer_id or call.request_id,
            success=True,
            results=_results(request, result, result.stale_advances if stale is None else stale),
            replayed=result.is_replayed,
        )
    )


async def _transact(
    call: Call,
    request: TransactionRequest,
    acks: list[AckOperation],
    items: list[PushItem],
    division: Division,
    advances: list[AdvanceOperation],
) -> PushResult:
    return await call.state.engine.transact(
        acknowledgments=acks,
        items=with_trace(call, items),
        forwarded=division.forwarded,
        hindrance=division.hindrance,
        advances=advances,
        required_leases=request.required_leases,
        consumer_group=request.consumer_group,
        is_rolled_back_on_duplicate=request.on_duplicate == "rollback",
        producer_id=request.producer_id,
        sequence=request.sequence,
        scope=call.caller.producer_scope,
        digest=None if request.producer_id is None else _digest(request),
    )


async def _authorize(
    call: Call, request: TransactionRequest, acks: list[AckOperation], items: list[PushItem]
) -> None:
    """Check the caller's scopes."""
    if call.state.settings.require_lease:
        require_leases(request.operations)
    if acks:
        await call.require_acks(acks)
    if request.required_leases:
        await call.require_leases(request.required_leases)
    if items:
        await call.require_queues(Permission.PRODUCE, {item.queue for item in items})


async def _place(
    call: Call, request: TransactionRequest, acks: list[AckOperation], items: list[PushItem]
) -> Division | PushResult:
    """Find the database of the transaction, or its first outcome if it is a repeat without one."""
    try:
        if any(map(is_searched, acks)):
            # If their messages were removed since, only the number finds the database.
            first = await _first_outcome(call, request, items)
            if first is not None:
                return first
        return await _divide(call, request, acks, items)
    except errors.CrossShard:
        # All its queues were in one database when it was applied, if it is a repeat.
        first = await _first_outcome(call, request, items)
        if first is None:
            raise
        return first


async def _divide(
    call: Call, request: TransactionRequest, acks: list[AckOperation], items: list[PushItem]
) -> Division:
    """Find the database of the transaction, and the items that it sends to others."""
    cluster = call.state.cluster
    if request.across_shards == "outbox":
        return await cluster.divide_transaction(
            acknowledgments=acks,
            items=items,
            required_leases=request.required_leases,
            consumer_group=request.consumer_group,
            is_rolled_back_on_duplicate=request.on_duplicate == "rollback",
        )
    return Division(
        await cluster.of_transaction(
            acknowledgments=acks,
            items=items,
            required_leases=request.required_leases,
            consumer_group=request.consumer_group,
        )
    )


def _results(
    request: TransactionRequest, result: PushResult, stale: Collection[int]
) -> list[OperationResult]:
    """Return the result of each operation, in request order."""
    results: list[OperationResult] = []
    at = number = 0
    for index, each in enumerate(request.operations):
        if isinstance(each, AckOperation):
            name = each.transaction_id or each.id
            results.append(OperationResult(index=index, type="ack", transaction_id=name))
        elif isinstance(each, AdvanceOperation):
            is_advanced = number not in stale
            results.append(OperationResult(index=index, type="advance", advanced=is_advanced))
            number += 1
        else:
            messages = result[at : at + len(each.items)]
            at += len(each.items)
            results.append(OperationResult(index=index, type="push", messages=messages))
    return results


async def _require_steps(
    call: Call, engines: Iterable[Engine], advances: Sequence[AdvanceOperation]
) -> None:
    """
    Raise Forbidden unless the caller may consume from the queues of these steps.

    The engine ends a step only with the ack of its own message. A message can be moved to another
    queue, so permission for the ack does not imply permission for the step.
    """
    call.caller.require(Permission.CONSUME)
    if call.caller.scopes is not None:
        for engine in engines:
            steps = [(each.workflow, each.step) for each in engine.workflows.advances(advances)]
            await call.require_queues(
                Permission.CONSUME, await engine.store.workflows.step_queues(steps)
            )


def _digest(request: TransactionRequest) -> bytes:
    """Compute the digest of a transaction, without the trace of this attempt."""
    items = [
        item
        for each in request.operations
        if isinstance(each, PushOperation)
        for item in each.items
    ]
    others = [each for each in request.operations if not isinstance(each, PushOperation)]
    sizes = [len(each.items) for each in request.operations if isinstance(each, PushOperation)]
    return digest_of(
        items,
        others,
        sizes,
        request.required_leases,
        request.consumer_group,
        request.on_duplicate,
    )


def _index_of(request: TransactionRequest, kind: str, number: int) -> int:
    """Return the operation of the engine's n-th ack, advance or pushed item."""
    seen = 0
    for index, each in enumerate(request.operations):
        if isinstance(each, PushOperation):
            size = len(each.items) if kind == "item" else 0
        else:
            size = int(kind == ("ack" if isinstance(each, AckOperation) else "advance"))
        if seen <= number < seen + size:
            return index
        seen += size
    return 0
