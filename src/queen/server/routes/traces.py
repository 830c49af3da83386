"""Trace events that consumers record: store, list by message and by name."""

from typing import Final

from queen import errors
from queen.codec.ids import id_of
from queen.codec.names import check_name
from queen.server.auth.permissions import Permission
from queen.server.databases.merges import by, join_names
from queen.server.http.answer import Answer
from queen.server.http.call import Call, Paged, new_routes
from queen.server.http.cursors import Int, cursor_after, cursor_to, limit_of, place_of
from queen.server.routes.views import trace_event
from queen.store.connection.database import Record
from queen.wire.resources import (
    PageQuery,
    Text,
    Traced,
    TraceName,
    TraceNames,
    TraceNamesQuery,
    TraceRequest,
    Traces,
)

_MOST_COUNTED: Final = 10_000
_MOST_NAMES: Final = 100

ROUTES, route = new_routes()


@route(
    "POST /api/v1/traces",
    "Record a trace event",
    Permission.CONSUME,
    {201: Traced},
    body=TraceRequest,
    problems=(
        errors.PartitionNotFound,
        errors.PayloadTooLarge,
        errors.TooManyItems,
        errors.InvalidName,
    ),
)
async def add(call: Call) -> Answer:
    """Store an event in the history of a message, for example a step of its processing."""
    request = await call.body(TraceRequest)
    settings = call.state.settings
    names = [*_names(request.trace_name), *_names(request.trace_names)]
    for name in (*names, request.event_type):
        check_name("traceName", name, settings.max_name_bytes)
    check_name("transactionId", request.transaction_id, settings.max_name_bytes)
    if len(names) > _MOST_NAMES:
        raise errors.TooManyItems(f"an event can have at most {_MOST_NAMES} names")
    data = bytes(request.data)
    if len(data) > settings.max_trace_bytes:
        raise errors.PayloadTooLarge(
            f"data has {len(data)} bytes; the limit is {settings.max_trace_bytes}"
        )
    partition_id = id_of(request.partition_id)
    if partition_id:
        call.go_to(call.state.cluster.of_id(partition_id))
    store = call.state.engine.store
    partition = await store.browse.partition(partition_id) if partition_id else None
    if partition is None:
        raise call.missing(
            errors.PartitionNotFound(f"partition {request.partition_id} does not exist")
        )
    await call.require_queues(Permission.CONSUME, {partition["queue"]})
    id_ = await store.traces.add(
        partition["id"],
        request.transaction_id,
        group=request.consumer_group,
        event_type=request.event_type,
        names=names,
        data=data,
    )
    return Answer(Traced(success=True, trace_id=str(id_)), status=201)


def _names(given: str | list[str] | None) -> list[str]:
    if given is None:
        return []
    return [given] if isinstance(given, str) else given


@route(
    "GET /api/v1/traces/{partitionId}/{transactionId}",
    "List trace events of a message",
    Permission.BROWSE,
    {200: Traces},
    query=PageQuery,
    problems=(errors.PartitionNotFound,),
)
async def of_message(call: Call) -> Answer:
    """List the events of a message in time order."""
    query = call.query(PageQuery)
    limit = limit_of(call, query.limit)
    store = call.state.engine.store
    ref = call.parameters["partitionId"]
    partition_id = id_of(ref)
    partition = await store.browse.partition(partition_id) if partition_id else None
    if partition is None:
        raise call.missing(errors.PartitionNotFound(f"partition {ref} does not exist"))
    await call.require_queues(Permission.BROWSE, {partition["queue"]})
    (after,) = place_of(query.cursor, tuple[Int], (0,))
    rows = await store.traces.of_message(
        partition["id"], call.parameters["transactionId"], after=after, limit=limit
    )
    return _page(rows, limit)


@route(
    "GET /api/v1/traces/by-name/{name}",
    "List trace events by name",
    Permission.BROWSE,
    {200: Traces},
    query=PageQuery,
    everywhere=Paged("traces", by("created_at"), queue="queue"),
)
async def of_name(call: Call) -> Answer:
    """List the events with a name, in time order."""
    query = call.query(PageQuery)
    limit = limit_of(call, query.limit)
    store = call.state.engine.store
    (after,) = place_of(query.cursor, tuple[Int], (0,))
    rows = await store.traces.of_name(
        call.parameters["name"], after=after, limit=limit, patterns=call.caller.patterns
    )
    return _page(rows, limit)


def _page(rows: list[Record], limit: int) -> Answer:
    return Answer(
        Traces(
            # Events of a deleted queue are no longer visible.
            traces=[trace_event(row) for row in rows if row["queue"] is not None],
            next_cursor=cursor_after(rows, limit, "id"),
        )
    )


@route(
    "GET /api/v1/traces/names",
    "List trace names",
    Permission.BROWSE,
    {200: TraceNames},
    query=TraceNamesQuery,
    everywhere=Paged("names", by("name"), join=join_names),
)
async def names(call: Call) -> Answer:
    """List the names in use, with their counts and last use."""
    query = call.query(TraceNamesQuery)
    call.caller.require_unscoped()  # Names are shared by all queues.
    limit = limit_of(call, query.limit)
    (after,) = place_of(query.cursor, tuple[Text], ("",))
    rows = await call.state.engine.store.traces.names(
        after=after, prefix=query.prefix, limit=limit, most=_MOST_COUNTED
    )
    found = [
        TraceName(name=row["name"], count=row["events"], last_seen_at=row["last_at"])
        for row in rows
        if row["name"].startswith(query.prefix)
    ]
    # Names are sorted, so the first one without the prefix ends the list.
    is_more = len(rows) == limit and len(found) == len(rows)
    return Answer(
        TraceNames(names=found, next_cursor=cursor_to(rows[-1]["name"]) if is_more else None)
    )
