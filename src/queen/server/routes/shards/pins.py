"""Pinned partitions: list, pin, unpin."""

from queen import errors
from queen.cluster.shards import Shards
from queen.cluster.spread.pins import Pin as Found, Pins as Cluster
from queen.server.auth.permissions import Permission
from queen.server.http.answer import Answer
from queen.server.http.call import Call, new_routes
from queen.server.operations.slot_moves import MOVE_SLOTS, arguments_of
from queen.server.routes.operations import started
from queen.wire.resources import (
    Operation,
    Pin,
    Pinned,
    PinRequest,
    Pins,
    Unpinned,
    UnpinRequest,
)

ROUTES, route = new_routes()


@route("GET /api/v1/shards/pins", "List pinned partitions", Permission.ADMIN, {200: Pins})
async def list_pins(call: Call) -> Answer:
    """List the partitions of spread queues that have a slot of their own."""
    return Answer(Pins(pins=[_answer(each) for each in await Cluster(call.state.cluster).all()]))


@route(
    "POST /api/v1/shards/pins",
    "Pin a partition",
    Permission.ADMIN,
    {201: Pinned},
    body=PinRequest,
    problems=(errors.NotFound, errors.QueueNotFound, errors.Conflict, errors.SlotBusy),
)
async def pin(call: Call) -> Answer:
    """
    Give a partition of a spread queue a slot of its own, and move the slot to a database.

    The partition must not exist yet, and all databases must be available. You can repeat the
    request. If the slot is in another database, the response contains an operation that continues.
    """
    request = await call.body(PinRequest)
    call.audit(queue=request.queue, after=request)
    cluster = call.state.cluster
    found = await Cluster(cluster).pin(request.queue, request.partition, request.database)
    operation: Operation | None = None
    if found.database != request.database:
        plan = await Shards(cluster).plan_move(request.database, slot=found.slot)
        arguments = arguments_of(plan.moves)
        operation = await started(call, MOVE_SLOTS, None, arguments, len(plan.moves))
    return Answer(Pinned(pin=_answer(found), operation=operation), status=201)


@route(
    "POST /api/v1/shards/unpin",
    "Unpin a partition",
    Permission.ADMIN,
    {200: Unpinned},
    body=UnpinRequest,
    problems=(errors.NotFound, errors.QueueNotFound, errors.Conflict),
)
async def unpin(call: Call) -> Answer:
    """
    Remove the pin of a partition, which gets the slot of its name's hash again.

    The partition must not exist, and all databases must be available. You can repeat the request.
    """
    request = await call.body(UnpinRequest)
    call.audit(queue=request.queue, before=request)
    await Cluster(call.state.cluster).unpin(request.queue, request.partition)
    return Answer(Unpinned(queue=request.queue, partition=request.partition))


def _answer(found: Found) -> Pin:
    return Pin(
        queue=found.queue,
        partition=found.partition,
        slot=found.slot,
        database=found.database,
        ready=found.is_ready,
    )
