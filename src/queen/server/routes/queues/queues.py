"""Queues and their partitions: list, show, pause, purge, delete."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from queen import errors
from queen.codec.ids import reference
from queen.engine.engine import Engine
from queen.server.auth.permissions import Permission
from queen.server.databases.merges import as_sorted, by
from queen.server.databases.spread_merges import completed, of_details, of_operations, of_queue
from queen.server.http.answer import Answer
from queen.server.http.call import Call, Paged, Summed, new_routes
from queen.server.http.cursors import (
    LARGEST,
    Int,
    Level,
    cursor_after,
    cursor_to,
    limit_of,
    place_of,
)
from queen.server.routes.operations import begin, check_holds
from queen.server.routes.views import DETAIL, LIST, figures, group_summary, lease_info, of_row
from queen.store.connection.database import Record, is_enough
from queen.wire.options import QueueOptions, RateLimit
from queen.wire.resources import (
    Counted,
    OperationStarted,
    PartitionInfo,
    Partitions,
    PartitionsQuery,
    Paused,
    PurgeRequest,
    QueueDetail,
    Queues,
    QueuesQuery,
    QueueSummary,
    Text,
)

_MOST_SCANNED: Final = 2_000
"""Partitions that are read for one page with a filter."""
_MOST_COUNTED: Final = 250
"""Partitions that a dry run of a purge counts, at 0.1 to 0.2 ms each."""
_ORDERS: Final[dict[str, tuple[str, str | int | None]]] = {
    "name": ("name", ""),
    "-name": ("name_down", None),
    "createdAt": ("age", 0),
    "-createdAt": ("age_down", 2**63 - 1),
}
"""The order of the statement, and the start of the list."""
_SAMPLED: Final = {
    "-pending": "pending",
    "-oldestAgeSeconds": "oldest_age_seconds",
    "-deadLetters": "dead_letters",
}
_SHOWN: Final = (
    "name",
    "namespace",
    "task",
    "version",
    "created_at",
    "paused",
    "ordered",
    "priority",
    "concurrency_limit",
)
_HISTORY_MINUTES: Final = 30

_MISSING: Final = (errors.QueueNotFound,)

ROUTES, route = new_routes()


async def _completed(
    call: Call, entries: Sequence[QueueSummary], engines: Sequence[Engine]
) -> list[QueueSummary]:
    """Add the counts of all databases to spread queues."""
    return await completed(
        call,
        entries,
        engines,
        queue=lambda each: each.name,
        key=lambda each: each.name,
        read=_read_again,
        combine=of_queue,
    )


@route(
    "GET /api/v1/resources/queues",
    "List queues",
    Permission.BROWSE,
    {200: Queues},
    is_shared=True,
    query=QueuesQuery,
    everywhere=Paged("queues", as_sorted(), queue="name", complete=_completed),
)
async def list_queues(call: Call) -> Answer:
    """List queues with their counts."""
    query = call.query(QueuesQuery)
    rows, cursor = await _page(call, query, limit_of(call, query.limit))
    ids = [row["id"] for row in rows]
    return Answer(Queues(queues=await _summaries(call, ids), next_cursor=cursor))


async def _summaries(call: Call, ids: list[int]) -> list[QueueSummary]:
    histories: dict[int, list[int | None]] = {}
    if call.query(QueuesQuery).history:
        histories = await call.state.engine.store.queues.histories(ids, _HISTORY_MINUTES)
    rows = await read_figures(call, ids)
    return [QueueSummary(**summary(row), history=histories.get(row["id"])) for row in rows]


async def _read_again(call: Call, queues: Sequence[QueueSummary]) -> list[QueueSummary]:
    """Read these queues from another database."""
    found = await call.state.engine.catalogue.queues(each.name for each in queues)
    return await _summaries(call, [each.id for each in found.values()])


async def _page(call: Call, query: QueuesQuery, limit: int) -> tuple[list[Record], str | None]:
    """Return a page in the requested order, and the cursor of the next one."""
    queues = call.state.engine.store.queues
    wanted: dict[str, Any] = {
        "namespace": query.namespace,
        "task": query.task,
        "search": query.search,
        "limit": limit,
        "patterns": call.caller.patterns,
    }
    if (figure := _SAMPLED.get(query.sort)) is not None:
        place = place_of(query.cursor, tuple[float, Int], (LARGEST, 0))
        rows = await queues.page_by_sample(figure, place, **wanted)
        return rows, cursor_after(rows, limit, "figure", "id")
    order, start = _ORDERS[query.sort]
    is_by_name = query.sort.endswith("name")
    (after,) = place_of(
        query.cursor,
        tuple[Text | None] if is_by_name else tuple[Int],  # pyright: ignore[reportArgumentType]
        (start,),
    )
    rows = await queues.page(order, after, **wanted)
    return rows, cursor_after(rows, limit, "name" if is_by_name else "id")


async def read_figures(call: Call, ids: list[int], most: int = LIST) -> list[Record]:
    """Read the counts of these queues."""
    window = call.state.settings.recent_message_window_seconds
    return await call.state.engine.store.queues.figures(ids, most, window_seconds=window)


def summary(row: Record) -> dict[str, Any]:
    """Build the API's view of a queue with its counts."""
    return {
        **{name: row[name] for name in _SHOWN},
        **figures(row),
        "rate_limit": RateLimit.of_row(dict(row)),
    }


@route(
    "GET /api/v1/resources/queues/{queue}",
    "Show a queue",
    Permission.BROWSE,
    {200: QueueDetail},
    is_shared=True,
    problems=_MISSING,
    spread=Summed(of_details),
)
async def show(call: Call) -> Answer:
    """Return a queue with its options, version, counts and groups."""
    row = await find_queue(call, Permission.BROWSE)
    store = call.state.engine.store
    (found,) = await read_figures(call, [row["id"]], DETAIL)
    limit = call.state.settings.api_max_limit
    named = await store.groups.page("age", (0,), queue_id=row["id"], limit=limit)
    groups = await store.groups.figures([each["id"] for each in named], DETAIL)
    return Answer(
        QueueDetail(
            **summary(found),
            options=QueueOptions.of_row(dict(row)),
            groups=[group_summary(each) for each in groups],
            most_counted=DETAIL,
        )
    )


@route(
    "GET /api/v1/resources/queues/{queue}/partitions",
    "List partitions",
    Permission.BROWSE,
    {200: Partitions},
    query=PartitionsQuery,
    problems=_MISSING,
    spread=Paged("partitions", by("name")),
)
async def list_partitions(call: Call) -> Answer:
    """List the partitions of a queue by name."""
    query = call.query(PartitionsQuery)
    row = await find_queue(call, Permission.BROWSE)
    limit = limit_of(call, query.limit)
    after = place_of(query.cursor, tuple[Text, Level], ("", -1))
    found: list[PartitionInfo] = []
    scanned = 0
    while True:
        rows = await call.state.engine.store.queues.partitions(
            row["id"], after=after, prefix=query.prefix, limit=limit
        )
        scanned += len(rows)
        is_last = len(rows) < limit
        for each in rows:
            if not each["name"].startswith(query.prefix):
                # If names are sorted by bytes, no later name has the prefix.
                is_last = is_last or each["is_bytewise"]
                after = (each["name"], each["level"])
                continue
            info = _partition(each)
            after = (info.name, info.level)
            if query.state in (None, info.state):
                found.append(info)
                if len(found) == limit:
                    break
        if is_last and len(found) < limit:
            return Answer(Partitions(partitions=found, next_cursor=None))
        if len(found) == limit or is_enough(scanned, _MOST_SCANNED):
            return Answer(Partitions(partitions=found, next_cursor=cursor_to(*after)))


def _partition(row: Record) -> PartitionInfo:
    first, end = row["first_offset"] or 0, row["next_offset"]
    pending = row["pending"] if row["groups"] else end - first
    lease = lease_info(row)
    is_ready = row["is_ready"] or (not row["groups"] and end > first)
    return of_row(
        PartitionInfo,
        row,
        id=reference(row["id"]),
        state="leased" if lease else "ready" if is_ready else "idle",
        first_offset=first,
        pending=pending,
        lease=lease,
    )


@route(
    "POST /api/v1/resources/queues/{queue}/pause",
    "Pause a queue",
    Permission.CONFIGURE,
    {200: Paused},
    problems=_MISSING,
    spread="first",
)
async def pause(call: Call) -> Answer:
    """Pause the deliveries of a queue. Pushes continue."""
    return await _set_paused(call, is_paused=True)


@route(
    "POST /api/v1/resources/queues/{queue}/resume",
    "Resume a queue",
    Permission.CONFIGURE,
    {200: Paused},
    problems=_MISSING,
    spread="first",
)
async def resume(call: Call) -> Answer:
    """Resume the deliveries of a paused queue."""
    return await _set_paused(call, is_paused=False)


async def _set_paused(call: Call, *, is_paused: bool) -> Answer:
    engine = call.state.engine
    for _ in range(5):
        row = await find_queue(call, Permission.CONFIGURE)
        try:
            # With the version, so that a queue that was deleted in between is not created again.
            await engine.queues.configure(
                row["name"], {"paused": is_paused}, version=row["version"]
            )
        except errors.VersionMismatch:
            continue
        await call.state.cluster.publish(row["name"], row["id"])
        return Answer(Paused(paused=is_paused))
    raise errors.Overloaded("the queue's configuration keeps changing. Try again.")


@route(
    "POST /api/v1/resources/queues/{queue}/purge",
    "Purge a queue",
    Permission.DESTROY,
    {200: Counted, 202: OperationStarted},
    body=PurgeRequest,
    problems=(*_MISSING, errors.PartitionNotFound, errors.QueueHeld),
    spread=Summed(of_operations),
)
async def purge(call: Call) -> Answer:
    """Delete the messages of a queue with an operation, or count them with `dryRun`."""
    request = await call.body(PurgeRequest)
    row = await find_queue(call, Permission.DESTROY)
    store, partition = call.state.engine.store, request.partition
    if partition is not None and not await store.browse.partition_ids(row["id"], partition):
        raise errors.PartitionNotFound(f"queue {row['name']} has no partition {partition}")
    before: datetime | None = None
    if request.older_than_seconds is not None:
        now: datetime = (await store.database.fetch("now"))[0]["now"]
        before = now - timedelta(seconds=request.older_than_seconds)
    if request.dry_run:
        count, is_complete = await store.queues.count_purge(
            row["name"],
            partition=partition,
            is_completed=request.scope == "completed",
            before=before,
            most=_MOST_COUNTED,
        )
        return Answer(Counted(count=count, complete=is_complete))
    if not request.force:
        await check_holds(call, row["name"], partition, before)
    arguments = {
        "queue": row["name"],
        "partition": partition,
        "scope": request.scope,
        "before": before and before.isoformat(),
    }
    return await begin(call, "purge", row["name"], arguments)


@route(
    "DELETE /api/v1/resources/queues/{queue}",
    "Delete a queue",
    Permission.DESTROY,
    {202: OperationStarted},
    problems=_MISSING,
    spread="first",
)
async def delete(call: Call) -> Answer:
    """Delete a queue immediately, and its rows in steps. Dead letters stay."""
    queue = call.parameters["queue"]
    await call.require_queues(Permission.DESTROY, {queue})
    await call.state.cluster.check_deletable(queue)
    queue_id = await call.state.engine.queues.delete(queue)
    await call.state.cluster.publish(queue, queue_id)
    return await begin(call, "delete", queue, {})


async def find_queue(call: Call, permission: Permission) -> Record:
    """Return the queue in the path, if the caller has the permission for it."""
    queue = call.parameters["queue"]
    await call.require_queues(permission, {queue})
    return await call.state.engine.queues.one(queue)


async def find_group(call: Call, queue: Record, name: str) -> int:
    """Return the id that the group has in this queue; raises GroupNotFound."""
    group_id = await call.state.engine.store.groups.named(queue["id"], name)
    if group_id is None:
        raise errors.GroupNotFound(f"queue {queue['name']} has no group {name}")
    return group_id
