"""List the options of queues. Create a queue, or change its options."""

from typing import Any

import msgspec

from queen import errors
from queen.codec.names import check_queue_name
from queen.codec.schemas import PayloadSchema
from queen.server.auth.permissions import Permission
from queen.server.databases.merges import by
from queen.server.databases.spread_merges import as_listed
from queen.server.http.answer import Answer
from queen.server.http.call import Call, Paged, new_routes
from queen.server.http.cursors import cursor_after, limit_of, place_of
from queen.store.connection.database import Record
from queen.wire.options import Configured, ConfigureRequest, QueueConfiguration, QueueOptions
from queen.wire.resources import PageQuery, QueueConfigurations, Text

ROUTES, route = new_routes()


@route(
    "GET /api/v1/configure",
    "List queue options",
    Permission.BROWSE,
    {200: QueueConfigurations},
    query=PageQuery,
    everywhere=Paged("queues", by("queue"), queue="queue", complete=as_listed),
)
async def list_options(call: Call) -> Answer:
    """List queues with all their options, by name, and the options of a new queue."""
    query = call.query(PageQuery)
    limit = limit_of(call, query.limit)
    queues = call.state.engine.store.queues
    (after,) = place_of(query.cursor, tuple[Text], ("",))
    rows, is_cut = await queues.options_page(
        after=after, limit=limit, patterns=call.caller.patterns
    )
    return Answer(
        QueueConfigurations(
            queues=[QueueConfiguration(**_fields(row)) for row in rows],
            defaults=QueueOptions.of_row(await queues.default_options()),
            next_cursor=cursor_after(rows, len(rows) if is_cut else limit, "name"),
        )
    )


@route(
    "POST /api/v1/configure",
    "Create or change a queue",
    Permission.CONFIGURE,
    {200: Configured},
    body=ConfigureRequest,
    headers={
        "If-Match": "Version that the queue must have, or 0 if the queue must not exist. Otherwise"
        " the request is rejected."
    },
    problems=(
        errors.InvalidOption,
        errors.InvalidName,
        errors.PartitionNotFound,
        errors.QueueNotFound,
        errors.VersionMismatch,
    ),
)
async def configure(call: Call) -> Answer:
    """Create a queue, or change its namespace, task and options."""
    request = await call.body(ConfigureRequest)
    await call.require_scope(Permission.CONFIGURE, request.queue, request.namespace, is_made=True)
    check_queue_name("queue", request.queue, call.state.settings.max_name_bytes)
    columns = request.options.columns()
    cluster = call.state.cluster
    if request.partition is None:
        is_spread = columns.get("placement") == "spread"
        engine = await cluster.of_new_queue(request.queue, request.namespace, is_spread=is_spread)
    else:
        engine = await cluster.of_partition(request.queue, request.partition)
    call.go_to(engine)
    _check_options(call, request)
    if columns.get("schema") is not None:
        PayloadSchema(columns["schema"])  # Raises InvalidOption before the queue is changed.
    found = await engine.store.queues.named([request.queue])
    call.audit(queue=request.queue, before=_configured(found[0]) if found else None)
    if request.partition is not None:
        if set(columns) - {"priority"}:
            raise errors.InvalidOption("priority is the only option of a partition")
        if (
            request.namespace is not None
            or request.task is not None
            or request.mode == "replace"
            or call.header(b"if-match") is not None
        ):
            raise errors.BadRequest(
                "priority is the only option of a partition: remove namespace, task, mode replace"
                " and If-Match"
            )
        priority: int = columns.get("priority") or 0
        await engine.queues.configure_partition(request.queue, request.partition, priority=priority)
        row = await engine.queues.one(request.queue)
    else:
        row = await engine.queues.configure(
            request.queue,
            columns,
            namespace=request.namespace,
            task=request.task,
            is_replaced=request.mode == "replace",
            version=_version(call),
        )
        await cluster.publish(request.queue, row["id"])
    answer = _configured(row)
    call.audit(after=answer)
    return Answer(answer)


def _check_options(call: Call, request: ConfigureRequest) -> None:
    """Raise InvalidOption for violations of server limits, and for contradicting aliases."""
    options = request.options
    most = call.state.settings.max_lease_seconds
    if isinstance(options.lease_time, float | int) and options.lease_time > most:
        raise errors.InvalidOption(
            f"leaseTime must be at most {most}, the value of QUEEN_MAX_LEASE_SECONDS"
        )
    names = (options.dlq_after_max_retries, options.dead_letter_queue)
    if msgspec.UNSET not in names and names[0] is not names[1]:
        raise errors.InvalidOption(
            "deadLetterQueue is an alias of dlqAfterMaxRetries, and their values differ"
        )


def _configured(row: Record) -> Configured:
    return Configured(configured=True, **_fields(row))


def _fields(row: Record) -> dict[str, Any]:
    return {
        "queue": row["name"],
        "namespace": row["namespace"],
        "task": row["task"],
        "options": QueueOptions.of_row(dict(row)),
        "version": row["version"],
    }


def _version(call: Call) -> int | None:
    text = call.header(b"if-match")
    if text is None:
        return None
    text = text.strip().strip('"')
    if not text.isdigit() or len(text) > 18:
        raise errors.BadRequest("If-Match must be the version of the queue, or 0")
    return int(text)
