"""Dead letters: list, count by error, redrive, purge."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from queen import errors
from queen.codec.ids import message_id, partition_of, partition_ref
from queen.codec.names import check_name, check_queue_name
from queen.engine.encryption.sealer import reveal_rows
from queen.engine.inspect.browse import MOST_READ, extra_of
from queen.engine.sources.step_messages import without_token
from queen.server.auth.permissions import Permission
from queen.server.http.answer import Answer
from queen.server.http.call import API, Call, Route
from queen.server.http.cursors import Int, cursor_to, place_of
from queen.server.operations.kinds import count_letters, redrive_letters
from queen.server.routes.operations import started
from queen.store.connection.database import Record
from queen.store.dead_letters import LetterFilter
from queen.wire.resources import (
    Counted,
    DeadLetter,
    DeadLetterFilter,
    DeadLetters,
    DeadLettersQuery,
    ErrorKind,
    ErrorKinds,
    ErrorsQuery,
    OperationStarted,
    PurgeLettersQuery,
    PurgeLettersRequest,
    RedriveFilter,
    RedriveRequest,
    RevealQuery,
)

_MOST_COUNTED: Final = 10_000
"""Above this count, the total of a list is null."""
_AT_ONCE: Final = 500
"""Largest number of listed ids that a redrive or purge handles before it responds."""
_LAST: Final = 2**63 - 1


async def list_dead_letters(call: Call) -> Answer:
    """List dead letters by the time they were dead-lettered, newest first by default."""
    query = call.query(DeadLettersQuery)
    store = call.state.engine.store
    wanted = _filter(query)
    if query.queue is not None:
        await call.require_queues(Permission.BROWSE, {query.queue})
        call.audit(queue=query.queue)
    elif query.reveal:
        raise errors.BadRequest("reveal requires queue, because the audit log records it")
    seals = call.reveal(query.reveal)
    settings = call.state.settings
    limit = min(query.limit or settings.api_default_limit, settings.api_max_limit)
    is_oldest_first = query.sort == "failedAt"
    (after,) = place_of(query.cursor, tuple[Int], (0 if is_oldest_first else _LAST,))
    rows = await store.dead_letters.browse(
        query.queue,
        wanted,
        after=after,
        is_oldest_first=is_oldest_first,
        limit=limit,
        most=MOST_READ,
        patterns=call.caller.patterns,
    )
    head, found = rows[0], [row for row in rows if row["id"] is not None]
    cursor = None
    if len(found) == limit:
        cursor = cursor_to(found[-1]["id"])
    elif head["looked_at"] == MOST_READ:
        cursor = cursor_to(head["last_id"])
    total: int | None = None
    if query.queue is not None:
        counted = await store.dead_letters.count(query.queue, wanted, most=_MOST_COUNTED + 1)
        total = counted["messages"] if counted["looked_at"] <= _MOST_COUNTED else None
    return Answer(
        DeadLetters(
            messages=[_shown(call, row) for row in await reveal_rows(seals, found)],
            next_cursor=cursor,
            total=total,
        )
    )


async def show(call: Call) -> Answer:
    """Return one dead letter."""
    query = call.query(RevealQuery)
    row = await _find(call, Permission.BROWSE)
    (opened,) = await reveal_rows(call.reveal(query.reveal), [row])
    return Answer(_shown(call, opened))


def _shown(call: Call, row: Mapping[str, Any]) -> DeadLetter:
    shard = call.state.engine.store.shard
    extra = extra_of(row["extras"])
    id_ = message_id(shard, row["partition_id"], row["offset"])
    if row["is_revealed"]:
        call.revealed(id_)
    return DeadLetter(
        id=partition_ref(shard, row["id"]),
        message_id=id_,
        transaction_id=extra.transaction_id or id_,
        queue=row["queue"],
        partition=row["partition"],
        partition_id=partition_ref(shard, row["partition_id"]),
        offset=row["offset"],
        priority=row["level"],
        consumer_group=row["group"],
        data=msgspec.Raw(without_token(row["payload"])),
        data_error=row["data_error"],
        masked=row["is_masked"],
        headers=extra.headers or {},
        trace_id=extra.trace_id,
        created_at=row["created_at"],
        error_message=row["error"],
        reason=row["reason"],
        fingerprint=row["fingerprint"],
        attempts=row["attempts"],
        failed_at=row["failed_at"],
    )


async def list_errors(call: Call) -> Answer:
    """Count the dead letters of a queue by error fingerprint."""
    query = call.query(ErrorsQuery)
    await call.require_queues(Permission.BROWSE, {query.queue})
    rows = await call.state.engine.store.dead_letters.errors(query.queue, MOST_READ)
    scanned: int = rows[0]["looked_at"] if rows else 0
    return Answer(
        ErrorKinds(
            errors=[
                ErrorKind(
                    fingerprint=row["fingerprint"],
                    reason=row["reason"],
                    sample=row["sample"],
                    count=row["messages"],
                    first_at=row["first_at"],
                    last_at=row["last_at"],
                )
                for row in rows
            ],
            scanned=scanned,
            complete=scanned < MOST_READ,
        )
    )


async def redrive(call: Call) -> Answer:
    """Redeliver dead letters: a few ids immediately, otherwise in steps."""
    request = await call.body(RedriveRequest)
    destination: dict[str, str] | None = None
    if request.destination is not None:
        destination = await _destination(call, request)
    if request.filter.ids is not None:
        return await _redrive_ids(call, request, destination)
    queue, wanted = _of_queue(request.filter)
    await call.require_queues(Permission.OPERATE, {queue})
    call.audit(queue=queue)
    count, total, arguments = await count_letters(call.state.engine, queue, wanted)
    if request.dry_run:
        return Answer(Counted(count=count, complete=total is not None))
    return await _begin_redrive(call, request, queue, arguments, total, destination)


async def _redrive_ids(
    call: Call, request: RedriveRequest, destination: dict[str, str] | None
) -> Answer:
    found, queue = await _named(call, request.filter, Permission.OPERATE)
    if request.dry_run:
        return Answer(Counted(count=len(found)))
    if len(found) <= _AT_ONCE and request.rate_per_second is None:
        count = 0
        if found:
            count = await redrive_letters(
                call.state.engine, found, destination, may_reveal=_may_reveal(call)
            )
        return Answer(Counted(count=count))
    return await _begin_redrive(call, request, queue, {"ids": found}, len(found), destination)


async def _named(
    call: Call, wanted: RedriveFilter, permission: Permission
) -> tuple[list[int], str | None]:
    """Return the ids that exist, and their queue if it is only one."""
    if len(wanted.ids or ()) > call.state.settings.max_items:
        raise errors.TooManyItems(f"a request can have at most {call.state.settings.max_items} ids")
    if wanted != RedriveFilter(ids=wanted.ids):
        raise errors.BadRequest("use either ids or other filters, not both")
    ids = sorted({id_ for ref in wanted.ids or () if (id_ := partition_of(ref))})
    letters = await call.state.engine.store.dead_letters.queues(ids)
    queues = {letter["queue"] for letter in letters}
    await call.require_queues(permission, queues)
    if len(letters) < len(ids) and call.caller.scopes is not None:
        raise call.missing(errors.NotFound("some of the dead letters do not exist"))
    queue = queues.pop() if len(queues) == 1 else None
    if queue is not None:
        call.audit(queue=queue)
    return [letter["id"] for letter in letters], queue


async def _begin_redrive(
    call: Call,
    request: RedriveRequest,
    queue: str | None,
    arguments: dict[str, Any],
    total: int | None,
    destination: dict[str, str] | None,
) -> Answer:
    return started(
        await call.state.operations.begin(
            "redrive",
            queue=queue,
            arguments={
                **arguments,
                "rate": request.rate_per_second,
                "destination": destination,
                "may_reveal": _may_reveal(call),
            },
            total=total,
            by=call.caller.name,
        )
    )


def _may_reveal(call: Call) -> bool:
    return Permission.CONSUME in call.caller.permissions


async def _destination(call: Call, request: RedriveRequest) -> dict[str, str]:
    """Return the destination. Its queue must exist, and its partition is created."""
    assert request.destination is not None
    queue, partition = request.destination.queue, request.destination.partition
    settings = call.state.settings
    check_queue_name("queue", queue, settings.max_name_bytes)
    check_name("partition", partition, settings.max_partition_bytes)
    await call.require_queues(Permission.PRODUCE, {queue})
    await call.state.engine.queues.one(queue)
    return {"queue": queue, "partition": partition}


async def delete(call: Call) -> Answer:
    """Delete one dead letter."""
    row = await _find(call, Permission.DESTROY)
    count = await call.state.engine.store.dead_letters.purge([row["id"]])
    return Answer(Counted(count=count))


async def purge(call: Call) -> Answer:
    """Delete the matching dead letters of a queue, in steps."""
    query = call.query(PurgeLettersQuery)
    return await _purge(call, query, is_dry_run=query.dry_run)


async def purge_chosen(call: Call) -> Answer:
    """Delete dead letters by id or filter; a few ids immediately."""
    request = await call.body(PurgeLettersRequest)
    if request.filter.ids is None:
        return await _purge(call, request.filter, is_dry_run=request.dry_run)
    found, queue = await _named(call, request.filter, Permission.DESTROY)
    if request.dry_run:
        return Answer(Counted(count=len(found)))
    if len(found) <= _AT_ONCE:
        return Answer(Counted(count=await call.state.engine.store.dead_letters.purge(found)))
    return await _begin_purge(call, queue, {"ids": found}, len(found))


async def _purge(call: Call, query: DeadLetterFilter, *, is_dry_run: bool) -> Answer:
    queue, wanted = _of_queue(query)
    await call.require_queues(Permission.DESTROY, {queue})
    call.audit(queue=queue)
    count, total, arguments = await count_letters(call.state.engine, queue, wanted)
    if is_dry_run:
        return Answer(Counted(count=count, complete=total is not None))
    return await _begin_purge(call, queue, arguments, total)


async def _begin_purge(
    call: Call, queue: str | None, arguments: dict[str, Any], total: int | None
) -> Answer:
    return started(
        await call.state.operations.begin(
            "purge_dead_letters",
            queue=queue,
            arguments=arguments,
            total=total,
            by=call.caller.name,
        )
    )


def _of_queue(query: DeadLetterFilter) -> tuple[str, LetterFilter]:
    if query.queue is None:
        raise errors.BadRequest("queue is required, to avoid deleting too much")
    return query.queue, _filter(query)


def _filter(query: DeadLetterFilter) -> LetterFilter:
    return LetterFilter(
        group=query.consumer_group,
        partition=query.partition,
        fingerprint=query.fingerprint,
        since=query.from_,
        until=query.to,
    )


async def _find(call: Call, permission: Permission) -> Record:
    ref = call.parameters["id"]
    id_ = partition_of(ref)
    rows = await call.state.engine.store.dead_letters.with_ids([id_]) if id_ else []
    if not rows:
        raise call.missing(errors.NotFound(f"dead letter {ref} does not exist"))
    await call.require_queues(permission, {rows[0]["queue"]})
    call.audit(queue=rows[0]["queue"])
    return rows[0]


_LETTERS: Final = f"{API}/dlq"

ROUTES: Final = (
    Route(
        method="GET",
        path=_LETTERS,
        handler=list_dead_letters,
        summary="List dead letters",
        permission=Permission.BROWSE,
        is_payload_view=True,
        query=DeadLettersQuery,
        answers={200: DeadLetters},
    ),
    Route(
        method="GET",
        path=f"{_LETTERS}/errors",
        handler=list_errors,
        summary="Count dead letters by error",
        permission=Permission.BROWSE,
        query=ErrorsQuery,
        answers={200: ErrorKinds},
    ),
    Route(
        method="GET",
        path=f"{_LETTERS}/{{id}}",
        handler=show,
        summary="Show a dead letter",
        permission=Permission.BROWSE,
        is_payload_view=True,
        query=RevealQuery,
        answers={200: DeadLetter},
        problems=(errors.NotFound,),
    ),
    Route(
        method="POST",
        path=f"{_LETTERS}/redrive",
        handler=redrive,
        summary="Redrive dead letters",
        permission=Permission.OPERATE,
        body=RedriveRequest,
        answers={200: Counted, 202: OperationStarted},
        problems=(errors.QueueNotFound, errors.TooManyItems, errors.InvalidName),
    ),
    Route(
        method="POST",
        path=f"{_LETTERS}/purge",
        handler=purge_chosen,
        summary="Delete dead letters by id or filter",
        permission=Permission.DESTROY,
        body=PurgeLettersRequest,
        answers={200: Counted, 202: OperationStarted},
        problems=(errors.TooManyItems,),
    ),
    Route(
        method="DELETE",
        path=f"{_LETTERS}/{{id}}",
        handler=delete,
        summary="Delete a dead letter",
        permission=Permission.DESTROY,
        answers={200: Counted},
        problems=(errors.NotFound,),
    ),
    Route(
        method="DELETE",
        path=_LETTERS,
        handler=purge,
        summary="Delete dead letters",
        permission=Permission.DESTROY,
        query=PurgeLettersQuery,
        answers={200: Counted, 202: OperationStarted},
    ),
)
