"""Queues of jobs: metrics, workers, and deletion of old jobs."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from queen import errors
from queen.codec.names import QUEUE_MODE
from queen.engine.metrics.series import MAX_QUEUES, Analytics
from queen.server.auth.permissions import Permission
from queen.server.databases.merges import by, joined
from queen.server.http.answer import Answer
from queen.server.http.call import Call, Paged, new_routes
from queen.server.http.cursors import cursor_after, place_of
from queen.server.operations.kinds import count_letters
from queen.server.routes.operations import begin, check_holds
from queen.server.routes.views import DETAIL, of_row
from queen.store.connection.database import Record
from queen.store.dead_letters import LetterFilter
from queen.wire.job_queues import (
    AllMetrics,
    CleanRequest,
    MetricsQuery,
    Millis,
    QueueMetrics,
    RunningJobs,
    WorkerInfo,
    Workers,
)
from queen.wire.resources import OperationStarted, Text

_PAST: Final = timedelta(hours=1)

ROUTES, route = new_routes()


@route(
    "GET /api/v1/jobs/metrics",
    "Show job metrics by queue",
    Permission.BROWSE,
    {200: AllMetrics},
    tag="job_queues",
    query=MetricsQuery,
    problems=(errors.QueueNotFound,),
    everywhere=Paged("queues", by("queue"), join=joined, queue="queue"),
)
async def metrics(call: Call) -> Answer:
    """Return the current jobs of queues, and counts of the last hour."""
    query = call.query(MetricsQuery)
    engine = call.state.engine
    cursor: str | None = None
    if query.queue is not None:
        await call.require_queues(Permission.BROWSE, {query.queue})
        ids = [(await engine.catalogue.queue(query.queue)).id]
    else:
        limit = min(query.limit or MAX_QUEUES, call.state.settings.api_max_limit)
        (after,) = place_of(query.cursor, tuple[Text], ("",))
        found = await engine.store.queues.unordered(after, limit, call.caller.patterns)
        ids = [row["id"] for row in found]
        cursor = cursor_after(found, limit, "name")
    rows = await engine.store.results.work_figures(ids, QUEUE_MODE, DETAIL)
    analytics = Analytics(engine.store, call.state.settings)
    now: datetime = (await engine.store.database.fetch("now"))[0]["now"]
    totals = await analytics.totals(await analytics.range(now - _PAST, now, None), ids)
    return Answer(
        AllMetrics(
            queues=[_metrics(row, totals.get(row["id"], {})) for row in rows], next_cursor=cursor
        )
    )


def _metrics(row: Record, total: dict[str, Any]) -> QueueMetrics:
    completed: int | None = total.get("acked")
    wait, processing = total.get("wait_millis"), total.get("processing_millis")
    return of_row(
        QueueMetrics,
        row,
        queue=row["name"],
        failed=row["dead"],
        completed=completed,
        retried=total.get("nacked"),
        lost=total.get("leases_expired"),
        throughput=None if completed is None else completed / _PAST.total_seconds(),
        wait_millis=Millis(**wait) if wait else None,
        processing_millis=Millis(**processing) if processing else None,
    )


@route(
    "GET /api/v1/jobs/workers",
    "List job workers",
    Permission.BROWSE,
    {200: Workers},
    tag="job_queues",
)
async def workers(call: Call) -> Answer:
    """List workers that reported to this host recently, with their visible jobs."""
    workers = await call.state.metrics.job_workers()
    seen = await call.visible({queue for each in workers for queue in each.running})
    found = [
        WorkerInfo(
            worker=each.worker,
            heard_at=datetime.fromtimestamp(each.at, UTC),
            queues=[
                RunningJobs(queue=queue, running=running)
                for queue, running in sorted(each.running.items())
                if queue in seen
            ],
        )
        for each in sorted(workers, key=lambda each: each.worker)
    ]
    return Answer(Workers(workers=[each for each in found if each.queues]))


@route(
    "POST /api/v1/jobs/clean",
    "Delete old jobs",
    Permission.DESTROY,
    {202: OperationStarted},
    tag="job_queues",
    body=CleanRequest,
    problems=(errors.QueueNotFound, errors.QueueHeld),
)
async def clean(call: Call) -> Answer:
    """Delete old completed or failed jobs with an operation."""
    request = await call.body(CleanRequest)
    await call.require_queues(Permission.DESTROY, {request.queue})
    call.audit(queue=request.queue)
    call.go_to(await call.state.cluster.of_queue(request.queue))
    engine = call.state.engine
    await engine.queues.one(request.queue)
    now: datetime = (await engine.store.database.fetch("now"))[0]["now"]
    before = now - timedelta(seconds=request.grace_seconds)
    if request.status == "completed":
        if not request.force:
            await check_holds(call, request.queue, None, before)
        kind, total = "purge", None
        arguments = {
            "queue": request.queue,
            "partition": None,
            "scope": "completed",
            "before": before.isoformat(),
        }
    else:
        wanted = LetterFilter(until=before)
        kind = "purge_dead_letters"
        _, total, arguments = await count_letters(engine, request.queue, wanted)
    return await begin(call, kind, request.queue, arguments, total)
