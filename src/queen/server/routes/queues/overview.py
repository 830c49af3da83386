"""Totals of all queues, of namespaces and of tasks."""

from typing import Final

from queen.server.auth.permissions import Permission
from queen.server.databases.merges import of_overviews, scopes
from queen.server.http.answer import Answer
from queen.server.http.call import Call, Summed, new_routes
from queen.server.http.cursors import cursor_after, limit_of, place_of
from queen.server.routes.queues.queues import read_figures, summary
from queen.server.routes.views import total, worst_of
from queen.wire.resources import (
    Namespaces,
    Overview,
    OverviewQuery,
    PageQuery,
    QueueSummary,
    Scope,
    Tasks,
    Text,
)

_MOST_QUEUES: Final = 1_000
"""Largest number of queues whose counts an overview adds up."""
_MOST_NAMES: Final = 100_000

ROUTES, route = new_routes()


@route(
    "GET /api/v1/resources/overview",
    "Show totals of all queues",
    Permission.BROWSE,
    {200: Overview},
    tag="queues",
    query=OverviewQuery,
    is_shared=True,
    everywhere=Summed(of_overviews, "worst", "name"),
)
async def overview(call: Call) -> Answer:
    """Return the totals of all queues that the caller may see."""
    query = call.query(OverviewQuery)
    queues = call.state.engine.store.queues
    rows = await queues.names(_MOST_NAMES, call.caller.patterns)
    ids = [row["id"] for row in rows]
    is_known = len(ids) <= _MOST_QUEUES
    found = await read_figures(call, ids) if is_known else []
    candidates = found
    if query.worst and not is_known:
        candidates = await read_figures(call, await queues.worst(ids, query.worst))
    return Answer(
        Overview(
            queues=sum(row["is_counted"] for row in rows),
            namespaces=len({row["namespace"] for row in rows} - {""}),
            tasks=len({row["task"] for row in rows} - {""}),
            worst=[QueueSummary(**summary(row)) for row in worst_of(candidates, query.worst)],
            **total(found, is_known=is_known),
        )
    )


@route(
    "GET /api/v1/resources/namespaces",
    "List namespaces",
    Permission.BROWSE,
    {200: Namespaces},
    tag="queues",
    query=PageQuery,
    everywhere=scopes("namespaces"),
)
async def namespaces(call: Call) -> Answer:
    """List namespaces in use, with the totals of their queues."""
    scopes, cursor = await _scopes(call, "namespaces")
    return Answer(Namespaces(namespaces=scopes, next_cursor=cursor))


@route(
    "GET /api/v1/resources/tasks",
    "List tasks",
    Permission.BROWSE,
    {200: Tasks},
    tag="queues",
    query=PageQuery,
    everywhere=scopes("tasks"),
)
async def tasks(call: Call) -> Answer:
    """List tasks in use, with the totals of their queues."""
    scopes, cursor = await _scopes(call, "tasks")
    return Answer(Tasks(tasks=scopes, next_cursor=cursor))


async def _scopes(call: Call, what: str) -> tuple[list[Scope], str | None]:
    query = call.query(PageQuery)
    limit = limit_of(call, query.limit)
    queues = call.state.engine.store.queues
    read = queues.namespaces if what == "namespaces" else queues.tasks
    # The empty name stands for queues without one, and is not listed.
    (after,) = place_of(query.cursor, tuple[Text], ("",))
    rows = await read(after, limit, call.caller.patterns)
    ids_of: dict[str, list[int]] = {row["name"]: row["ids"] for row in rows}
    counts: dict[str, int] = {row["name"]: row["queues"] for row in rows}
    all_ids = [id_ for ids in ids_of.values() for id_ in ids]
    is_known = len(all_ids) <= _MOST_QUEUES
    found = {row["id"]: row for row in await read_figures(call, all_ids if is_known else [])}
    scopes = [
        Scope(
            name=name,
            queues=counts[name],
            **total([found[id_] for id_ in ids if id_ in found], is_known=is_known),
        )
        for name, ids in ids_of.items()
    ]
    return scopes, cursor_after(rows, limit, "name")
