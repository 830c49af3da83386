"""The database of a request: by a name or an id in its path, where it is found, or all of them."""

import copy
from typing import Any, Final

from queen import errors
from queen.codec.ids import id_of, place_of
from queen.engine.engine import Engine
from queen.server.databases import merging
from queen.server.http.answer import Answer
from queen.server.http.call import Call, Route

_ABSENT: Final = errors.NotFound.http_status


async def answer(call: Call, route: Route) -> Answer:
    """Call the handler of a route with the engine that it needs."""
    if call.state.cluster.is_alone:
        return await route.handler(call)
    if (engine := await _named(call, route)) is not None:
        call.go_to(engine)
        return await route.handler(call)
    if route.everywhere is not None:
        return await merging.answer(call, route, route.everywhere)
    if route.is_searched:
        return await _search(call, route)
    return await route.handler(call)


async def _named(call: Call, route: Route) -> Engine | None:
    """The engine of the queue, message or partition that the path or the query names."""
    cluster, names = call.state.cluster, call.parameters
    queue = names.get("queue")
    if queue is None and route.query is not None:
        query: Any = call.query(route.query)
        queue = getattr(query, "queue", None)
    if queue is not None:
        return await cluster.of_queue(queue)
    if (ref := names.get("ref") or names.get("partitionId")) is not None:
        place = place_of(ref)
        id_ = id_of(ref) if place is None else place.partition_id
        return None if id_ is None else cluster.of_id(id_)
    return None


async def _search(call: Call, route: Route) -> Answer:
    """Call the handler for each database until one has the object."""
    failures: list[errors.QueenError] = []
    call.keeps_body = True
    for engine in call.state.cluster.engines.values():
        own = copy.copy(call)
        own.go_to(engine)
        try:
            found = await route.handler(own)
        except errors.QueenError as error:
            # Callers with scopes get the same error for an absent object as for a foreign one.
            is_absent = isinstance(error, errors.Forbidden) or error.http_status == _ABSENT
            if not (is_absent or isinstance(error, errors.DatabaseUnavailable)):
                raise
            failures.append(error)
            call.kept = own.kept
        else:
            call.audited = own.audited
            return found
    # An unavailable database may have it.
    raise next((each for each in failures if each.http_status >= 500), failures[0])
