"""Databases and slots: list, move, drain, remove."""

import asyncio
from collections.abc import Iterable, Sequence

from queen import errors
from queen.cluster.shards import Plan, Shard as Found, Shards as Cluster
from queen.server.auth.permissions import Permission
from queen.server.http.answer import Answer
from queen.server.http.call import Call, new_routes
from queen.server.operations.slot_moves import MOVE_SLOTS, arguments_of, moves_of
from queen.server.routes.operations import begin
from queen.server.routes.views import operation_info, slot_ranges
from queen.store.cluster.homes import IDLE
from queen.store.connection.database import Record
from queen.wire.resources import (
    DrainRequest,
    MoveRequest,
    OperationStarted,
    Shard,
    ShardRemoved,
    Shards,
    Slot,
    SlotMove,
)

ROUTES, route = new_routes()


@route("GET /api/v1/shards", "List databases and slots", Permission.ADMIN, {200: Shards})
async def list_shards(call: Call) -> Answer:
    """List all databases, and the slots that have queues or are moving."""
    shards = Cluster(call.state.cluster)
    found, operations, owned = await asyncio.gather(
        shards.read(), shards.operations(), shards.owned()
    )
    moves = _moves(found, operations)
    slots = [_slot(each, row, moves.get(row["slot"])) for each in found for row in each.slots]
    return Answer(
        Shards(
            databases=[_database(each, owned.get(each.name, [])) for each in found],
            slots=sorted(slots, key=lambda slot: slot.slot),
            operations=[operation_info(row) for row in operations],
        )
    )


def _moves(found: Sequence[Found], operations: Iterable[Record]) -> dict[int, SlotMove]:
    """The moves that copy now, and those that operations will make, by slot."""
    targets: dict[int, tuple[str, str | None]] = {
        row["slot"]: (to, None)
        for each in found
        for row in each.slots
        if (to := row["copied_to"] or row["moved_to"]) is not None
    }
    for row in operations:
        for move in moves_of(row["arguments"])[row["cursor"] or 0 :]:
            targets[move.slot] = move.target, str(row["id"])
    arriving = {each.name: each.arriving for each in found}
    moves: dict[int, SlotMove] = {}
    for slot, (to, operation) in targets.items():
        progress = arriving.get(to, {}).get(slot)
        moves[slot] = SlotMove(
            to=to,
            operation=operation,
            copied_bytes=progress["copied_bytes"] if progress else 0,
            total_bytes=progress["total_bytes"] if progress else None,
        )
    return moves


def _database(found: Found, owned: Sequence[int]) -> Shard:
    usage = dict.fromkeys(("slots", "queues", "bytes")) if found.usage is None else found.usage
    load = None if found.usage is None else found.load
    return Shard(
        name=found.name,
        available=found.usage is not None,
        slots=usage["slots"],
        ranges=slot_ranges(owned),
        queues=usage["queues"],
        bytes=usage["bytes"],
        messages_per_second=load and _rounded(load.messages_per_second),
        bytes_per_second=load and _rounded(load.bytes_per_second),
    )


def _slot(found: Found, row: Record, move: SlotMove | None) -> Slot:
    load = found.loads.get(row["slot"], IDLE)
    return Slot(
        slot=row["slot"],
        database=found.name,
        leaving=row["state"] == "leaving",
        epoch=row["epoch"],
        queues=row["queues"],
        queue_count=row["queue_count"],
        messages_per_second=_rounded(load.messages_per_second),
        bytes_per_second=_rounded(load.bytes_per_second),
        move=move,
        hindrances=row["hindrances"],
    )


def _rounded(rate: float) -> float:
    return round(rate, 3)


@route(
    "POST /api/v1/shards/moves",
    "Move slots to a database",
    Permission.ADMIN,
    {202: OperationStarted},
    body=MoveRequest,
    problems=(errors.NotFound, errors.SlotBusy),
)
async def move(call: Call) -> Answer:
    """
    Move a slot, a queue or a namespace to another database, while it is in use.

    The response contains an operation that continues.
    """
    request = await call.body(MoveRequest)
    wanted = (request.slot, request.queue, request.namespace)
    if sum(each is not None for each in wanted) != 1:
        raise errors.BadRequest("give exactly one of slot, queue and namespace")
    call.audit(queue=request.queue, after=request)
    plan = await Cluster(call.state.cluster).plan_move(
        request.to, slot=request.slot, queue=request.queue, namespace=request.namespace
    )
    return await _begin(call, plan)


@route(
    "POST /api/v1/shards/drain",
    "Drain a database",
    Permission.ADMIN,
    {202: OperationStarted},
    body=DrainRequest,
    problems=(errors.NotFound, errors.SlotBusy),
)
async def drain(call: Call) -> Answer:
    """
    Move all slots of a database evenly to the others.

    The response contains an operation that continues.
    """
    request = await call.body(DrainRequest)
    call.audit(after=request)
    return await _begin(call, await Cluster(call.state.cluster).plan_drain(request.database))


@route(
    "DELETE /api/v1/shards/{name}",
    "Remove a database",
    Permission.ADMIN,
    {200: ShardRemoved},
    problems=(errors.NotFound, errors.SlotBusy),
)
async def remove(call: Call) -> Answer:
    """Remove a database that owns no slots. Its name and its number are never used again."""
    name = call.parameters["name"]
    await Cluster(call.state.cluster).remove(name)
    call.audit(before={"name": name})
    return Answer(ShardRemoved(name=name))


async def _begin(call: Call, plan: Plan) -> Answer:
    arguments = arguments_of(plan.moves)
    return await begin(call, MOVE_SLOTS, None, arguments, len(plan.moves), note=plan.hindrance)
