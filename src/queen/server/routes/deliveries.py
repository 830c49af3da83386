"""Deliveries: list the leased ones, and release them."""

from datetime import UTC, datetime
from typing import Final

from queen import errors
from queen.codec.ids import reference
from queen.server.auth.permissions import Permission
from queen.server.databases.spread_merges import unsorted
from queen.server.http.answer import Answer
from queen.server.http.call import Call, Paged, new_routes
from queen.server.http.cursors import Int, Priority, cursor_after, limit_of, place_of
from queen.server.routes.queues.queues import find_group, find_queue
from queen.server.routes.views import of_row
from queen.store.connection.database import Record
from queen.wire.resources import Deliveries, DeliveriesQuery, DeliveryInfo, DeliveryReleased

_EARLIEST: Final = datetime(1, 1, 1, tzinfo=UTC)

ROUTES, route = new_routes()


@route(
    "GET /api/v1/resources/queues/{queue}/deliveries",
    "List deliveries",
    Permission.BROWSE,
    {200: Deliveries},
    query=DeliveriesQuery,
    problems=(errors.QueueNotFound, errors.GroupNotFound),
    spread=Paged("deliveries", unsorted),
)
async def list_deliveries(call: Call) -> Answer:
    """List leased and waiting deliveries, with their end and attempt."""
    query = call.query(DeliveriesQuery)
    row = await find_queue(call, Permission.BROWSE)
    limit = limit_of(call, query.limit)
    store = call.state.engine.store
    if query.consumer_group is not None:
        await find_group(call, row, query.consumer_group)
    group_id, priority, until, id_ = place_of(
        query.cursor, tuple[Int, Priority, datetime | None, Int], (0, -(2**31), _EARLIEST, 0)
    )
    rows = await store.queues.deliveries(
        row["id"],
        group=query.consumer_group,
        after=(group_id, priority, "infinity" if until is None else until.isoformat(), id_),
        limit=limit,
    )
    return Answer(
        Deliveries(
            deliveries=[_delivery(each) for each in rows],
            next_cursor=cursor_after(rows, limit, "group_id", "priority", "until", "id"),
        )
    )


def _delivery(row: Record) -> DeliveryInfo:
    state = "parked" if row["is_parked"] else "waiting"
    if row["held"]:
        state = "expired" if row["is_late"] else "held"
    return of_row(
        DeliveryInfo,
        row,
        id=reference(row["id"]),
        consumer_group=row["group"],
        partition_id=reference(row["partition_id"]),
        state=state,
        attempt=row["attempts"] + 1,
    )


@route(
    "POST /api/v1/resources/queues/{queue}/deliveries/{delivery}/release",
    "Release a delivery",
    Permission.OPERATE,
    {200: DeliveryReleased},
    problems=(errors.QueueNotFound, errors.LeaseLost),
)
async def release(call: Call) -> Answer:
    """Release a delivery. Its messages are available immediately, without counting an attempt."""
    row = await find_queue(call, Permission.OPERATE)
    delivery = call.parameters["delivery"]
    await call.state.engine.release_delivery(row["id"], delivery)
    return Answer(DeliveryReleased(id=delivery))
