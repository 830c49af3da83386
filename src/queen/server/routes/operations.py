"""Long-running operations: list, show, cancel."""

from datetime import datetime
from typing import Any

from msgspec import structs

from queen import errors
from queen.server.auth.permissions import Permission
from queen.server.databases.merges import by_number
from queen.server.http.answer import Answer
from queen.server.http.call import Call, Paged, new_routes
from queen.server.http.cursors import Int, cursor_after, limit_of, place_of
from queen.server.operations.slot_moves import MOVE_SLOTS
from queen.server.routes.views import operation_info
from queen.store.connection.database import Record
from queen.wire.resources import Operation, Operations, OperationStarted, PageQuery

ROUTES, route = new_routes()


@route(
    "GET /api/v1/operations",
    "List operations",
    Permission.BROWSE,
    {200: Operations},
    query=PageQuery,
    everywhere=Paged("operations", by_number),
)
async def list_operations(call: Call) -> Answer:
    """List operations, newest first."""
    query = call.query(PageQuery)
    limit = limit_of(call, query.limit)
    (before,) = place_of(query.cursor, tuple[Int], (2**63 - 1,))
    # Only callers that see every queue see operations on several queues, whose queue is null.
    rows = await call.state.engine.store.operations.page(
        before=before, limit=limit, patterns=call.caller.patterns
    )
    return Answer(
        Operations(
            operations=[operation_info(row) for row in rows],
            next_cursor=cursor_after(rows, limit, "id"),
        )
    )


@route(
    "GET /api/v1/operations/{id}",
    "Show an operation",
    Permission.BROWSE,
    {200: OperationStarted},
    problems=(errors.NotFound,),
    is_searched=True,
)
async def show(call: Call) -> Answer:
    """Return the progress of an operation."""
    return Answer(OperationStarted(operation=operation_info(await _find(call, Permission.BROWSE))))


@route(
    "DELETE /api/v1/operations/{id}",
    "Cancel an operation",
    Permission.OPERATE,
    {200: OperationStarted},
    problems=(errors.NotFound,),
    is_searched=True,
)
async def cancel(call: Call) -> Answer:
    """
    Cancel an operation. Finished steps are not undone.

    An operation that moves slots stays `running` until the copy of the current slot is erased.
    """
    row = await _find(call, Permission.OPERATE)
    operations = call.state.engine.store.operations
    if row["kind"] == MOVE_SLOTS:
        call.caller.require(Permission.ADMIN)
        await operations.cancel(row["id"])
    else:
        await operations.end(row["id"], None, "cancelled", None)
    return Answer(OperationStarted(operation=operation_info(await _find(call, Permission.OPERATE))))


async def _find(call: Call, permission: Permission) -> Record:
    id_ = call.parameters["id"]
    row = None
    if id_.isascii() and id_.isdigit() and len(id_) <= 18:
        row = await call.state.engine.store.operations.one(int(id_))
    if row is None or (row["queue"] is None and call.caller.scopes is not None):
        raise call.missing(errors.NotFound(f"operation {id_} does not exist"))
    if row["queue"] is not None:
        await call.require_queues(permission, {row["queue"]})
        call.audit(queue=row["queue"])
    return row


async def begin(
    call: Call,
    kind: str,
    queue: str | None,
    arguments: dict[str, Any],
    total: int | None = None,
    *,
    note: str | None = None,
) -> Answer:
    """
    Start an operation for the caller, and respond with it.

    ``note``: what prevents its first step now.
    """
    operation = await started(call, kind, queue, arguments, total)
    operation = structs.replace(operation, error=note)
    return Answer(OperationStarted(operation=operation), status=202)


async def started(
    call: Call, kind: str, queue: str | None, arguments: dict[str, Any], total: int | None
) -> Operation:
    """Start an operation for the caller."""
    row = await call.state.operations.begin(
        kind, queue=queue, arguments=arguments, total=total, by=call.caller.name
    )
    return operation_info(row)


async def check_holds(
    call: Call, queue: str, partition: str | None, before: datetime | None
) -> None:
    """Raise QueueHeld if a hold keeps messages that a purge would delete."""
    hold = await call.state.engine.store.pipelines.covering_hold(
        queue, partition=partition, before=before
    )
    if hold is not None:
        raise errors.QueueHeld(
            f"hold {hold} keeps messages of queue {queue} that the purge would delete: wait until "
            "they are archived, or repeat the purge with force"
        )
