"""Workflows: start, list, show, signal, cancel, retry, delete."""

from typing import Any, Final

import msgspec

from queen import errors
from queen.server.auth.permissions import Permission
from queen.server.http.answer import Answer
from queen.server.http.call import API, Call, Route, trace_of
from queen.server.http.cursors import Int, cursor_to, limit_of, place_of
from queen.server.http.waiting import wait_for
from queen.server.middleware import tracing
from queen.store.connection.database import Record
from queen.wire.workflow_plan import check_id, plan_of
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
    call.state.heartbeat.require_push()
    parent = tracing.parent_of(call)
    trace_id = parent and trace_of(parent)
    id_, is_new = await call.state.engine.workflows.start(
        request.id,
        plan,
        headers={"traceparent": parent} if parent and trace_id else None,
        trace_id=trace_id,
    )
    started = WorkflowStarted(id=id_, name=plan.name, new=is_new)
    return Answer(started, status=201 if is_new else 200)


async def list_workflows(call: Call) -> Answer:
    """List workflows, newest first, without their steps."""
    query = call.query(WorkflowsQuery)
    limit = limit_of(call, query)
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
            next_cursor=cursor_to(rows[-1]["number"]) if len(rows) == limit else None,
        )
    )


async def show(call: Call) -> Answer:
    """Return one workflow with its steps; with `wait`, after its end or after `timeout`."""
    query = call.query(WorkflowQuery)
    row = await _find(call, Permission.BROWSE)
    engine, settings = call.state.engine, call.state.settings
    if query.wait and row["state"] not in _ENDED:
        timeout = settings.default_timeout_ms if query.timeout is None else query.timeout
        seconds = min(timeout, settings.max_timeout_ms) / 1000
        await wait_for(call, engine.workflows.endings.wait(row["id"], seconds))
        row = await engine.workflows.one(row["id"])
    rows = await engine.store.workflows.steps(row["id"], has_results=query.results)
    steps = [StepInfo(**_step(each)) for each in rows]
    result = _raw(row["result"] or "null")
    return Answer(
        WorkflowDetail(**_shown(row), trace_id=row["trace_id"], steps=steps, result=result)
    )


async def show_step(call: Call) -> Answer:
    """Return one step of a workflow."""
    row = await _find(call, Permission.BROWSE)
    name = call.parameters["step"]
    rows = await call.state.engine.store.workflows.steps(row["id"], name=name)
    if not rows:
        raise errors.WorkflowNotFound(f"workflow {row['id']} has no step {name!r}")
    return Answer(StepInfo(**_step(rows[0])))


async def parts(call: Call) -> Answer:
    """List the parts of a map step."""
    query = call.query(PartsQuery)
    limit = limit_of(call, query)
    row = await _find(call, Permission.BROWSE)
    (after,) = place_of(query.cursor, tuple[Int], (-1,))
    step = call.parameters["step"]
    store = call.state.engine.store.workflows
    rows = await store.parts(
        row["id"], step, after=max(-1, min(after, 2**31 - 1)), state=query.state, limit=limit
    )
    if not rows and step not in {each["name"] for each in await store.steps(row["id"])}:
        raise errors.NotFound(f"workflow {row['id']} has no step {step}")
    found = [
        PartInfo(
            part=each["part"],
            state=each["state"],
            job_id=each["job_id"],
            attempts=each["attempts"],
            result=msgspec.UNSET if each["result"] is None else _raw(each["result"]),
            error=each["error"],
            ended_at=each["ended_at"],
        )
        for each in rows
    ]
    following = cursor_to(rows[-1]["part"]) if len(rows) == limit else None
    return Answer(Parts(parts=found, next_cursor=following))


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


async def cancel(call: Call) -> Answer:
    """Cancel a workflow: start no more steps. With ``compensate``, undo completed ones."""
    request = await call.body(CancelRequest)
    row = await _find(call, Permission.OPERATE)
    engine = call.state.engine
    await engine.workflows.cancel(row["id"], request.reason, is_undone=request.compensate)
    now = await engine.workflows.one(row["id"])
    call.audit(before={"id": row["id"], "state": row["state"]}, after={"state": now["state"]})
    return Answer(Cancelled(id=row["id"], state=now["state"], open_steps=now["open_steps"]))


async def retry(call: Call) -> Answer:
    """Retry the failed steps and their successors. Completed steps stay completed."""
    request = await call.body(WorkflowRetryRequest)
    row = await _find(call, Permission.OPERATE)
    await call.state.engine.workflows.retry(row["id"], request.from_step)
    state = (await call.state.engine.workflows.one(row["id"]))["state"]
    call.audit(before={"id": row["id"], "state": row["state"]}, after={"state": state})
    return Answer(Retried(id=row["id"], state=state))


async def delete(call: Call) -> Answer:
    """Delete a workflow that has ended."""
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


def _step(row: Record) -> dict[str, Any]:
    template = _NAMED(row["template"]) if row["template"] is not None else None
    is_signal = row["kind"] == "signal"
    return {
        "name": row["name"],
        "kind": "job" if row["kind"] == "message" else row["kind"],
        "state": row["state"],
        "tries": row["tries"],
        "queue": row["queue"],
        "job": template and template.name,
        "job_id": row["job_id"],
        "key": None if is_signal or row["partition"] == "Default" else row["partition"],
        "signal": row["signal"],
        "over": row["items_of"],
        "undoes": row["undoes"],
        "on_success": tuple(row["on_success"]),
        "on_failure": tuple(row["on_failure"]),
        "join": "all" if row["needs_all"] else "any",
        "attempts": row["attempts"],
        "parts": row["parts"],
        "open_parts": row["open_parts"],
        "failed_parts": row["failed_parts"],
        "started_at": row["started_at"],
        "ended_at": row["ended_at"],
        "times_out_at": row["look_at"] if row["state"] == "waiting" else None,
        "result": msgspec.UNSET if row["result"] is None else _raw(row["result"]),
        "error": row["error"],
    }


def _raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode())


_ONE: Final = f"{API}/workflows/{{workflow}}"

ROUTES: Final = (
    Route(
        method="POST",
        path=f"{API}/workflows",
        handler=start,
        summary="Start a workflow",
        permission=Permission.PRODUCE,
        body=WorkflowRequest,
        answers={200: WorkflowStarted, 201: WorkflowStarted},
        problems=(
            errors.InvalidWorkflow,
            errors.InvalidName,
            errors.InvalidItem,
            errors.PayloadTooLarge,
            errors.QueueNotFound,
            errors.WorkflowExists,
        ),
    ),
    Route(
        method="GET",
        path=f"{API}/workflows",
        handler=list_workflows,
        summary="List workflows",
        permission=Permission.BROWSE,
        query=WorkflowsQuery,
        answers={200: Workflows},
    ),
    Route(
        method="GET",
        path=_ONE,
        handler=show,
        summary="Show a workflow and its steps",
        permission=Permission.BROWSE,
        is_payload_view=True,
        query=WorkflowQuery,
        answers={200: WorkflowDetail},
        problems=(errors.WorkflowNotFound, errors.TooManyWaiters),
    ),
    Route(
        method="GET",
        path=f"{_ONE}/steps/{{step}}",
        handler=show_step,
        summary="Show a step of a workflow",
        permission=Permission.BROWSE,
        is_payload_view=True,
        answers={200: StepInfo},
        problems=(errors.WorkflowNotFound,),
    ),
    Route(
        method="GET",
        path=f"{_ONE}/steps/{{step}}/parts",
        handler=parts,
        summary="List the parts of a step",
        permission=Permission.BROWSE,
        is_payload_view=True,
        query=PartsQuery,
        answers={200: Parts},
        problems=(errors.WorkflowNotFound, errors.NotFound),
    ),
    Route(
        method="POST",
        path=f"{_ONE}/signal",
        handler=signal,
        summary="Signal a workflow",
        permission=Permission.PRODUCE,
        body=SignalRequest,
        answers={200: Signalled},
        problems=(
            errors.WorkflowNotFound,
            errors.NotFound,
            errors.InvalidItem,
            errors.PayloadTooLarge,
        ),
    ),
    Route(
        method="POST",
        path=f"{_ONE}/cancel",
        handler=cancel,
        summary="Cancel a workflow",
        permission=Permission.OPERATE,
        body=CancelRequest,
        answers={200: Cancelled},
        problems=(errors.WorkflowNotFound,),
    ),
    Route(
        method="POST",
        path=f"{_ONE}/retry",
        handler=retry,
        summary="Retry the failed steps of a workflow",
        permission=Permission.OPERATE,
        body=WorkflowRetryRequest,
        answers={200: Retried},
        problems=(errors.WorkflowNotFound, errors.NotRetryable),
    ),
    Route(
        method="DELETE",
        path=_ONE,
        handler=delete,
        summary="Delete a workflow that has ended",
        permission=Permission.DESTROY,
        answers={200: WorkflowDeleted},
        problems=(errors.WorkflowNotFound, errors.WorkflowRunning),
    ),
)
