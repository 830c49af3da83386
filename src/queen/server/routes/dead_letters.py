"""Dead letters: list, count by error, redrive, purge."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from queen import errors
from queen.codec.ids import id_of, message_id, reference
from queen.codec.names import check_name, check_queue_name
from queen.engine.encryption.sealer import reveal_rows
from queen.engine.engine import Engine
from queen.engine.inspect.browse import MOST_READ, extra_of
from queen.engine.sources.step_messages import without_token
from queen.server.auth.permissions import Permission
from queen.server.databases.merges import as_sorted, of_totals
from queen.server.databases.spread_merges import of_errors, of_operations
from queen.server.http.answer import Answer
from queen.server.http.call import Call, Paged, Summed, new_routes
from queen.server.http.cursors import Int, cursor_to, limit_of, place_of
from queen.server.operations.kinds import count_letters, redrive_letters
from queen.server.routes.operations import begin
from queen.server.routes.views import of_row
from queen.store.connection.database import Record
from queen.store.dead_letters import LetterFilter
from queen.wire.resources import (
    Counted,
    DeadLetter,
    DeadLetterFilter,
    DeadLetters,
    DeadLettersQuery,
    Destination,
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

ROUTES, route = new_routes()


@route(
    "GET /api/v1/dlq",
    "List dead letters",
    Permission.BROWSE,
    {200: DeadLetters},
    is_payload_view=True,
    query=DeadLettersQuery,
    everywhere=Paged("messages", as_sorted(), rest=of_totals, queue="queue"),
)
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
    sealer = call.reveal(query.reveal)
    limit = limit_of(call, query.limit)
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
            messages=[_shown(call, row) for row in await reveal_rows(sealer, found)],
            next_cursor=cursor,
            total=total,
        )
    )


@route(
    "GET /api/v1/dlq/{id}",
    "Show a dead letter",
    Permission.BROWSE,
    {200: DeadLetter},
    is_payload_view=True,
    query=RevealQuery,
    problems=(errors.NotFound,),
    is_searched=True,
)
async def show(call: Call) -> Answer:
    """Return one dead letter with its payload and error."""
    query = call.query(RevealQuery)
    row = await _find(call, Permission.BROWSE)
    (opened,) = await reveal_rows(call.reveal(query.reveal), [row])
    return Answer(_shown(call, opened))


def _shown(call: Call, row: Mapping[str, Any]) -> DeadLetter:
    extra = extra_of(row["extras"])
    id_ = message_id(row["partition_id"], row["offset"])
    if row["is_revealed"]:
        call.revealed(id_)
    return of_row(
        DeadLetter,
        row,
        id=reference(row["id"]),
        message_id=id_,
        transaction_id=extra.transaction_id or id_,
        partition_id=reference(row["partition_id"]),
        priority=row["level"],
        consumer_group=row["group"],
        data=msgspec.Raw(without_token(row["payload"])),
        masked=row["is_masked"],
        headers=extra.headers or {},
        trace_id=extra.trace_id,
        error_message=row["error"],
    )


@route(
    "GET /api/v1/dlq/errors",
    "Count dead letters by error",
    Permission.BROWSE,
    {200: ErrorKinds},
    query=ErrorsQuery,
    spread=Summed(of_errors),
)
async def list_errors(call: Call) -> Answer:
    """Count the dead letters of a queue by error fingerprint."""
    query = call.query(ErrorsQuery)
    await call.require_queues(Permission.BROWSE, {query.queue})
    rows = await call.state.engine.store.dead_letters.errors(query.queue, MOST_READ)
    scanned: int = rows[0]["looked_at"] if rows else 0
    return Answer(
        ErrorKinds(
            errors=[of_row(ErrorKind, row, count=row["messages"]) for row in rows],
            scanned=scanned,
            complete=scanned < MOST_READ,
        )
    )


@route(
    "POST /api/v1/dlq/redrive",
    "Redrive dead letters",
    Permission.OPERATE,
    {200: Counted, 202: OperationStarted},
    body=RedriveRequest,
    problems=(errors.QueueNotFound, errors.TooManyItems, errors.InvalidName),
)
async def redrive(call: Call) -> Answer:
    """
    Redeliver dead letters, or push them to another queue.

    Up to 500 ids without a rate are redriven at once, otherwise an operation redrives them.
    """
    request = await call.body(RedriveRequest)
    await _go_to(call, request.filter, Permission.OPERATE)
    destination: dict[str, str] | None = None
    if request.destination is not None:
        destination = await _destination(call, request.destination)
    may_reveal = Permission.CONSUME in call.caller.permissions
    options = {
        "rate": request.rate_per_second,
        "destination": destination,
        "may_reveal": may_reveal,
    }
    if request.filter.ids is None:
        return await _by_filter(
            call, Permission.OPERATE, "redrive", request.filter, options, request.dry_run
        )
    found, queue = await _named(call, request.filter, Permission.OPERATE)
    if request.dry_run:
        return Answer(Counted(count=len(found)))
    if len(found) <= _AT_ONCE and request.rate_per_second is None:
        count = 0
        if found:
            count = await redrive_letters(
                call.state.engine, found, destination, may_reveal=may_reveal
            )
        return Answer(Counted(count=count))
    return await begin(call, "redrive", queue, {"ids": found, **options}, len(found))


async def _by_filter(
    call: Call,
    permission: Permission,
    kind: str,
    query: DeadLetterFilter,
    options: dict[str, Any],
    is_dry_run: bool,
) -> Answer:
    """Start an operation on the matching dead letters of a queue, or only count them."""
    queue = query.queue
    if queue is None:
        raise errors.BadRequest("queue is required, to avoid deleting too much")
    await call.require_queues(permission, {queue})
    call.audit(queue=queue)
    count, total, arguments = await count_letters(call.state.engine, queue, _filter(query))
    if is_dry_run:
        return Answer(Counted(count=count, complete=total is not None))
    return await begin(call, kind, queue, {**arguments, **options}, total)


async def _go_to(call: Call, wanted: RedriveFilter, permission: Permission) -> None:
    """Use the database of these dead letters. Raises CrossShard if they are in several."""
    cluster = call.state.cluster
    if cluster.is_alone:
        return
    if wanted.queue is not None:
        call.go_to(await cluster.of_queue(wanted.queue))
    elif ids := [id_ for ref in wanted.ids or () if (id_ := id_of(ref))]:
        engines: list[Engine] = []
        for engine in cluster.engines.values():
            if letters := await engine.store.dead_letters.queues(ids):
                engines.append(engine)
                await call.require_queues(permission, {letter["queue"] for letter in letters})
        if len(engines) > 1:
            raise errors.CrossShard(
                "The dead letters are in several databases. Send one request for each queue."
            )
        call.go_to(engines[0] if engines else cluster.first)


async def _named(
    call: Call, wanted: RedriveFilter, permission: Permission
) -> tuple[list[int], str | None]:
    """Return the ids that exist, and their queue if it is only one."""
    if len(wanted.ids or ()) > call.state.settings.max_items:
        raise errors.TooManyItems(f"a request can have at most {call.state.settings.max_items} ids")
    if wanted != RedriveFilter(ids=wanted.ids):
        raise errors.BadRequest("use either ids or other filters, not both")
    ids = sorted({id_ for ref in wanted.ids or () if (id_ := id_of(ref))})
    letters = await call.state.engine.store.dead_letters.queues(ids)
    queues = {letter["queue"] for letter in letters}
    await call.require_queues(permission, queues)
    if len(letters) < len(ids) and call.caller.scopes is not None:
        raise call.missing(errors.NotFound("some of the dead letters do not exist"))
    queue = queues.pop() if len(queues) == 1 else None
    if queue is not None:
        call.audit(queue=queue)
    return [letter["id"] for letter in letters], queue


async def _destination(call: Call, wanted: Destination) -> dict[str, str]:
    """Return the destination. Its queue must exist, and its partition is created."""
    queue, partition = wanted.queue, wanted.partition
    settings = call.state.settings
    check_queue_name("queue", queue, settings.max_name_bytes)
    check_name("partition", partition, settings.max_partition_bytes)
    await call.require_queues(Permission.PRODUCE, {queue})
    engine = await call.state.cluster.of_partition(queue, partition)
    await engine.queues.one(queue)
    if engine is not call.state.engine:
        raise errors.CrossShard(
            f"queue {queue} is in another database than the dead letters. Redrive them to a queue"
            " of the same namespace."
        )
    return {"queue": queue, "partition": partition}


@route(
    "DELETE /api/v1/dlq/{id}",
    "Delete a dead letter",
    Permission.DESTROY,
    {200: Counted},
    problems=(errors.NotFound,),
    is_searched=True,
)
async def delete(call: Call) -> Answer:
    """Delete one dead letter permanently."""
    row = await _find(call, Permission.DESTROY)
    count = await call.state.engine.store.dead_letters.purge([row["id"]])
    return Answer(Counted(count=count))


@route(
    "DELETE /api/v1/dlq",
    "Delete dead letters",
    Permission.DESTROY,
    {200: Counted, 202: OperationStarted},
    query=PurgeLettersQuery,
    spread=Summed(of_operations),
)
async def purge(call: Call) -> Answer:
    """Delete the matching dead letters with an operation, or count them with `dryRun`."""
    query = call.query(PurgeLettersQuery)
    return await _by_filter(
        call, Permission.DESTROY, "purge_dead_letters", query, {}, query.dry_run
    )


@route(
    "POST /api/v1/dlq/purge",
    "Delete dead letters by id or filter",
    Permission.DESTROY,
    {200: Counted, 202: OperationStarted},
    body=PurgeLettersRequest,
    problems=(errors.TooManyItems,),
)
async def purge_chosen(call: Call) -> Answer:
    """Delete dead letters: up to 500 ids at once, otherwise with an operation."""
    request = await call.body(PurgeLettersRequest)
    await _go_to(call, request.filter, Permission.DESTROY)
    if request.filter.ids is None:
        return await _by_filter(
            call, Permission.DESTROY, "purge_dead_letters", request.filter, {}, request.dry_run
        )
    found, queue = await _named(call, request.filter, Permission.DESTROY)
    if request.dry_run:
        return Answer(Counted(count=len(found)))
    if len(found) <= _AT_ONCE:
        return Answer(Counted(count=await call.state.engine.store.dead_letters.purge(found)))
    return await begin(call, "purge_dead_letters", queue, {"ids": found}, len(found))


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
    id_ = id_of(ref)
    rows = await call.state.engine.store.dead_letters.with_ids([id_]) if id_ else []
    if not rows:
        raise call.missing(errors.NotFound(f"dead letter {ref} does not exist"))
    await call.require_queues(permission, {rows[0]["queue"]})
    call.audit(queue=rows[0]["queue"])
    return rows[0]
