"""Single messages: list, show, retry, dead-letter, redact. Reading never leases a message."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from queen import errors
from queen.codec.ids import message_id, reference
from queen.codec.names import QUEUE_MODE
from queen.engine.encryption.sealer import Sealer, reveal_rows
from queen.engine.inspect import browse
from queen.engine.inspect.browse import Filter
from queen.engine.inspect.group_status import GroupState
from queen.engine.inspect.payload_filter import Where
from queen.server.auth.permissions import Permission
from queen.server.databases.spread_merges import newest, of_scans
from queen.server.http import cursors
from queen.server.http.answer import Answer
from queen.server.http.call import Call, Handler, Paged, new_routes
from queen.server.http.cursors import Int, cursor_to, limit_of
from queen.server.routes.messages.lookup import (
    Target,
    find,
    message_info,
    missing,
    read,
    scheduled_info,
)
from queen.server.routes.queues.queues import find_group
from queen.server.routes.views import trace_event
from queen.store.connection.database import is_enough
from queen.wire.resources import (
    GiveUpRequest,
    MessageChanged,
    MessageDetail,
    MessageGroup,
    MessageInfo,
    Messages,
    MessagesQuery,
    RetryRequest,
    RevealQuery,
)

_MOST_TRACES: Final = 1_000
_MISSING: Final = (errors.MessageNotFound, errors.AmbiguousMessage)

ROUTES, route = new_routes()


def both(
    method: str,
    suffix: str,
    *args: Any,  # noqa: ANN401 - of Route
    **options: Any,  # noqa: ANN401 - of Route
) -> Callable[[Handler], Handler]:
    """Add a route for each of both ways to name a message."""
    by_id = route(f"{method} /api/v1/messages/{{ref}}{suffix}", *args, **options)
    by_name = route(
        f"{method} /api/v1/messages/{{ref}}/{{transactionId}}{suffix}", *args, **options
    )
    return lambda handler: by_name(by_id(handler))


@route(
    "GET /api/v1/messages",
    "Browse messages",
    Permission.BROWSE,
    {200: Messages},
    is_payload_view=True,
    query=MessagesQuery,
    problems=(errors.QueueNotFound, errors.GroupNotFound),
    spread=Paged("messages", newest("available_at"), rest=of_scans),
)
async def list_messages(call: Call) -> Answer:
    """List the messages of a queue, newest first."""
    query = call.query(MessagesQuery)
    await call.require_queues(Permission.BROWSE, {query.queue})
    call.audit(queue=query.queue)
    sealer = call.reveal(query.reveal)
    wanted = Where.parse(query.where) if query.where else None
    engine = call.state.engine
    queue = await engine.queues.one(query.queue)
    queue_id: int = queue["id"]
    if query.consumer_group is not None:
        await find_group(call, queue, query.consumer_group)
    if query.status == "scheduled":
        return await _list_scheduled(call, query, queue_id, wanted, sealer)
    start = cursors.place_of(query.cursor, tuple[Int, Int, Int, Int], browse.FROM_THE_TOP)
    page = await browse.browse(
        engine.store,
        sealer,
        Filter(
            queue_id=queue_id,
            partition=query.partition,
            group=query.consumer_group,
            status=query.status,
            since=query.from_,
            until=query.to,
            transaction_id=query.transaction_id,
            contains=query.contains,
            where=wanted,
        ),
        start=browse.Cursor(*start),
        limit=limit_of(call, query.limit),
        max_bytes=call.state.settings.max_pop_bytes,
    )
    partitions = await engine.store.browse.partitions([each.partition_id for each in page.found])
    known = {row["id"]: row for row in partitions}
    return Answer(
        Messages(
            messages=[
                message_info(call, query.queue, known[each.partition_id], each)
                for each in page.found
                if each.partition_id in known
            ],
            next_cursor=cursor_to(*page.next) if page.next else None,
            scanned=page.scanned,
            complete=page.next is None,
        )
    )


async def _list_scheduled(
    call: Call, query: MessagesQuery, queue_id: int, where: Where | None, sealer: Sealer | None
) -> Answer:
    """List scheduled messages, the next one first. ``from`` and ``to`` filter by due time."""
    store = call.state.engine.store
    limit = limit_of(call, query.limit)
    due_at, after = cursors.place_of(query.cursor, cursors.DUE, cursors.FIRST_DUE)
    found: list[MessageInfo] = []
    scanned = 0
    is_more = True
    while is_more and len(found) < limit and not is_enough(scanned, browse.MOST_SEARCHED):
        rows = await reveal_rows(
            sealer, await store.browse.scheduled(queue_id, due_at=due_at, after=after, limit=limit)
        )
        is_more = len(rows) == limit
        for at, row in enumerate(rows):
            due_at, after = row["due_at"], row["id"]
            scanned += 1
            if query.to is not None and due_at >= query.to:
                is_more = False
                break
            if _matches_scheduled(query, row, where):
                found.append(scheduled_info(call, query.queue, row, row["partition"], row["level"]))
                if len(found) == limit:
                    is_more = is_more or at + 1 < len(rows)
                    break
    return Answer(
        Messages(
            messages=found,
            next_cursor=cursor_to(due_at, after) if is_more else None,
            scanned=scanned,
            complete=not is_more,
        )
    )


def _matches_scheduled(query: MessagesQuery, row: Mapping[str, Any], where: Where | None) -> bool:
    if query.partition not in (None, row["partition"]):
        return False
    if query.from_ is not None and row["due_at"] < query.from_:
        return False
    if query.transaction_id not in (None, browse.extra_of(row["extras"]).transaction_id):
        return False
    wanted = Filter(queue_id=0, contains=query.contains, where=where)
    if row["is_masked"] and wanted.is_deep:
        raise browse.masked()
    if row["data_error"] is not None and wanted.is_deep:
        return False
    return wanted.holds(row["payload"], wanted.spellings())


@both(
    "GET",
    "",
    "Show a message",
    Permission.BROWSE,
    {200: MessageDetail},
    is_payload_view=True,
    query=RevealQuery,
    problems=_MISSING,
)
async def show(call: Call) -> Answer:
    """Return a message with its state per group and its traces."""
    query = call.query(RevealQuery)
    target = await find(call, Permission.BROWSE)
    info, states = await read(call, target, call.reveal(query.reveal))
    traces = await call.state.engine.store.traces.of_message(
        target.partition["id"], info.transaction_id, after=0, limit=_MOST_TRACES
    )
    return Answer(
        MessageDetail(
            **msgspec.structs.asdict(info),
            groups=[_group(state) for state in states],
            traces=[trace_event(row) for row in traces],
        )
    )


def _group(state: GroupState) -> MessageGroup:
    assert state.status != "scheduled"
    is_held = state.status == "processing"
    return MessageGroup(
        consumer_group=state.group,
        status=state.status,
        attempts=state.attempts,
        lease_expires_at=state.until if is_held else None,
        next_attempt_at=None if is_held else state.until,
        error=state.error,
        dead_letter_id=None if state.dead_letter_id is None else reference(state.dead_letter_id),
    )


@both(
    "POST",
    "/retry",
    "Retry a message",
    Permission.OPERATE,
    {200: MessageChanged},
    body=RetryRequest,
    problems=(*_MISSING, errors.GroupNotFound, errors.NotRetryable),
)
async def retry(call: Call) -> Answer:
    """Retry a message immediately: a waiting one, or a dead letter."""
    request = await call.body(RetryRequest)
    target = await find(call, Permission.OPERATE)
    if target.offset is None:
        raise errors.NotRetryable("the message is scheduled and was not delivered yet")
    await read(call, target)
    await call.state.engine.dead_letters.retry(
        target.partition["id"], target.offset, request.consumer_group
    )
    return _changed(call, target, consumer_group=request.consumer_group or QUEUE_MODE)


@both(
    "POST",
    "/dlq",
    "Dead-letter a message",
    Permission.OPERATE,
    {200: MessageChanged},
    body=GiveUpRequest,
    problems=(*_MISSING, errors.GroupNotFound, errors.AlreadySettled, errors.NotRetryable),
)
async def give_up(call: Call) -> Answer:
    """Dead-letter a message for one group."""
    request = await call.body(GiveUpRequest)
    target = await find(call, Permission.OPERATE)
    if target.offset is None:
        raise errors.NotRetryable("the message is scheduled. Delete it to cancel it.")
    await read(call, target)
    most = call.state.settings.max_error_bytes
    error = request.error and request.error.encode()[:most].decode(errors="ignore")
    try:
        await call.state.engine.dead_letters.give_up(
            target.partition["id"], target.offset, request.consumer_group, error
        )
    except errors.PartitionNotFound as gone:
        raise missing(call) from gone
    return _changed(call, target, consumer_group=request.consumer_group or QUEUE_MODE)


@both(
    "DELETE", "", "Redact a message", Permission.DESTROY, {200: MessageChanged}, problems=_MISSING
)
async def redact(call: Call) -> Answer:
    """Erase a message's payload and headers, or cancel a scheduled message."""
    target = await find(call, Permission.DESTROY)
    engine = call.state.engine
    if target.offset is None:
        if not await engine.store.browse.withdraw(target.scheduled_id or 0):
            raise missing(call)
        return _changed(call, target, cancelled=True)
    info, _ = await read(call, target)
    await engine.store.results.erase(target.partition["id"], info.transaction_id)
    await engine.redact(target.partition["id"], target.offset, by=call.caller.name)
    return _changed(call, target, redacted=True)


def _changed(
    call: Call,
    target: Target,
    *,
    consumer_group: str | None = None,
    redacted: bool = False,
    cancelled: bool = False,
) -> Answer:
    id_ = None
    if target.offset is not None:
        id_ = message_id(target.partition["id"], target.offset)
    return Answer(
        MessageChanged(
            success=True,
            id=id_,
            transaction_id=call.parameters.get("transactionId", call.parameters["ref"]),
            consumer_group=consumer_group,
            redacted=redacted,
            cancelled=cancelled,
        )
    )
