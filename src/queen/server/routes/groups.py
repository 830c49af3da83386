"""Consumer groups: lag, positions, seek, delete."""

from collections.abc import Sequence
from typing import Any, Final

from queen import errors
from queen.codec.ids import reference
from queen.engine.engine import Engine
from queen.server.auth.permissions import Permission
from queen.server.databases.merges import as_sorted, by, of_deleted, same
from queen.server.databases.spread_merges import completed, names_of_spread, of_group
from queen.server.http.answer import Answer
from queen.server.http.call import Call, Paged, Summed, new_routes
from queen.server.http.cursors import LARGEST, Int, Level, cursor_to, limit_of, place_of
from queen.server.routes.queues.queues import find_group, find_queue
from queen.server.routes.views import DETAIL, LIST, group_summary, lease_info, of_row
from queen.store.connection.database import Record, is_enough
from queen.wire.resources import (
    GroupDeleted,
    GroupPartition,
    GroupPartitions,
    GroupPartitionsQuery,
    Groups,
    GroupsQuery,
    GroupSummary,
    SeekRequest,
    Sought,
    Text,
)

_MOST_SCANNED: Final = 10_000
_A_TURN: Final = 1_000
"""Groups per statement, because finding the next ones may require reading all."""
_SAMPLED: Final = {"-lag": "lag", "-lagSeconds": "lag_seconds"}

_MISSING: Final = (errors.QueueNotFound, errors.GroupNotFound)

ROUTES, route = new_routes()


async def _completed(
    call: Call, entries: Sequence[GroupSummary], engines: Sequence[Engine]
) -> list[GroupSummary]:
    """Add the lag in all databases to groups of spread queues."""
    return await completed(
        call,
        entries,
        engines,
        queue=lambda each: each.queue,
        key=lambda each: (each.queue, each.consumer_group),
        read=_read_again,
        combine=of_group,
    )


async def _read_again(call: Call, groups: Sequence[GroupSummary]) -> list[GroupSummary]:
    """Read these groups from another database."""
    store = call.state.engine.store.groups
    ids = await store.ids([(each.queue, each.consumer_group) for each in groups])
    most = LIST if call.query(GroupsQuery).queue is None else DETAIL
    return [group_summary(row) for row in await store.figures(ids, most)]


@route(
    "GET /api/v1/consumer-groups",
    "List consumer groups",
    Permission.BROWSE,
    {200: Groups},
    query=GroupsQuery,
    problems=(errors.QueueNotFound,),
    everywhere=Paged(
        "consumer_groups", as_sorted(name="consumer_group"), queue="queue", complete=_completed
    ),
)
async def list_groups(call: Call) -> Answer:
    """List groups with their lag."""
    query = call.query(GroupsQuery)
    limit = limit_of(call, query.limit)
    engine = call.state.engine
    queue_id: int | None = None
    most = LIST if query.queue is None else DETAIL
    if query.queue is not None:
        await call.require_queues(Permission.BROWSE, {query.queue})
        queue_id = (await engine.queues.one(query.queue))["id"]
    cursor = query.cursor
    found: list[GroupSummary] = []
    scanned = 0
    while not is_enough(scanned, _MOST_SCANNED):
        rows = await _page(call, query, queue_id, cursor, max(limit, _A_TURN))
        for first in range(0, len(rows), limit):
            some = rows[first : first + limit]
            ids = [row["id"] for row, _ in some]
            figures = {row["id"]: row for row in await engine.store.groups.figures(ids, most)}
            for row, place in some:
                cursor = place
                if row["id"] not in figures:
                    continue
                group = group_summary(figures[row["id"]])
                # An unknown lag may exceed any minimum.
                if group.lag_seconds is None or group.lag_seconds >= (query.min_lag_seconds or 0):
                    found.append(group)
                    if len(found) == limit:
                        return Answer(Groups(consumer_groups=found, next_cursor=cursor))
        scanned += len(rows)
        if len(rows) < max(limit, _A_TURN):
            cursor = None
            break
    return Answer(Groups(consumer_groups=found, next_cursor=cursor))


async def _page(
    call: Call, query: GroupsQuery, queue_id: int | None, cursor: str | None, limit: int
) -> list[tuple[Record, str]]:
    """Return groups in the requested order, each with the cursor of the next one."""
    groups = call.state.engine.store.groups
    wanted: dict[str, Any] = {
        "queue_id": queue_id,
        "name": query.consumer_group,
        "limit": limit,
        "patterns": call.caller.patterns,
    }
    if (figure := _SAMPLED.get(query.sort)) is not None:
        place = place_of(cursor, tuple[float, Int], (LARGEST, 0))
        rows = await groups.page_by_sample(figure, place, **wanted)
        return [(row, cursor_to(row["figure"], row["id"])) for row in rows]
    if query.sort == "createdAt":
        after = place_of(cursor, tuple[Int], (0,))
        rows = await groups.page("age", after, **wanted)
        return [(row, cursor_to(row["id"])) for row in rows]
    order, start = ("name", "") if query.sort == "name" else ("name_down", None)
    named = place_of(cursor, tuple[Text | None, Int], (start, 0))
    rows = await groups.page(order, named, **wanted)
    return [(row, cursor_to(row["name"], row["id"])) for row in rows]


@route(
    "GET /api/v1/consumer-groups/{group}/queues/{queue}/partitions",
    "List a group's positions",
    Permission.BROWSE,
    {200: GroupPartitions},
    query=GroupPartitionsQuery,
    problems=_MISSING,
    spread=Paged("partitions", by("partition")),
)
async def list_partitions(call: Call) -> Answer:
    """List a group's positions in the partitions of a queue."""
    query = call.query(GroupPartitionsQuery)
    limit = limit_of(call, query.limit)
    queue = await find_queue(call, Permission.BROWSE)
    group_id = await find_group(call, queue, call.parameters["group"])
    engine = call.state.engine
    after = place_of(query.cursor, tuple[Text, Level], ("", -1))
    found: list[GroupPartition] = []
    scanned = 0
    while True:
        rows = await engine.store.queues.partitions(
            queue["id"], after=after, prefix="", limit=limit, group_id=group_id
        )
        for row in rows:
            after = (row["name"], row["level"])
            if (row["pending"] or 0) >= query.min_lag:
                found.append(_partition(row))
                if len(found) == limit:
                    break
        scanned += len(rows)
        if len(found) == limit or (len(rows) == limit and is_enough(scanned, _MOST_SCANNED)):
            return Answer(GroupPartitions(partitions=found, next_cursor=cursor_to(*after)))
        if len(rows) < limit:
            return Answer(GroupPartitions(partitions=found, next_cursor=None))


def _partition(row: Record) -> GroupPartition:
    return of_row(
        GroupPartition,
        row,
        partition_id=reference(row["id"]),
        partition=row["name"],
        lag=row["pending"],
        lease=lease_info(row),
    )


@route(
    "POST /api/v1/consumer-groups/{group}/queues/{queue}/seek",
    "Move a group",
    Permission.OPERATE,
    {200: Sought},
    body=SeekRequest,
    problems=_MISSING,
    spread=Summed(same),
)
@route(
    "POST /api/v1/consumer-groups/{group}/queues/{queue}/partitions/{partition}/seek",
    "Move a group in a partition",
    Permission.OPERATE,
    {200: Sought},
    body=SeekRequest,
    problems=(*_MISSING, errors.PartitionNotFound),
)
async def seek(call: Call) -> Answer:
    """Move a group. Its current leases are lost."""
    request = await call.body(SeekRequest)
    queue, group = call.parameters["queue"], call.parameters["group"]
    partition = call.parameters.get("partition")
    await call.require_queues(Permission.OPERATE, {queue})
    await call.state.engine.queues.seek(
        queue,
        group,
        to=request.timestamp,
        to_end=request.to_end,
        to_start=request.to_start,
        offset=request.offset,
        partition=partition,
    )
    return Answer(Sought(success=True, consumer_group=group, queue=queue, partition=partition))


@route(
    "DELETE /api/v1/consumer-groups/{group}",
    "Delete a group everywhere",
    Permission.DESTROY,
    {200: GroupDeleted},
    problems=(errors.GroupNotFound,),
    everywhere=Summed(of_deleted),
)
@route(
    "DELETE /api/v1/consumer-groups/{group}/queues/{queue}",
    "Delete a group in a queue",
    Permission.DESTROY,
    {200: GroupDeleted},
    problems=_MISSING,
    spread="first",
)
async def delete(call: Call) -> Answer:
    """Delete a group, in one queue or in all. The next pop creates it again."""
    group = call.parameters["group"]
    engine, cluster = call.state.engine, call.state.cluster
    if (queue := call.parameters.get("queue")) is not None:
        queues = [queue]
    else:
        # Groups of this name in other queues belong to other tenants.
        queues = await engine.store.groups.queues(group, call.caller.patterns)
        if engine is not cluster.first:
            # The first database decides about the groups of spread queues.
            spread = await names_of_spread(cluster, set(queues))
            queues = [each for each in queues if each not in spread]
    await call.require_queues(Permission.DESTROY, set(queues))
    if not queues:
        raise errors.GroupNotFound(f"group {group} does not exist")
    for each in queues:
        await cluster.publish(each, await engine.queues.delete_group(each, group))
    # Its rows are deleted in steps, after the response.
    await call.state.operations.begin("delete", queue=queue, arguments={}, by=call.caller.name)
    return Answer(GroupDeleted(success=True, consumer_group=group, queues=queues))
