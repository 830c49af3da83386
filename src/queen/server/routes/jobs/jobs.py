"""Jobs, which are messages of unordered queues: add, show, cancel, retry, report, renew."""

from collections.abc import Sequence
from typing import Final
from uuid import uuid4

import msgspec

from queen import errors
from queen.codec.ids import place_of
from queen.engine.caches.catalogue import Queue
from queen.engine.inspect import message as stored
from queen.engine.push.producers import Producer, digest_of
from queen.server.auth.permissions import Permission
from queen.server.http.answer import Answer
from queen.server.http.call import Call, new_routes
from queen.server.http.waiting import seconds_of, wait_for
from queen.server.routes.jobs.view import STATUS, info, opened
from queen.server.routes.messaging.push import REFUSED_ITEM, with_trace
from queen.wire.job_queues import RenewRequest, RenewResponse
from queen.wire.jobs import (
    LEVELS,
    NORMAL,
    QUEUE,
    AddJob,
    AddJobs,
    Envelope,
    JobAdded,
    JobChanged,
    JobInfo,
    JobQuery,
    JobRequest,
    JobsAdded,
    ProgressRequest,
)
from queen.wire.messages import PushItem

_NULL: Final = msgspec.Raw(b"null")
_ENCODE: Final = msgspec.json.Encoder().encode

_MISSING: Final = (errors.QueueNotFound, errors.MessageNotFound)

ROUTES, route = new_routes()


@route(
    "POST /api/v1/jobs",
    "Add a job",
    Permission.PRODUCE,
    {201: JobAdded, 202: JobAdded},
    body=AddJob,
    problems=REFUSED_ITEM,
)
async def add(call: Call) -> Answer:
    """Add a job to an unordered queue. By default, the first job creates the queue."""
    request = await call.body(AddJob)
    (added,), status, _ = await _add(call, [request])
    if added.status == "failed":
        raise (errors.of_code(added.code or "") or errors.InvalidItem)(added.error)
    return Answer(added, status=status)


@route(
    "POST /api/v1/jobs/bulk",
    "Add several jobs",
    Permission.PRODUCE,
    {201: JobsAdded, 202: JobsAdded},
    body=AddJobs,
    problems=REFUSED_ITEM,
)
async def add_bulk(call: Call) -> Answer:
    """Add several jobs. If some are rejected, the others are added."""
    request = await call.body(AddJobs)
    if not request.jobs:
        raise errors.BadRequest("the request has no jobs")
    added, status, is_replayed = await _add(
        call, request.jobs, producer_id=request.producer_id, sequence=request.sequence
    )
    return Answer(JobsAdded(jobs=added, replayed=is_replayed), status=status)


async def _add(
    call: Call,
    jobs: Sequence[AddJob],
    *,
    producer_id: str | None = None,
    sequence: int | None = None,
) -> tuple[list[JobAdded], int, bool]:
    names = {job.queue for job in jobs}
    await call.require_queues(Permission.PRODUCE, names)
    await _require_unordered(call, names)
    scope = call.caller.producer_scope
    # So that each attempt uses the same ids.
    producer = Producer(producer_id, sequence or 0, scope) if producer_id is not None else None
    given = [_item(job, producer.mint(at) if producer else None) for at, job in enumerate(jobs)]
    items = with_trace(call, given)
    result = await call.state.cluster.push(
        items,
        producer_id=producer_id,
        sequence=sequence,
        scope=scope,
        digest=None if producer is None else digest_of(given),
    )
    added = [
        JobAdded(
            id=pushed.transaction_id,
            queue=item.queue,
            status=pushed.status,
            code=pushed.code,
            error=pushed.error,
        )
        for item, pushed in zip(items, result, strict=True)
    ]
    return added, 202 if result.is_buffered else 201, result.is_replayed


async def _require_unordered(call: Call, names: set[str]) -> None:
    """Create missing queues for jobs. Raises InvalidItem for an ordered queue."""
    cluster = call.state.cluster
    known = await cluster.queues(names)
    for name in names:
        if name not in known and call.state.settings.auto_create:
            engine = await cluster.of_new_queue(name)
            await engine.queues.configure(name, QUEUE.columns())
        elif name in known and known[name].is_ordered:
            raise errors.InvalidItem(
                f"queue {name} is ordered. Configure it with ordered false to use it for jobs."
            )


def _item(job: AddJob, minted: str | None) -> PushItem:
    is_held_back = job.delay_seconds is not None or job.scheduled_at is not None
    return PushItem(
        queue=job.queue,
        partition=job.key or "Default",
        payload=_ENCODE(_envelope(job)),
        # A scheduled job is found by this. Later it also has an id.
        transaction_id=job.unique or ((minted or str(uuid4())) if is_held_back else None),
        delay_seconds=job.delay_seconds,
        available_at=job.scheduled_at,
        ttl_seconds=job.ttl_seconds,
        priority=LEVELS[job.priority or NORMAL],
    )


def _envelope(job: AddJob) -> Envelope:
    return Envelope(
        name=job.name,
        data=_NULL if job.data is msgspec.UNSET else job.data,
        attempts=job.attempts,
        backoff=job.backoff,
        timeout_seconds=job.timeout_seconds,
        result_seconds=job.result_seconds,
        chain=job.chain,
        metadata=job.metadata,
    )


@route(
    "GET /api/v1/jobs/{queue}/{id}",
    "Show a job, or wait for its end",
    Permission.BROWSE,
    {200: JobInfo},
    is_payload_view=True,
    query=JobQuery,
    problems=(*_MISSING, errors.TooManyWaiters),
    spread="search",
)
async def show(call: Call) -> Answer:
    """Return a job; with `wait`, as soon as it has ended."""
    query = call.query(JobQuery)
    queue, name = await _find(call, Permission.BROWSE)
    sealer = call.reveal(query.reveal)
    waiters = call.state.engine.message_waiters
    seconds = seconds_of(call, query.timeout) if query.wait else 0.0
    outcome = await wait_for(call, waiters.wait(queue, name, partition=query.key, seconds=seconds))
    message = None
    if outcome.place is not None:
        engine = call.state.engine
        message = await stored.read(engine.store, sealer, outcome.place)
    return Answer(await info(call, queue.name, name, outcome, message, sealer))


@route(
    "POST /api/v1/jobs/{queue}/{id}/cancel",
    "Cancel a job",
    Permission.OPERATE,
    {200: JobChanged},
    body=JobRequest,
    problems=(*_MISSING, errors.AlreadySettled),
    spread="search",
)
async def cancel(call: Call) -> Answer:
    """Cancel a job. If it is running, its worker stops it after its next renewal."""
    request = await call.body(JobRequest)
    queue, name = await _find(call, Permission.OPERATE)
    engine = call.state.engine
    found = await engine.results.find(queue, name, partition=request.key)
    place = found.place  # Read first, because cancelling deletes a scheduled job.
    message = place and await stored.read(engine.store, engine.sealer, place)
    step = opened(message.payload if message else None).workflow
    if step is not None and call.caller.scopes is not None:
        # The producer wrote this, and it may name a step of another tenant.
        queues = await engine.store.workflows.step_queues([(step.id, step.step)])
        await call.require_queues(Permission.OPERATE, queues)
    await call.state.cluster.ensure_group(engine, queue.name)
    was = await engine.results.cancel(queue, name, partition=request.key, seconds=None)
    if step is not None:
        # If the process ends before this call, a background task detects the missing message.
        await engine.workflows.fail_step(step.id, step.step, step.part, step.token)
    return Answer(JobChanged(success=True, id=name, queue=queue.name, was=STATUS[was]))


@route(
    "POST /api/v1/jobs/{queue}/{id}/retry",
    "Retry a job",
    Permission.OPERATE,
    {200: JobChanged},
    body=JobRequest,
    problems=(*_MISSING, errors.NotRetryable),
    spread="search",
)
async def retry(call: Call) -> Answer:
    """Retry a failed job, or start the next attempt of a waiting job immediately."""
    request = await call.body(JobRequest)
    queue, name = await _find(call, Permission.OPERATE)
    engine = call.state.engine
    outcome = await engine.results.find(queue, name, partition=request.key)
    place = outcome.place
    if place is None or place.offset is None or outcome.status not in ("failed", "dead_letter"):
        raise errors.NotRetryable(f"job {name} is {STATUS[outcome.status]}")
    await engine.dead_letters.retry(place.partition_id, place.offset, None)
    return Answer(JobChanged(success=True, id=name, queue=queue.name, was=STATUS[outcome.status]))


@route(
    "POST /api/v1/jobs/{queue}/{id}/progress",
    "Record the progress of a job",
    Permission.CONSUME,
    {200: JobChanged},
    body=ProgressRequest,
    problems=(*_MISSING, errors.LeaseLost, errors.PayloadTooLarge),
    spread="search",
)
async def progress(call: Call) -> Answer:
    """Record the progress of a job. Only the holder of its lease may do this."""
    request = await call.body(ProgressRequest)
    queue, name = await _find(call, Permission.CONSUME)
    await call.state.engine.results.report_progress(
        queue,
        name,
        request.lease_id,
        bytes(request.progress),
        partition=request.key,
        seconds=request.result_seconds,
    )
    return Answer(JobChanged(success=True, id=name, queue=queue.name))


@route(
    "POST /api/v1/jobs/renew",
    "Renew a worker's leases",
    Permission.CONSUME,
    {200: RenewResponse},
    body=RenewRequest,
    problems=(errors.TooManyItems,),
)
async def renew(call: Call) -> Answer:
    """Renew all leases of a worker, and return its cancelled jobs, in one call."""
    request = await call.body(RenewRequest)
    if len(request.jobs) > (most := call.state.settings.max_items):
        raise errors.TooManyItems(f"a request can have at most {most} jobs")
    places = [place_of(each.message_id) for each in request.jobs]
    await call.require_leases(request.lease_ids)
    await call.require_partitions(
        Permission.CONSUME, {each.partition_id for each in places if each is not None}
    )
    if (report := request.report) is not None:
        queues = {*report.queues, *(each.queue for each in report.jobs)}
        await call.require_queues(Permission.CONSUME, queues)
        call.state.metrics.process.jobs.add_report(report)
    cluster = call.state.cluster
    results = (
        await cluster.extend_many(request.lease_ids, seconds=request.seconds)
        if request.lease_ids
        else []
    )
    cancelled = await cluster.cancelled([(each.id, each.message_id) for each in request.jobs])
    return Answer(RenewResponse(results=results, cancelled=cancelled))


async def _find(call: Call, permission: Permission) -> tuple[Queue, str]:
    queue, name = call.parameters["queue"], call.parameters["id"]
    await call.require_queues(permission, {queue})
    call.audit(queue=queue)
    return await call.state.engine.catalogue.queue(queue), name
