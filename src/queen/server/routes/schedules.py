"""Recurring messages: list, show, create, pause, run, delete."""

from typing import Any, Final

import msgspec

from queen import errors
from queen.codec.encryption.keys import is_sealed
from queen.engine.sources.schedules import Recurring
from queen.server.auth.permissions import Permission
from queen.server.databases.merges import by
from queen.server.http.answer import Answer
from queen.server.http.call import Call, Paged, new_routes
from queen.server.http.cursors import cursor_after, limit_of, place_of
from queen.store.connection.database import Record
from queen.wire.messages import Pushed
from queen.wire.resources import (
    RevealQuery,
    Schedule,
    ScheduleDeleted,
    ScheduleDetail,
    ScheduleRequest,
    Schedules,
    SchedulesQuery,
    Text,
)

_MASKED: Final[dict[str, Any]] = {
    "payload": msgspec.Raw(b"null"),
    "masked": True,
    "headers": None,
    "ttl_seconds": None,
    "priority": None,
}

_MAKING: Final = (
    errors.InvalidName,
    errors.InvalidOption,
    errors.InvalidItem,
    errors.PayloadTooLarge,
    errors.SchemaViolation,
    errors.QueueNotFound,
    errors.VersionMismatch,
    errors.EncryptionUnavailable,
)
_FINDING: Final = (errors.NotFound, errors.InvalidName)

ROUTES, route = new_routes()


@route(
    "GET /api/v1/schedules",
    "List schedules",
    Permission.BROWSE,
    {200: Schedules},
    query=SchedulesQuery,
    everywhere=Paged("schedules", by("name"), queue="queue"),
)
async def list_schedules(call: Call) -> Answer:
    """List schedules by name, without their payloads."""
    query = call.query(SchedulesQuery)
    limit = limit_of(call, query.limit)
    if query.queue is not None:
        await call.require_queues(Permission.BROWSE, {query.queue})
    (after,) = place_of(query.cursor, tuple[Text], ("",))
    rows = await call.state.engine.store.schedules.page(
        after=after, queue=query.queue, limit=limit, patterns=call.caller.patterns
    )
    return Answer(
        Schedules(
            schedules=[Schedule(**_shown(row)) for row in rows],
            next_cursor=cursor_after(rows, limit, "name"),
        )
    )


@route(
    "GET /api/v1/schedules/{name}",
    "Show a schedule",
    Permission.BROWSE,
    {200: ScheduleDetail},
    is_payload_view=True,
    query=RevealQuery,
    problems=(*_FINDING, errors.EncryptionUnavailable),
    is_searched=True,
)
async def show(call: Call) -> Answer:
    """Return one schedule with the contents of its messages."""
    query = call.query(RevealQuery)
    row = await _find(call, Permission.BROWSE)
    sealer = call.reveal(query.reveal)
    if is_sealed(row["message"]):
        if sealer is None:
            return Answer(ScheduleDetail(**_shown(row), **_MASKED))
        call.revealed(row["name"])
    return await _detail(call, row)


@route(
    "POST /api/v1/schedules",
    "Create or change a schedule",
    Permission.CONFIGURE,
    {200: ScheduleDetail},
    body=ScheduleRequest,
    problems=_MAKING,
)
async def put(call: Call) -> Answer:
    """
    Create a schedule, or change an existing one.

    A schedule pushes on behalf of its creator, so this also needs `produce`.
    """
    request = await call.body(ScheduleRequest)
    await call.require_queues(Permission.CONFIGURE, {request.queue})
    await call.require_queues(Permission.PRODUCE, {request.queue})
    engine = await call.state.cluster.of_queue(request.queue)
    call.go_to(engine)
    # Other requests can't use the name between the check and the creation.
    async with call.state.cluster.reserved(f"schedule {request.name}", engine):
        await _check_others(call, request)
        old, row = await _put(call, request)
    call.audit(queue=row["queue"], before=old and _audited(old), after=_audited(row))
    return await _detail(call, row)


async def _check_others(call: Call, request: ScheduleRequest) -> None:
    """Raise CrossShard if another database has a schedule with this name."""
    for other in call.state.of_engine:
        found = None if other is call.state.engine else await other.schedules.find(request.name)
        if found is not None:
            await call.require_queues(Permission.CONFIGURE, {found["queue"]})
            raise errors.CrossShard(
                f"schedule {request.name} exists in another database than queue {request.queue}."
                " Delete it first, or choose another name."
            )


async def _put(call: Call, request: ScheduleRequest) -> tuple[Record | None, Record]:
    """The schedule before, if it existed, and after the change."""
    engine = call.state.engine
    old = await engine.schedules.find(request.name)
    queues: set[str] = set()
    if old is not None:
        # So that a caller cannot take over another tenant's schedule by its name.
        queues = {old["queue"]}
        await call.require_queues(Permission.CONFIGURE, queues)
    row = await engine.schedules.put(
        request.name,
        queue=request.queue,
        partition=request.partition,
        cron=request.cron,
        time_zone=request.time_zone,
        missed=request.missed,
        message=Recurring(
            payload=request.payload,
            headers=request.headers,
            ttl_seconds=request.ttl_seconds,
            priority=request.priority,
        ),
        is_paused=request.paused,
        queues=queues,
        manager=None if request.managed_by is msgspec.UNSET else (request.managed_by,),
    )
    return old, row


@route(
    "POST /api/v1/schedules/{name}/pause",
    "Pause a schedule",
    Permission.CONFIGURE,
    {200: Schedule},
    problems=_FINDING,
    is_searched=True,
)
async def pause(call: Call) -> Answer:
    """Stop ticks until the schedule is resumed."""
    return await _pause(call, is_paused=True)


@route(
    "POST /api/v1/schedules/{name}/resume",
    "Resume a schedule",
    Permission.CONFIGURE,
    {200: Schedule},
    problems=_FINDING,
    is_searched=True,
)
async def resume(call: Call) -> Answer:
    """Resume with the next tick. Ticks during the pause are skipped."""
    return await _pause(call, is_paused=False)


@route(
    "POST /api/v1/schedules/{name}/run",
    "Push a schedule's message now",
    Permission.CONFIGURE,
    {201: Pushed, 202: Pushed},
    problems=(*_FINDING, errors.QueueFull, errors.SchemaViolation, errors.PayloadTooLarge),
    is_searched=True,
)
async def run(call: Call) -> Answer:
    """Push the schedule's message now, in addition to its ticks. Also needs `produce`."""
    row = await _find(call, Permission.CONFIGURE)
    await call.require_queues(Permission.PRODUCE, {row["queue"]})
    engine = call.state.engine
    if is_sealed(row["message"]) and Permission.CONSUME not in call.caller.permissions:
        queue = await engine.catalogue.queue(row["queue"])
        if not queue.is_encrypted:
            raise errors.Masked(
                f"queue {queue.name} is no longer encrypted, and the schedule's message is masked."
                " Only callers with the consume permission may push it."
            )
    result = await engine.push([await engine.schedules.item(row)])
    if (refused := result.first_refused) is not None:
        raise (errors.of_code(refused.code or "") or errors.InvalidItem)(refused.error)
    return Answer(result[0], status=202 if result.is_buffered else 201)


@route(
    "DELETE /api/v1/schedules/{name}",
    "Delete a schedule",
    Permission.CONFIGURE,
    {200: ScheduleDeleted},
    problems=_FINDING,
    is_searched=True,
)
async def delete(call: Call) -> Answer:
    """Delete a schedule. Pushed messages stay."""
    row = await _find(call, Permission.CONFIGURE)
    await call.state.engine.schedules.delete(row["name"])
    call.audit(before=_audited(row))
    return Answer(ScheduleDeleted(success=True, name=row["name"]))


async def _pause(call: Call, *, is_paused: bool) -> Answer:
    row = await _find(call, Permission.CONFIGURE)
    row = await call.state.engine.schedules.pause(row["name"], is_paused=is_paused)
    return Answer(Schedule(**_shown(row)))


async def _find(call: Call, permission: Permission) -> Record:
    try:
        row = await call.state.engine.schedules.one(call.parameters["name"])
    except errors.NotFound as error:
        raise call.missing(error) from error
    await call.require_queues(permission, {row["queue"]})
    call.audit(queue=row["queue"])
    return row


async def _detail(call: Call, row: Record) -> Answer:
    message = await call.state.engine.schedules.message(row)
    return Answer(
        ScheduleDetail(
            **_shown(row),
            payload=message.payload,  # pyright: ignore[reportArgumentType] - it was decoded: Raw
            headers=message.headers,
            ttl_seconds=message.ttl_seconds,
            priority=message.priority,
        )
    )


def _shown(row: Record) -> dict[str, Any]:
    return {name: row[name] for name in Schedule.__struct_fields__}


def _audited(row: Record) -> dict[str, Any]:
    """Return the fields for the audit log, without the payload."""
    names = ("name", "queue", "partition", "cron", "time_zone", "missed", "paused", "managed_by")
    return {name: row[name] for name in names}
