"""Jobs on Spark: list, show."""

from typing import Final

from queen import errors
from queen.server.access import Permission
from queen.server.http import Answer, Call
from queen.server.paging import cursor_to, limit_of, place_of
from queen.server.routing import API, Route
from queen.store.database import Record
from queen.wire.resources import PageQuery, Pipeline, Pipelines, Text


async def list_pipelines(call: Call) -> Answer:
    """Pipelines by name, those that ended too."""
    query = call.query(PageQuery)
    limit = limit_of(call, query)
    (after,) = place_of(query.cursor, tuple[Text], ("",))
    rows = await call.state.engine.store.pipelines.page(after=after, limit=limit)
    seen = await call.visible({queue for row in rows for queue in row["queues"]})
    return Answer(
        Pipelines(
            pipelines=[_shown(row) for row in rows if _is_visible(call, row, seen)],
            next_cursor=cursor_to(rows[-1]["name"]) if len(rows) == limit else None,
        )
    )


async def show(call: Call) -> Answer:
    """One pipeline."""
    name = call.parameters["name"]
    row = await call.state.engine.store.pipelines.one(name)
    missing = errors.NotFound(f"there is no pipeline {name}")
    if row is None or not _is_visible(call, row, await call.visible(row["queues"])):
        raise call.missing(missing)
    return Answer(_shown(row))


def _is_visible(call: Call, row: Record, seen: set[str]) -> bool:
    """One of several queues, or of everything, is for those who see them all."""
    if call.caller.scopes is None:
        return True
    return bool(row["queues"]) and seen.issuperset(row["queues"])


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
