"""Spark pipelines: list, show."""

from collections.abc import Mapping, Sequence
from typing import Final

from queen import errors
from queen.server.auth.permissions import Permission
from queen.server.http.answer import Answer
from queen.server.http.call import API, Call, Route
from queen.server.http.cursors import cursor_to, limit_of, place_of
from queen.store.connection.database import Record
from queen.wire.resources import PageQuery, Pipeline, Pipelines, Text


async def list_pipelines(call: Call) -> Answer:
    """List pipelines by name, including ended ones."""
    query = call.query(PageQuery)
    limit = limit_of(call, query)
    (after,) = place_of(query.cursor, tuple[Text], ("",))
    rows = await call.state.engine.store.pipelines.page(
        after=after, limit=limit, patterns=call.caller.patterns
    )
    return Answer(
        Pipelines(
            pipelines=[_shown(row) for row in rows],
            next_cursor=cursor_to(rows[-1]["name"]) if len(rows) == limit else None,
        )
    )


async def show(call: Call) -> Answer:
    """One pipeline."""
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
    return Pipeline(**{name: row[name] for name in Pipeline.__struct_fields__})


ROUTES: Final = (
    Route(
        method="GET",
        path=f"{API}/pipelines",
        handler=list_pipelines,
        summary="List pipelines",
        permission=Permission.BROWSE,
        query=PageQuery,
        answers={200: Pipelines},
    ),
    Route(
        method="GET",
        path=f"{API}/pipelines/{{name}}",
        handler=show,
        summary="Show a pipeline",
        permission=Permission.BROWSE,
        answers={200: Pipeline},
        problems=(errors.NotFound,),
    ),
)
