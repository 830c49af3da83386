"""Requests for spread queues, whose partitions are in several databases."""

from typing import Any

from queen.cluster.cluster import only_home
from queen.codec.ids import id_of
from queen.server.databases import merging, searching
from queen.server.http.answer import Answer
from queen.server.http.call import Call, Paged, Route, Summed


async def answer(call: Call, route: Route, queue: str) -> Answer:
    """Call the handler of a route with the engines that it needs."""
    cluster, how, state = call.state.cluster, route.spread, call.state

    async def call_handler() -> Answer:
        if how == "handler":
            call.state = state
        elif how == "first":
            call.go_to(cluster.first)
        elif partition is not None:
            call.go_to(await cluster.of_partition(queue, partition))
        else:
            call.go_to(cluster.of_id(delivery or 0))
        return await route.handler(call)

    partition, delivery = _partition(call, route), id_of(call.parameters.get("delivery", ""))
    if how in ("handler", "first") or partition is not None or delivery is not None:
        slots = [cluster.owners.slot_of(queue, partition)] if partition is not None else []
        return await cluster.following.follow(slots, call_handler)
    if how == "search":
        return await cluster.following.follow((), lambda: searching.answer(call, route))
    merge = how if isinstance(how, Paged | Summed) else route.everywhere
    if merge is None:
        raise only_home(queue)
    return await merging.answer(call, route, merge)


def _partition(call: Call, route: Route) -> str | None:
    """The name of the partition in the path or the query."""
    partition = call.parameters.get("partition")
    if partition is None and route.query is not None:
        query: Any = call.query(route.query)
        partition = getattr(query, "partition", None)
    return partition
