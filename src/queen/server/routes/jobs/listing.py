"""List the jobs of a queue."""

from typing import Any, Final

from queen import errors
from queen.codec.ids import message_id
from queen.codec.names import QUEUE_MODE
from queen.engine.caches.catalogue import Queue
from queen.engine.encryption.sealer import Sealer, reveal_rows
from queen.engine.inspect import browse
from queen.engine.inspect.browse import Filter
from queen.engine.inspect.message import Stored, of_found, of_row
from queen.engine.settle.results import Outcome
from queen.server.auth.permissions import Permission
from queen.server.databases.spread_merges import newest, of_scans
from queen.server.http import cursors
from queen.server.http.answer import Answer
from queen.server.http.call import Call, Paged, new_routes
from queen.server.http.cursors import Int, cursor_to, limit_of
from queen.server.routes.jobs.view import STATUS, info, opened
from queen.store.connection.database import is_enough
from queen.store.results import Place
from queen.wire.jobs import JobInfo, Jobs, JobsQuery

_SEARCHED: Final[dict[str, Any]] = {
    "active": "processing",
    "completed": "completed",
    "cancelled": "completed",
    "failed": "dead_letter",
}
"""The message status to search for, by job status."""

ROUTES, route = new_routes()


@route(
    "GET /api/v1/jobs",
    "List jobs",
    Permission.BROWSE,
    {200: Jobs},
    tag="job_lists",
    is_payload_view=True,
    query=JobsQuery,
    problems=(errors.QueueNotFound,),
    spread=Paged("jobs", newest("scheduled_at"), rest=of_scans),
)
async def list_jobs(call: Call) -> Answer:
    """List the jobs of a queue, newest first. Scheduled jobs only on request."""
    query = call.query(JobsQuery)
    await call.require_queues(Permission.BROWSE, {query.queue})
    call.audit(queue=query.queue)
    sealer = call.reveal(query.reveal)
    queue = await call.state.engine.catalogue.queue(query.queue)
    if query.status == "scheduled":
        return await _list_scheduled(call, query, queue, sealer)
    place = cursors.place_of(query.cursor, tuple[Int, Int, Int, Int], browse.FROM_THE_TOP)
    engine, limit = call.state.engine, limit_of(call, query.limit)
    start: browse.Cursor | None = browse.Cursor(*place)
    found: list[JobInfo] = []
    scanned = 0
    while start and len(found) < limit and not is_enough(scanned, browse.MOST_SEARCHED):
        page = await browse.browse(
            engine.store,
            sealer,
            Filter(
                queue_id=queue.id,
                partition=query.key,
                group=QUEUE_MODE,
                status=_SEARCHED.get(query.status or ""),
            ),
            start=start,
            limit=limit - len(found),
            max_bytes=call.state.settings.max_pop_bytes,
            most=browse.MOST_SEARCHED - scanned,
        )
        scanned += page.scanned
        start = page.next
        found += await _infos(call, query, queue, page, sealer)
    return Answer(
        Jobs(
            jobs=found,
            next_cursor=cursor_to(*start) if start else None,
            scanned=scanned,
            complete=start is None,
        )
    )


async def _infos(
    call: Call, query: JobsQuery, queue: Queue, page: browse.Page, sealer: Sealer | None
) -> list[JobInfo]:
    if not page.found:
        return []
    engine = call.state.engine
    ids = [
        each.extra.transaction_id or message_id(each.partition_id, each.offset)
        for each in page.found
    ]
    places = [Place(each.partition_id, each.offset) for each in page.found]
    outcomes = await engine.results.look(
        [(queue.id, id_, place) for id_, place in zip(ids, places, strict=True)]
    )
    partitions = await engine.store.browse.partitions([each.partition_id for each in page.found])
    known = {row["id"]: row for row in partitions}
    infos: list[JobInfo] = []
    for id_, each, outcome in zip(ids, page.found, outcomes, strict=True):
        partition = known.get(each.partition_id)
        if outcome is not None and partition is not None:
            message = of_found(partition["name"], partition["level"], each)
            if _matches(query, outcome, message):
                infos.append(await info(call, queue.name, id_, outcome, message, sealer))
    return infos


async def _list_scheduled(
    call: Call, query: JobsQuery, queue: Queue, sealer: Sealer | None
) -> Answer:
    """List scheduled jobs, the next one first."""
    engine, limit = call.state.engine, limit_of(call, query.limit)
    due_at, after = cursors.place_of(query.cursor, cursors.DUE, cursors.FIRST_DUE)
    found: list[JobInfo] = []
    scanned = 0
    is_more = True
    while is_more and len(found) < limit and not is_enough(scanned, browse.MOST_SEARCHED):
        rows = await engine.store.browse.scheduled(
            queue.id, due_at=due_at, after=after, limit=limit - len(found)
        )
        is_more = len(rows) == limit - len(found)
        scanned += len(rows)
        for row in await reveal_rows(sealer, rows):
            due_at, after = row["due_at"], row["id"]
            outcome = Outcome("scheduled", Place(row["partition_id"], None, row["id"]))
            message = of_row(row["partition"], row["level"], row, due_at=due_at)
            if query.key in (None, row["partition"]) and _matches(query, outcome, message):
                id_ = message.extra.transaction_id or ""
                found.append(await info(call, queue.name, id_, outcome, message, sealer))
    return Answer(
        Jobs(
            jobs=found,
            next_cursor=cursor_to(due_at, after) if is_more else None,
            scanned=scanned,
            complete=not is_more,
        )
    )


def _matches(query: JobsQuery, outcome: Outcome, message: Stored) -> bool:
    if query.status not in (None, STATUS[outcome.status]):
        return False
    if query.name is None and query.tag is None:
        return True
    if message.is_masked:
        raise browse.masked()
    envelope = opened(message.payload)
    tags: object = (envelope.metadata or {}).get("tags")
    return query.name in (None, envelope.name) and (
        query.tag is None or (isinstance(tags, list) and query.tag in tags)
    )
