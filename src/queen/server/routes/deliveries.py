"""Deliveries: list the leased ones, and release them."""

from datetime import UTC, datetime
from typing import Final

from queen import errors
from queen.codec.ids import partition_ref
from queen.server.auth.permissions import Permission
from queen.server.http.answer import Answer
from queen.server.http.call import API, Call, Route
from queen.server.http.cursors import Int, Priority, cursor_to, limit_of, place_of
from queen.store.connection.database import Record
from queen.wire.resources import Deliveries, DeliveriesQuery, DeliveryInfo, DeliveryReleased

_EARLIEST: Final = datetime(1, 1, 1, tzinfo=UTC)


async def list_deliveries(call: Call) -> Answer:
    """List leased and waiting deliveries, with their end and attempt."""
    query = call.query(DeliveriesQuery)
    row = await _queue(call, Permission.BROWSE)
    limit = limit_of(call, query)
    store = call.state.engine.store
    if query.consumer_group is not None and not await store.groups.named(
        row["id"], query.consumer_group
    ):
        raise errors.GroupNotFound(f"queue {row['name']} has no group {query.consumer_group}")
    group_id, priority, until, id_ = place_of(
        query.cursor, tuple[Int, Priority, datetime | None, Int], (0, -(2**31), _EARLIEST, 0)
    )
    rows = await store.queues.deliveries(
        row["id"],
        group=query.consumer_group,
        after=(group_id, priority, "infinity" if until is None else until.isoformat(), id_),
        limit=limit,
    )
    cursor = None
    if len(rows) == limit:
        last = rows[-1]
        cursor = cursor_to(last["group_id"], last["priority"], last["until"], last["id"])
    shard = store.shard
    return Answer(
        Deliveries(deliveries=[_delivery(shard, each) for each in rows], next_cursor=cursor)
    )


def _delivery(shard: int, row: Record) -> DeliveryInfo:
    state = "parked" if row["is_parked"] else "waiting"
    if row["held"]:
        state = "expired" if row["is_late"] else "held"
    return DeliveryInfo(
        id=f"{shard}.{row['id']}",
        consumer_group=row["group"],
        partition=row["partition"],
        partition_id=partition_ref(shard, row["partition_id"]),
        state=state,
        until=row["until"],
        attempt=row["attempts"] + 1,
        messages=row["messages"],
        first_offset=row["first_offset"],
        end_offset=row["end_offset"],
        error=row["error"],
    )


async def release(call: Call) -> Answer:
    """Release a delivery. Its messages are available immediately, without counting an attempt."""
    row = await _queue(call, Permission.OPERATE)
    delivery = call.parameters["delivery"]
    await call.state.engine.release_delivery(row["id"], delivery)
    return Answer(DeliveryReleased(id=delivery))


async def _queue(call: Call, permission: Permission) -> Record:
    queue = call.parameters["queue"]
    await call.require_queues(permission, {queue})
    return await call.state.engine.queues.one(queue)


_DELIVERIES: Final = f"{API}/resources/queues/{{queue}}/deliveries"

ROUTES: Final = (
    Route(
        method="GET",
        path=_DELIVERIES,
        handler=list_deliveries,
        summary="List deliveries",
        permission=Permission.BROWSE,
        query=DeliveriesQuery,
        answers={200: Deliveries},
        problems=(errors.QueueNotFound, errors.GroupNotFound),
    ),
    Route(
        method="POST",
        path=f"{_DELIVERIES}/{{delivery}}/release",
        handler=release,
        summary="Release a delivery",
        permission=Permission.OPERATE,
        answers={200: DeliveryReleased},
        problems=(errors.QueueNotFound, errors.LeaseLost),
    ),
)
