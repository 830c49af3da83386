"""The database of a request: by a name or an id in its path, where it is found, or all of them."""

from typing import Any

from queen.cluster.lookups import slot_of_id
from queen.codec.ids import id_of, place_of
from queen.server.databases import merging, searching, spread
from queen.server.http.answer import Answer
from queen.server.http.call import Call, Route
from queen.store.cluster.homes import SPREAD


async def answer(call: Call, route: Route) -> Answer:
    """Call the handler of a route with the engine that it needs."""
    cluster = call.state.cluster
    if cluster.is_alone:
        return await route.handler(call)
    cluster.owners.refresh()
    call.keeps_body = True
    slot = await _slot(call, route)
    if slot == SPREAD:
        return await spread.answer(call, route, _queue(call, route) or "")
    if slot is not None:

        async def go_to_owner() -> Answer:
            call.go_to(cluster.following.engine(slot))
            return await route.handler(call)

        return await cluster.following.follow([slot], go_to_owner)
    if _queue(call, route) is not None:
        return await route.handler(call)  # It never existed.
    if route.everywhere is not None:
        return await merging.answer(call, route, route.everywhere)
    if route.is_searched:
        return await cluster.following.follow((), lambda: searching.answer(call, route))
    state = call.state

    async def choose() -> Answer:
        """Call a handler that finds its engine by itself, or calls the cluster."""
        call.state = state
        return await route.handler(call)

    return await cluster.following.follow((), choose)


async def _slot(call: Call, route: Route) -> int | None:
    """The slot of the queue, message or partition that the path or the query names."""
    names = call.parameters
    if (queue := _queue(call, route)) is not None:
        return await call.state.cluster.slot_of_queue(queue)
    if (ref := names.get("ref") or names.get("partitionId")) is not None:
        place = place_of(ref)
        id_ = id_of(ref) if place is None else place.partition_id
        return None if id_ is None else slot_of_id(id_)
    return None


def _queue(call: Call, route: Route) -> str | None:
    queue = call.parameters.get("queue")
    if queue is None and route.query is not None:
        query: Any = call.query(route.query)
        queue = getattr(query, "queue", None)
    return queue
