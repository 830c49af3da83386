"""Make the load of all databases even."""

from typing import Final, Literal

from queen import errors
from queen.cluster.balance import Measure, PlannedMove as Move, Rebalance, UsedSlot, Weight
from queen.cluster.shards import Shards as Cluster
from queen.server.auth.permissions import Permission
from queen.server.http.answer import Answer
from queen.server.http.call import Call, new_routes
from queen.server.operations.slot_moves import MOVE_SLOTS, arguments_of
from queen.server.routes.operations import started
from queen.store.cluster.mover import Move as SlotMove
from queen.wire.resources import (
    Operation,
    PlannedMove,
    Rebalanced,
    RebalancedDatabase,
    RebalanceRequest,
    SlotLoad,
)

ROUTES, route = new_routes()

_REASONS: Final[dict[Measure, Literal["bytesPerSecond", "bytes", "slots"]]] = {
    "bytes_per_second": "bytesPerSecond",
    "bytes": "bytes",
    "slots": "slots",
}

_MEASURES: Final[dict[str, Measure]] = {reason: measure for measure, reason in _REASONS.items()}


@route(
    "POST /api/v1/shards/rebalance",
    "Rebalance databases",
    Permission.ADMIN,
    {200: Rebalanced, 202: Rebalanced},
    body=RebalanceRequest,
    problems=(errors.Conflict, errors.NotFound, errors.SlotBusy),
)
async def rebalance(call: Call) -> Answer:
    """
    Move slots so that the load of all databases is even, or return the plan with `dryRun`.

    With the `moves` of that plan, the next request makes these moves. It is rejected if one of the
    slots is in another database by then.

    The response contains an operation that continues, unless no slot moves.
    """
    request = await call.body(RebalanceRequest)
    call.audit(after=request)
    confirmed = None if request.moves is None else [*map(_confirmed, request.moves)]
    plan = await Cluster(call.state.cluster).plan_rebalance(confirmed)
    operation: Operation | None = None
    if plan.moves and not request.dry_run:
        moves = [each.move for each in plan.moves]
        call.audit(after={"moves": [each._asdict() for each in moves]})
        operation = await started(call, MOVE_SLOTS, None, arguments_of(moves), len(moves))
    return Answer(_answer(plan, operation), status=200 if operation is None else 202)


def _answer(plan: Rebalance, operation: Operation | None) -> Rebalanced:
    slots = {each.slot: each for each in plan.slots}
    before, after = plan.before, plan.after
    return Rebalanced(
        moves=[_move(each, slots[each.move.slot]) for each in plan.moves],
        databases=[
            RebalancedDatabase(name=name, before=_load(before[name]), after=_load(after[name]))
            for name in plan.databases
        ],
        operation=operation,
    )


def _confirmed(move: PlannedMove) -> Move:
    return Move(SlotMove(move.slot, move.database, move.to), _MEASURES[move.reason])


def _move(planned: Move, slot: UsedSlot) -> PlannedMove:
    return PlannedMove(
        slot=planned.move.slot,
        database=planned.move.source,
        to=planned.move.target,
        reason=_REASONS[planned.reason],
        queues=[*slot.queues],
        bytes_per_second=round(slot.weight.bytes_per_second, 3),
        bytes=slot.weight.bytes,
    )


def _load(weight: Weight) -> SlotLoad:
    return SlotLoad(
        bytes_per_second=round(weight.bytes_per_second, 3),
        bytes=weight.bytes,
        slots=weight.slots,
    )
