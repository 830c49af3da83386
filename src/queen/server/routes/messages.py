"""Messages one by one: browse, show, retry, give up, redact. Reading never takes a delivery."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec

from queen import errors
from queen.codec.ids import Place, message_id, partition_of, partition_ref, place_of
from queen.engine.encryption.sealer import Seals, reveal_rows
from queen.engine.inspect import browse
from queen.engine.inspect.browse import Filter, Found
from queen.engine.inspect.group_status import GroupState, overall, pairs_of
from queen.engine.inspect.payload_filter import Where
from queen.engine.pop.waiters import QUEUE_MODE
from queen.engine.sources.step_messages import without_token
from queen.server.auth.permissions import Permission
from queen.server.http import cursors
from queen.server.http.answer import Answer
from queen.server.http.call import API, Call, Route
from queen.server.http.cursors import Int, cursor_to, limit_of
from queen.server.routes.views import trace_event
from queen.store.connection.database import Record, is_enough
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

_NULL: Final = msgspec.Raw(b"null")
_EARLIEST: Final = datetime(1, 1, 1, tzinfo=UTC)
_MOST_TRACES: Final = 1_000
_MOST_PARTITIONS: Final = 2_000
"""Partitions that are searched for a transactionId on its own: a tenth of a second."""


class Target(NamedTuple):
    """What a reference names: a place in a partition, or a message that is not due yet."""

    partition: Record
    offset: int | None
    scheduled_id: int | None


async def list_messages(call: Call) -> Answer:
    """Messages of a queue, newest first."""
    query = call.query(MessagesQuery)
    await call.require_queues(Permission.BROWSE, {query.queue})
    call.audit(queue=query.queue)
    seals = call.reveal(query.reveal)
    wanted = Where.parse(query.where) if query.where else None
    engine = call.state.engine
    queue_id: int = (await engine.queue_row(query.queue))["id"]
    if query.consumer_group is not None and not await engine.store.groups.named(
        queue_id, query.consumer_group
    ):
        raise errors.GroupNotFound(f"queue {query.queue} has no group {query.consumer_group}")
    if query.status == "scheduled":
        return await _list_scheduled(call, query, queue_id, wanted, seals)
    start = cursors.place_of(query.cursor, tuple[Int, Int, Int, Int], browse.FROM_THE_TOP)
    page = await browse.browse(
        engine.store,
        seals,
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
        limit=limit_of(call, query),
        max_bytes=call.state.settings.max_pop_bytes,
    )
    partitions = await engine.store.browse.partitions([each.partition_id for each in page.found])
    known = {row["id"]: row for row in partitions}
    return Answer(
        Messages(
            messages=[
                _info(call, query.queue, known[each.partition_id], each)
                for each in page.found
                if each.partition_id in known
            ],
            next_cursor=cursor_to(*page.next) if page.next else None,
            scanned=page.scanned,
            complete=page.next is None,
        )
    )


async def _list_scheduled(
    call: Call, query: MessagesQuery, queue_id: int, where: Where | None, seals: Seals | None
) -> Answer:
    """Messages that are not due yet, the next first. ``from`` and ``to`` say when they are due."""
    store = call.state.engine.store
    limit = limit_of(call, query)
    due_at, after = cursors.place_of(query.cursor, tuple[datetime, Int], (_EARLIEST, 0))
    found: list[MessageInfo] = []
    scanned = 0
    is_more = True
    while is_more and len(found) < limit and not is_enough(scanned, browse.MOST_SEARCHED):
        rows = await reveal_rows(
            seals, await store.browse.scheduled(queue_id, due_at=due_at, after=after, limit=limit)
        )
        is_more = len(rows) == limit
        for at, row in enumerate(rows):
            due_at, after = row["due_at"], row["id"]
            scanned += 1
            if query.to is not None and due_at >= query.to:
                is_more = False
                break
            if _matches_scheduled(query, row, where):
                found.append(
                    _scheduled_info(call, query.queue, row, row["partition"], row["level"])
                )
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


def _info(call: Call, queue: str, partition: Record, found: Found) -> MessageInfo:
    shard = call.state.engine.store.shard
    id_ = message_id(shard, found.partition_id, found.offset)
    if found.is_revealed:
        call.revealed(id_)
    return MessageInfo(
        id=id_,
        transaction_id=found.extra.transaction_id or id_,
        queue=queue,
        partition=partition["name"],
        partition_id=partition_ref(shard, found.partition_id),
        offset=found.offset,
        priority=partition["priority"],
        data=_NULL if found.is_redacted else msgspec.Raw(without_token(found.payload)),
        masked=found.is_masked,
        headers=found.extra.headers or {},
        trace_id=found.extra.trace_id,
        created_at=found.created_at,
        expires_at=found.expires_at,
        status=found.status,
        redacted=found.is_redacted,
    )


def _scheduled_info(
    call: Call, queue: str, row: Mapping[str, Any], partition: str, level: int
) -> MessageInfo:
    extra = browse.extra_of(row["extras"])
    ttl: float | None = row["ttl_seconds"]
    if row["is_revealed"]:
        call.revealed(extra.transaction_id or "")
    return MessageInfo(
        id=None,
        transaction_id=extra.transaction_id or "",
        queue=queue,
        partition=partition,
        partition_id=partition_ref(call.state.engine.store.shard, row["partition_id"]),
        offset=None,
        priority=level,
        data=msgspec.Raw(without_token(row["payload"])),
        data_error=row["data_error"],
        masked=row["is_masked"],
        headers=extra.headers or {},
        trace_id=extra.trace_id,
        created_at=None,
        available_at=row["due_at"],
        # Its time begins when it is due.
        expires_at=None if ttl is None else row["due_at"] + timedelta(seconds=ttl),
        status="scheduled",
    )


async def show(call: Call) -> Answer:
    """A message, its state per group, its traces."""
    query = call.query(RevealQuery)
    target = await _find(call, Permission.BROWSE)
    info, states = await _look(call, target, call.reveal(query.reveal))
    traces = await call.state.engine.store.traces.of_message(
        target.partition["id"], info.transaction_id, after=0, limit=_MOST_TRACES
    )
    shard = call.state.engine.store.shard
    return Answer(
        MessageDetail(
            **msgspec.structs.asdict(info),
            groups=[_group(shard, state) for state in states],
            traces=[trace_event(shard, row) for row in traces],
        )
    )


async def _look(
    call: Call, target: Target, seals: Seals | None = None
) -> tuple[MessageInfo, list[GroupState]]:
    """The message itself: from its segment, from the copy of a dead letter, or not due yet."""
    store = call.state.engine.store
    partition, offset = target.partition, target.offset
    queue: str = partition["queue"]
    if offset is None:
        row = await store.browse.scheduled_one(target.scheduled_id or 0)
        if row is None:
            raise _missing(call)
        (opened,) = await reveal_rows(seals, [row])
        return _scheduled_info(call, queue, opened, partition["name"], partition["level"]), []
    places = [(partition["id"], offset, offset + 1)]
    pairs = (await pairs_of(store, places, None)).get(partition["id"], [])
    states = [pair.state(offset) for pair in pairs]
    head = await store.browse.segment_at(partition["id"], offset)
    if head is not None:
        status = "completed" if head["is_redacted"] else overall(states)
        body = await browse.ReadAhead(store, seals).of(head, ())
        found = body and browse.found_at(head, offset, body, status)
        if found:
            return _info(call, queue, partition, found), states
    letters = await store.browse.dead_offsets([partition["id"]], [offset], [offset + 1])
    copies = await store.dead_letters.with_ids([each["id"] for each in letters[:1]])
    for letter in await reveal_rows(seals, copies):
        copy = Found(
            partition_id=partition["id"],
            offset=offset,
            created_at=letter["created_at"],
            expires_at=None,
            is_redacted=False,
            payload=letter["payload"],
            extra=browse.extra_of(letter["extras"]),
            status=overall(states),
            is_masked=letter["is_masked"],
            is_revealed=letter["is_revealed"],
        )
        info = _info(call, queue, partition, copy)
        return msgspec.structs.replace(info, data_error=letter["data_error"]), states
    raise _missing(call)


def _group(shard: int, state: GroupState) -> MessageGroup:
    assert state.status != "scheduled"
    is_held = state.status == "processing"
    return MessageGroup(
        consumer_group=state.group,
        status=state.status,
        attempts=state.attempts,
        lease_expires_at=state.until if is_held else None,
        next_attempt_at=None if is_held else state.until,
        error=state.error,
        dead_letter_id=None
        if state.dead_letter_id is None
        else partition_ref(shard, state.dead_letter_id),
    )


async def retry(call: Call) -> Answer:
    """Try a message again at once: one that waits, or a dead letter."""
    request = await call.body(RetryRequest)
    target = await _find(call, Permission.OPERATE)
    if target.offset is None:
        raise errors.NotRetryable("the message is scheduled and has not been tried yet")
    await _look(call, target)
    await call.state.engine.retry(target.partition["id"], target.offset, request.consumer_group)
    return _changed(call, target, consumer_group=request.consumer_group or QUEUE_MODE)


async def give_up(call: Call) -> Answer:
    """Make a message a dead letter of one group."""
    request = await call.body(GiveUpRequest)
    target = await _find(call, Permission.OPERATE)
    if target.offset is None:
        raise errors.NotRetryable("the message is scheduled; delete it to cancel it")
    await _look(call, target)
    most = call.state.settings.max_error_bytes
    error = request.error and request.error.encode()[:most].decode(errors="ignore")
    try:
        await call.state.engine.give_up(
            target.partition["id"], target.offset, request.consumer_group, error
        )
    except errors.PartitionNotFound as gone:
        raise _missing(call) from gone
    return _changed(call, target, consumer_group=request.consumer_group or QUEUE_MODE)


async def redact(call: Call) -> Answer:
    """Erase a message's payload and headers, or cancel one that is not due yet."""
    target = await _find(call, Permission.DESTROY)
    engine = call.state.engine
    if target.offset is None:
        if not await engine.store.browse.cancel_scheduled(target.scheduled_id or 0):
            raise _missing(call)
        return _changed(call, target, cancelled=True)
    info, _ = await _look(call, target)
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
        id_ = message_id(call.state.engine.store.shard, target.partition["id"], target.offset)
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


async def _find(call: Call, permission: Permission) -> Target:
    """The message of the path: by id, by partition and transactionId, or by transactionId."""
    ref, name = call.parameters["ref"], call.parameters.get("transactionId")
    store = call.state.engine.store
    place = place_of(ref if name is None else name)
    if name is None and place is None:
        place = await _named(call, permission, ref)
    partition_id = partition_of(ref) if name is not None else place and place.partition_id
    partition = await store.browse.partition(partition_id) if partition_id else None
    if partition is None:
        raise call.missing(_missing(call))
    await call.require_queues(permission, {partition["queue"]})
    call.audit(queue=partition["queue"])
    if name is None or (place is not None and place.partition_id == partition_id):
        assert place is not None
        return Target(partition, place.offset, None)
    found = await store.browse.find(partition["id"], name, browse.MOST_READ)
    if found is None:
        raise _missing(call)
    return Target(partition, found["offset"], found["scheduled_id"])


async def _named(call: Call, permission: Permission, transaction_id: str) -> Place | None:
    """The only message with a transactionId that the caller may see; None without one."""
    call.caller.require(permission)
    engine = call.state.engine
    rows = await engine.store.browse.named(transaction_id, _MOST_PARTITIONS, call.caller.patterns)
    if len(rows) > 1:
        raise errors.AmbiguousMessage(
            f"Several messages have the transactionId {transaction_id!r}. Name the partition:"
            " /messages/{partitionId}/{transactionId}."
        )
    shard = engine.store.shard
    return Place(shard, rows[0]["partition_id"], rows[0]["offset"]) if rows else None


def _missing(call: Call) -> errors.MessageNotFound:
    return errors.MessageNotFound(f"there is no message {'/'.join(call.parameters.values())}")


_BY_ID: Final = f"{API}/messages/{{ref}}"
_BY_NAME: Final = f"{_BY_ID}/{{transactionId}}"
_MISSING: Final = (errors.MessageNotFound, errors.AmbiguousMessage)


def _both(method: str, suffix: str, **fields: Any) -> tuple[Route, Route]:  # noqa: ANN401 - of Route
    """The same under either way of naming a message."""
    return (
        Route(method=method, path=f"{_BY_ID}{suffix}", **fields),
        Route(method=method, path=f"{_BY_NAME}{suffix}", **fields),
    )


ROUTES: Final = (
    Route(
        method="GET",
        path=f"{API}/messages",
        handler=list_messages,
        summary="Browse messages",
        permission=Permission.BROWSE,
        is_payload_view=True,
        query=MessagesQuery,
        answers={200: Messages},
        problems=(errors.QueueNotFound, errors.GroupNotFound),
    ),
    *_both(
        "GET",
        "",
        handler=show,
        summary="Show a message",
        permission=Permission.BROWSE,
        is_payload_view=True,
        query=RevealQuery,
        answers={200: MessageDetail},
        problems=_MISSING,
    ),
    *_both(
        "POST",
        "/retry",
        handler=retry,
        summary="Try a message again",
        permission=Permission.OPERATE,
        body=RetryRequest,
        answers={200: MessageChanged},
        problems=(*_MISSING, errors.GroupNotFound, errors.NotRetryable),
    ),
    *_both(
        "POST",
        "/dlq",
        handler=give_up,
        summary="Make a message a dead letter",
        permission=Permission.OPERATE,
        body=GiveUpRequest,
        answers={200: MessageChanged},
        problems=(*_MISSING, errors.GroupNotFound, errors.AlreadySettled, errors.NotRetryable),
    ),
    *_both(
        "DELETE",
        "",
        handler=redact,
        summary="Redact a message",
        permission=Permission.DESTROY,
        answers={200: MessageChanged},
        problems=_MISSING,
    ),
)
