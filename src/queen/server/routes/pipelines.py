"""Spark pipelines: list, show."""

from collections.abc import Mapping, Sequence

from queen import errors
from queen.server.auth.permissions import Permission
from queen.server.http.answer import Answer
from queen.server.http.call import Call, new_routes
from queen.server.http.cursors import cursor_after, limit_of, place_of
from queen.server.routes.views import of_row
from queen.store.connection.database import Record
from queen.wire.resources import PageQuery, Pipeline, Pipelines, Text

ROUTES, route = new_routes()


@route(
    "GET /api/v1/pipelines", "List pipelines", Permission.BROWSE, {200: Pipelines}, query=PageQuery
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
)
async def show(call: Call) -> Answer:
    """Return the last report of a pipeline."""
    name = call.parameters["name"]
    row = await call.state.engine.store.pipelines.one(name)
    missing = errors.NotFound(f"pipeline {name} does not exist")
    if row is None or not await visible_pipelines(call, {name: row["queues"]}):
        raise call.missing(missing)
    return Answer(_shown(row))


async def visible_pipelines(call: Call, queues: Mapping[str, Sequence[str]]) -> set[str]:
    """Return pipelines whose queues are all visible. One without queues reads all of them."""
    if call.caller.scopes is None:
        return set(queues)
    seen = await call.visible({queue for names in queues.values() for queue in names})
    return {name for name, names in queues.items() if names and seen.issuperset(names)}


def _shown(row: Record) -> Pipeline:
    return of_row(Pipeline, row)
