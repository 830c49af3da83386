"""Workflows: start, list, show, signal, cancel, retry, delete."""

from typing import Any, Final

import msgspec

from queen import errors
from queen.server.auth.permissions import Permission
from queen.server.databases.merges import by
from queen.server.http.answer import Answer
from queen.server.http.call import Call, Paged, new_routes, trace_of
from queen.server.http.cursors import Int, cursor_after, limit_of, place_of
from queen.server.http.waiting import seconds_of, wait_for
from queen.server.middleware import tracing
from queen.server.routes.views import of_row
from queen.store.connection.database import Record
from queen.wire.workflow_plan import Plan, check_id, plan_of
from queen.wire.workflows import (
    Cancelled,
    CancelRequest,
    PartInfo,
    Parts,
    PartsQuery,
    Retried,
    Signalled,
    SignalRequest,
    StepInfo,
    WorkflowDeleted,
    WorkflowDetail,
    WorkflowInfo,
    WorkflowQuery,
    WorkflowRequest,
    WorkflowRetryRequest,
    Workflows,
    WorkflowsQuery,
    WorkflowStarted,
)


class _Named(msgspec.Struct):
    """The name of the job in a step's template."""

    name: str


_NAMED: Final = msgspec.json.Decoder(_Named).decode
_LAST: Final = 2**63 - 1
_ENDED: Final = ("completed", "failed", "cancelled")

ROUTES, route = new_routes()


@route(
    "POST /api/v1/workflows",
    "Start a workflow",
    Permission.PRODUCE,
    {200: WorkflowStarted, 201: WorkflowStarted},
    body=WorkflowRequest,
    problems=(
        errors.InvalidWorkflow,
        errors.InvalidName,
        errors.InvalidItem,
        errors.PayloadTooLarge,
        errors.QueueNotFound,
        errors.WorkflowExists,
    ),
)
async def start(call: Call) -> Answer:
    """
    Validate a workflow and send its first steps.

    With an `id`, the request can be repeated. The caller needs `produce` for all its queues.
    """
    request = await call.body(WorkflowRequest)
    plan = plan_of(request)
    await call.require_queues(Permission.PRODUCE, plan.queues)
    if not plan.queues:
        # A workflow without queues has no owner.
        call.caller.require_unscoped()
    engine = await call.state.cluster.of_transaction(queues=plan.queues)
    call.go_to(engine)
    call.state.heartbeat.require_push()
    if request.id is None:
        id_, is_new = await _start(call, request, plan)
    else:
        # Other requests can't use the id between the check and the start.
        async with call.state.cluster.reserved(f"workflow {request.id}", engine):
            for other in call.state.of_engine:
                if other is not engine and await other.store.workflows.one(request.id) is not None:
                    raise errors.CrossShard(
                        "a workflow with this id exists in another database; choose another id"
                    )
            id_, is_new = await _start(call, request, plan)
    started = WorkflowStarted(id=id_, name=plan.name, new=is_new)
    return Answer(started, status=201 if is_new else 200)


async def _start(call: Call, request: WorkflowRequest, plan: Plan) -> tuple[str, bool]:
    parent = tracing.parent_of(call)
    trace_id = parent and trace_of(parent)
    return await call.state.engine.workflows.start(
        request.id,
        plan,
        headers={"traceparent": parent} if parent and trace_id else None,
        trace_id=trace_id,
    )


@route(
    "GET /api/v1/workflows",
    "List workflows",
    Permission.BROWSE,
    {200: Workflows},
    query=WorkflowsQuery,
    everywhere=Paged("workflows", by("created_at", is_down=True)),
)
async def list_workflows(call: Call) -> Answer:
    """List workflows, newest first, without their steps."""
    query = call.query(WorkflowsQuery)
    limit = limit_of(call, query.limit)
    (before,) = place_of(query.cursor, tuple[Int], (_LAST,))
    rows = await call.state.engine.store.workflows.page(
        before=before,
        state=query.state,
        name=query.name,
        correlation_id=query.correlation_id,
        tag=query.tag,
        limit=limit,
        patterns=call.caller.patterns,
    )
    return Answer(
        Workflows(
            workflows=[WorkflowInfo(**_shown(row)) for row in rows],
            next_cursor=cursor_after(rows, limit, "number"),
        )
    )


@route(
    "GET /api/v1/workflows/{workflow}",
    "Show a workflow and its steps",
    Permission.BROWSE,
    {200: WorkflowDetail},
    is_payload_view=True,
    query=WorkflowQuery,
    problems=(errors.WorkflowNotFound, errors.TooManyWaiters),
    is_searched=True,
)
async def show(call: Call) -> Answer:
    """Return one workflow with its steps; with `wait`, after its end or after `timeout`."""
    query = call.query(WorkflowQuery)
    row = await _find(call, Permission.BROWSE)
    engine = call.state.engine
    if query.wait and row["state"] not in _ENDED:
        seconds = seconds_of(call, query.timeout)
        await wait_for(call, engine.workflows.waiters.wait(row["id"], seconds))
        row = await engine.workflows.one(row["id"])
    rows = await engine.store.workflows.steps(row["id"], has_results=query.results)
    steps = [_step(each) for each in rows]
    result = _raw(row["result"] or "null")
    return Answer(
        WorkflowDetail(**_shown(row), trace_id=row["trace_id"], steps=steps, result=result)
    )


@route(
    "GET /api/v1/workflows/{workflow}/steps/{step}",
    "Show a step of a workflow",
    Permission.BROWSE,
    {200: StepInfo},
    is_payload_view=True,
    problems=(errors.WorkflowNotFound,),
    is_searched=True,
)
async def show_step(call: Call) -> Answer:
    """Return one step of a workflow with its state and result."""
    row = await _find(call, Permission.BROWSE)
    name = call.parameters["step"]
    rows = await call.state.engine.store.workflows.steps(row["id"], name=name)
    if not rows:
        raise errors.WorkflowNotFound(f"workflow {row['id']} has no step {name!r}")
    return Answer(_step(rows[0]))


@route(
    "GET /api/v1/workflows/{workflow}/steps/{step}/parts",
    "List the parts of a step",
    Permission.BROWSE,
    {200: Parts},
    is_payload_view=True,
    query=PartsQuery,
    problems=(errors.WorkflowNotFound, errors.NotFound),
    is_searched=True,
)
async def parts(call: Call) -> Answer:
    """List the parts of a map step, one per item of its list."""
    query = call.query(PartsQuery)
    limit = limit_of(call, query.limit)
    row = await _find(call, Permission.BROWSE)
    (after,) = place_of(query.cursor, tuple[Int], (-1,))
    step = call.parameters["step"]
    store = call.state.engine.store.workflows
    rows = await store.parts(
        row["id"], step, after=max(-1, min(after, 2**31 - 1)), state=query.state, limit=limit
    )
    if not rows and step not in {each["name"] for each in await store.steps(row["id"])}:
        raise errors.NotFound(f"workflow {row['id']} has no step {step}")
    found = [of_row(PartInfo, each, result=_result(each)) for each in rows]
    following = cursor_after(rows, limit, "part")
    return Answer(Parts(parts=found, next_cursor=following))


@route(
    "POST /api/v1/workflows/{workflow}/signal",
    "Signal a workflow",
    Permission.PRODUCE,
    {200: Signalled},
    body=SignalRequest,
    problems=(errors.WorkflowNotFound, errors.NotFound, errors.InvalidItem, errors.PayloadTooLarge),
    is_searched=True,
)
async def signal(call: Call) -> Answer:
    """Signal a workflow. Steps that have not started yet remember the signal."""
    request = await call.body(SignalRequest)
    row = await _find(call, Permission.PRODUCE)
    taken = await call.state.engine.workflows.signal(
        row["id"],
        request.signal,
        request.outcome,
        None if request.data is msgspec.UNSET else bytes(request.data),
    )
    return Answer(Signalled(id=row["id"], taken=taken))


@route(
    "POST /api/v1/workflows/{workflow}/cancel",
    "Cancel a workflow",
    Permission.OPERATE,
    {200: Cancelled},
    body=CancelRequest,
    problems=(errors.WorkflowNotFound,),
    is_searched=True,
)
async def cancel(call: Call) -> Answer:
    """Cancel a workflow: start no more steps. With `compensate`, undo completed ones."""
    request = await call.body(CancelRequest)
    row = await _find(call, Permission.OPERATE)
    engine = call.state.engine
    await engine.workflows.cancel(row["id"], request.reason, is_undone=request.compensate)
    now = await engine.workflows.one(row["id"])
    call.audit(before={"id": row["id"], "state": row["state"]}, after={"state": now["state"]})
    return Answer(Cancelled(id=row["id"], state=now["state"], open_steps=now["open_steps"]))


@route(
    "POST /api/v1/workflows/{workflow}/retry",
    "Retry the failed steps of a workflow",
    Permission.OPERATE,
    {200: Retried},
    body=WorkflowRetryRequest,
    problems=(errors.WorkflowNotFound, errors.NotRetryable),
    is_searched=True,
)
async def retry(call: Call) -> Answer:
    """Retry the failed steps and their successors. Completed steps stay completed."""
    request = await call.body(WorkflowRetryRequest)
    row = await _find(call, Permission.OPERATE)
    await call.state.engine.workflows.retry(row["id"], request.from_step)
    state = (await call.state.engine.workflows.one(row["id"]))["state"]
    call.audit(before={"id": row["id"], "state": row["state"]}, after={"state": state})
    return Answer(Retried(id=row["id"], state=state))


@route(
    "DELETE /api/v1/workflows/{workflow}",
    "Delete a workflow that has ended",
    Permission.DESTROY,
    {200: WorkflowDeleted},
    problems=(errors.WorkflowNotFound, errors.WorkflowRunning),
    is_searched=True,
)
async def delete(call: Call) -> Answer:
    """Delete a workflow that has ended, with its steps and results."""
    row = await _find(call, Permission.DESTROY)
    await call.state.engine.workflows.delete(row["id"])
    call.audit(before={"id": row["id"], "name": row["name"], "state": row["state"]})
    return Answer(WorkflowDeleted(success=True, id=row["id"]))


async def _find(call: Call, permission: Permission) -> Record:
    """Find the workflow in the path, if the caller has the permission for all its queues."""
    engine = call.state.engine
    try:
        check_id(call.parameters["workflow"])
        row = await engine.workflows.one(call.parameters["workflow"])
    except (errors.WorkflowNotFound, errors.InvalidWorkflow) as error:
        raise _missing(call) from error
    call.caller.require(permission)
    if call.caller.scopes is not None:
        queues = (await engine.store.workflows.queues([row["id"]])).get(row["id"])
        if not queues:
            raise _missing(call)
        await call.require_queues(permission, queues)
    return row


def _missing(call: Call) -> errors.QueenError:
    missing = errors.WorkflowNotFound(f"workflow {call.parameters['workflow']!r} does not exist")
    return call.missing(missing)


def _shown(row: Record) -> dict[str, Any]:
    shown = {name: row[name] for name in WorkflowInfo.__struct_fields__}
    return shown | {"metadata": _raw(row["metadata"]), "tags": list(row["tags"])}


def _step(row: Record) -> StepInfo:
    template = _NAMED(row["template"]) if row["template"] is not None else None
    is_signal = row["kind"] == "signal"
    return of_row(
        StepInfo,
        row,
        kind="job" if row["kind"] == "message" else row["kind"],
        job=template and template.name,
        key=None if is_signal or row["partition"] == "Default" else row["partition"],
        over=row["items_of"],
        on_success=tuple(row["on_success"]),
        on_failure=tuple(row["on_failure"]),
        join="all" if row["needs_all"] else "any",
        times_out_at=row["look_at"] if row["state"] == "waiting" else None,
        result=_result(row),
    )


def _result(row: Record) -> msgspec.Raw | msgspec.UnsetType:
    return msgspec.UNSET if row["result"] is None else _raw(row["result"])


def _raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode())
