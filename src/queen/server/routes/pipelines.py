"""Spark pipelines and their history, archives, and the holds that keep messages for them."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from queen import errors
from queen.engine.metrics.series import Analytics
from queen.server.auth.permissions import Permission
from queen.server.databases.merges import by, by_queue_and_name
from queen.server.http.answer import Answer
from queen.server.http.call import Call, Paged, new_routes
from queen.server.http.cursors import cursor_after, limit_of, place_of
from queen.server.routes.views import of_row
from queen.store.connection.database import Record
from queen.wire.analytics import RangeQuery
from queen.wire.resources import (
    Archive,
    Archives,
    Counted,
    Hold,
    Holds,
    PageQuery,
    Pipeline,
    PipelinePoint,
    Pipelines,
    PipelineSeries,
    Text,
)

_VALUES: Final = tuple(name for name in PipelinePoint.__struct_fields__ if name != "t")

ROUTES, route = new_routes()


@route(
    "GET /api/v1/pipelines",
    "List pipelines",
    Permission.BROWSE,
    {200: Pipelines},
    query=PageQuery,
    everywhere=Paged("pipelines", by("name")),
)
async def list_pipelines(call: Call) -> Answer:
    """List pipelines by name, including ended ones."""
    query = call.query(PageQuery)
    limit = limit_of(call, query.limit)
    (after,) = place_of(query.cursor, tuple[Text], ("",))
    rows = await call.state.engine.store.pipelines.page(
        after=after, limit=limit, patterns=call.caller.patterns
    )
    return Answer(
        Pipelines(
            pipelines=[_shown(row) for row in rows], next_cursor=cursor_after(rows, limit, "name")
        )
    )


@route(
    "GET /api/v1/pipelines/{name}",
    "Show a pipeline",
    Permission.BROWSE,
    {200: Pipeline},
    problems=(errors.NotFound,),
    is_searched=True,
)
async def show(call: Call) -> Answer:
    """Return the last report of a pipeline."""
    return Answer(_shown(await _found(call)))


@route(
    "GET /api/v1/pipelines/{name}/series",
    "Show the history of a pipeline",
    Permission.BROWSE,
    {200: PipelineSeries},
    query=RangeQuery,
    problems=(errors.NotFound,),
    is_searched=True,
)
async def series(call: Call) -> Answer:
    """Return rate, lag, batch time and late rows of a pipeline over time, in buckets."""
    query = call.query(RangeQuery)
    row = await _found(call)
    store = call.state.engine.store
    analytics = Analytics(store, call.state.settings)
    range_ = await analytics.range(query.from_, query.to, query.bucket_seconds)
    start, end = range_.instants
    rows = await store.pipelines.series(row["name"], start, end, range_.bucket_seconds)
    known = {int(each["t"].timestamp()): each for each in rows}
    points = [_point(at, known.get(at)) for at in range_.buckets]
    bucket_seconds = range_.bucket_seconds
    return Answer(PipelineSeries(from_=start, to=end, bucket_seconds=bucket_seconds, series=points))


async def _found(call: Call) -> Record:
    """Return the pipeline of the path, if the caller may see its queues."""
    name = call.parameters["name"]
    row = await call.state.engine.store.pipelines.one(name)
    missing = errors.NotFound(f"pipeline {name} does not exist")
    if row is None or not await visible_pipelines(call, {name: row["queues"]}):
        raise call.missing(missing)
    return row


def _point(at: int, row: Record | None) -> PipelinePoint:
    known: dict[str, Any] = {name: None if row is None else row[name] for name in _VALUES}
    return PipelinePoint(t=datetime.fromtimestamp(at, UTC), **known)


@route(
    "GET /api/v1/holds",
    "List holds",
    Permission.BROWSE,
    {200: Holds},
    query=PageQuery,
    everywhere=Paged("holds", by_queue_and_name),
)
async def list_holds(call: Call) -> Answer:
    """List the holds that keep messages from retention, with the messages that each keeps."""
    query = call.query(PageQuery)
    limit = limit_of(call, query.limit)
    after = place_of(query.cursor, tuple[Text, Text], ("", ""))
    rows = await call.state.engine.store.pipelines.holds(
        after=after, limit=limit, patterns=call.caller.patterns
    )
    return Answer(
        Holds(
            holds=[of_row(Hold, row) for row in rows],
            next_cursor=cursor_after(rows, limit, "queue", "name"),
        )
    )


@route(
    "DELETE /api/v1/holds/{queue}/{name}",
    "Release a hold",
    Permission.DESTROY,
    {200: Counted},
    problems=(errors.QueueNotFound, errors.NotFound),
)
async def release_hold(call: Call) -> Answer:
    """Release a hold, so that retention can delete its messages. A running archive renews it."""
    queue, name = call.parameters["queue"], call.parameters["name"]
    await call.require_queues(Permission.DESTROY, {queue})
    call.audit(queue=queue)
    if not await call.state.engine.store.pipelines.release(queue, name):
        raise errors.NotFound(f"queue {queue} has no hold {name}")
    return Answer(Counted(count=1))


@route(
    "GET /api/v1/archives",
    "List archives",
    Permission.BROWSE,
    {200: Archives},
    query=PageQuery,
    everywhere=Paged("archives", by("name")),
)
async def list_archives(call: Call) -> Answer:
    """List archives by name, with the messages that each has missed."""
    query = call.query(PageQuery)
    limit = limit_of(call, query.limit)
    (after,) = place_of(query.cursor, tuple[Text], ("",))
    rows = await call.state.engine.store.pipelines.archives(
        after=after, limit=limit, patterns=call.caller.patterns
    )
    return Answer(
        Archives(
            archives=[of_row(Archive, row) for row in rows],
            next_cursor=cursor_after(rows, limit, "name"),
        )
    )


@route(
    "DELETE /api/v1/archives/{name}",
    "Drop an archive",
    Permission.DESTROY,
    {200: Counted},
    problems=(errors.NotFound,),
    is_searched=True,
)
async def drop_archive(call: Call) -> Answer:
    """Drop an archive and its hold. The lake keeps its data."""
    name = call.parameters["name"]
    store = call.state.engine.store.pipelines
    missing = errors.NotFound(f"archive {name} does not exist")
    queue = await store.queue_of_archive(name)
    if queue is not None:
        await call.require_queues(Permission.DESTROY, {queue})
        call.audit(queue=queue)
    elif call.caller.scopes is not None:
        raise call.missing(missing)
    if not await store.drop_archive(name):
        raise call.missing(missing)
    return Answer(Counted(count=1))


async def visible_pipelines(call: Call, queues: Mapping[str, Sequence[str]]) -> set[str]:
    """Return pipelines whose queues are all visible. One without queues reads all of them."""
    if call.caller.scopes is None:
        return set(queues)
    seen = await call.visible({queue for names in queues.values() for queue in names})
    return {name for name, names in queues.items() if names and seen.issuperset(names)}


def _shown(row: Record) -> Pipeline:
    return of_row(Pipeline, row)
