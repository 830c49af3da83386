"""Analytics: throughput, wait, processing time and depth."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from queen import errors
from queen.codec.names import QUEUE_MODE
from queen.engine.metrics.ranges import Range
from queen.engine.metrics.series import METRICS, SAMPLED, TIMED, Analytics
from queen.server.auth.permissions import Permission
from queen.server.databases.merges import by, joined, joined_series, page_of_series
from queen.server.http.answer import Answer
from queen.server.http.call import Call, Paged, Summed, new_routes
from queen.server.http.cursors import cursor_after, limit_of, place_of
from queen.store.connection.database import Record
from queen.telemetry import COUNTED
from queen.wire.analytics import (
    Figures,
    GroupFigures,
    Point,
    QueueAnalytics,
    QueueDepth,
    QueueDepths,
    QueueFigures,
    QueuesAnalytics,
    QueuesQuery,
    RangeQuery,
    Rates,
    ScopeAnalytics,
    ScopeQuery,
    Series,
    SeriesQuery,
    Throughput,
)
from queen.wire.resources import Text

_WIRE: Final[Mapping[str, str]] = {
    field.encode_name: field.name
    for field in msgspec.structs.fields(Figures)
    if field.name in METRICS
}
_OF_QUEUE_ALONE: Final = ("pushed", "duplicates", "depth")
_FLOW: Final = ("pushed", "popped", "acked", "nacked", "dead_lettered", "duplicates")

ROUTES, route = new_routes()


def _analytics(call: Call) -> Analytics:
    return Analytics(call.state.engine.store, call.state.settings)


async def _range(call: Call, query: RangeQuery) -> Range:
    return await _analytics(call).range(query.from_, query.to, query.bucket_seconds)


async def _found(call: Call, query: ScopeQuery) -> list[Record]:
    """Return the selected queues that the caller may see. A named queue must exist."""
    if query.queue is not None:
        await call.require_queues(Permission.BROWSE, {query.queue})
    rows = await _analytics(call).queues(
        namespace=query.namespace,
        task=query.task,
        queue=query.queue,
        patterns=call.caller.patterns,
    )
    if query.queue is not None and not rows:
        raise errors.QueueNotFound(f"queue {query.queue} does not exist")
    return rows


def _ids(rows: Sequence[Record]) -> list[int]:
    return [row["id"] for row in rows]


def _bounds(range_: Range) -> dict[str, Any]:
    start, end = range_.instants
    return {"from_": start, "to": end, "bucket_seconds": range_.bucket_seconds}


async def _points(
    call: Call,
    range_: Range,
    rows: Sequence[Record],
    metrics: Sequence[str],
    group: str | None = None,
) -> list[Point]:
    points = await _analytics(call).series(range_, _ids(rows), group, metrics)
    if group is not None:
        # Pushes belong to the queue, not to a group.
        for point in points:
            point.update({name: None for name in _OF_QUEUE_ALONE if name in point})
    return [Point(**point) for point in points]


@route(
    "GET /api/v1/analytics/series",
    "Show any metric over time",
    Permission.BROWSE,
    {200: Series},
    is_shared=True,
    query=SeriesQuery,
    problems=(errors.QueueNotFound,),
    everywhere=Summed(joined_series),
)
async def series(call: Call) -> Answer:
    """Return one or several metrics over time, in buckets."""
    query = call.query(SeriesQuery)
    names = [each.strip() for each in query.metric.split(",")]
    if unknown := [name for name in names if name not in _WIRE]:
        raise errors.BadRequest(f"metric {unknown[0]!r}: it must be one of {', '.join(_WIRE)}")
    rows = await _found(call, query)
    range_ = await _range(call, query)
    metrics = [_WIRE[name] for name in names]
    points = await _points(call, range_, rows, metrics, query.consumer_group)
    return Answer(Series(**_bounds(range_), series=points))


@route(
    "GET /api/v1/analytics/throughput",
    "Show throughput over time",
    Permission.BROWSE,
    {200: Throughput},
    is_shared=True,
    query=ScopeQuery,
    problems=(errors.QueueNotFound,),
    everywhere=Summed(joined_series),
)
async def throughput(call: Call) -> Answer:
    """Return the number of pushed, delivered and acknowledged messages."""
    query = call.query(ScopeQuery)
    rows = await _found(call, query)
    range_ = await _range(call, query)
    rates, seconds = await _rates(call, _ids(rows))
    return Answer(
        Throughput(
            **_bounds(range_),
            per_second=rates,
            window_seconds=seconds,
            series=await _points(call, range_, rows, _FLOW),
        )
    )


async def _rates(call: Call, ids: list[int]) -> tuple[Rates, int]:
    """Compute rates over the window, extended to whole minutes, up to now."""
    store = call.state.engine.store
    (row,) = await store.database.fetch("now")
    now = row["now"].timestamp()
    window = call.state.settings.recent_message_window_seconds
    start = int((now - window) // 60) * 60
    range_ = Range(start, int(now // 60) * 60 + 60, 60)
    totals = await _analytics(call).totals(range_, ids)

    def rate(name: str) -> float:
        return round(sum(each[name] or 0 for each in totals.values()) / (now - start), 3)

    return Rates(pushed=rate("pushed"), popped=rate("popped"), acked=rate("acked")), round(
        now - start
    )


@route(
    "GET /api/v1/analytics/queue-depths",
    "Show queue depths over time",
    Permission.BROWSE,
    {200: QueueDepths},
    is_shared=True,
    query=ScopeQuery,
    problems=(errors.QueueNotFound,),
    everywhere=Summed(joined_series, "queues"),
)
async def depths(call: Call) -> Answer:
    """Return queue depths, now and over time."""
    query = call.query(ScopeQuery)
    rows = await _found(call, query)
    range_ = await _range(call, query)
    sampled = await _sampled(call, rows)
    return Answer(
        QueueDepths(
            **_bounds(range_),
            queues=[QueueDepth(**_queue(row), **sampled[row["id"]]) for row in rows],
            series=await _points(call, range_, rows, SAMPLED),
        )
    )


async def _sampled(call: Call, rows: Sequence[Record]) -> dict[int, dict[str, Any]]:
    """Return the last sample of each queue as response fields."""
    found: dict[int, dict[str, Any]] = {row["id"]: {"groups": []} for row in rows}
    for row in await _analytics(call).depths(_ids(rows)):
        of_queue = found[row["queue_id"]]
        if row["group_id"] == 0:
            of_queue.update(
                depth=row["depth"],
                oldest_age_seconds=row["oldest_age_seconds"],
                dead_letters=row["dead_letters"],
                scheduled=row["scheduled"],
                exact=row["is_exact"],
                sampled_at=row["sampled_at"],
            )
        elif row["group"] is not None:
            of_queue["groups"].append(
                GroupFigures(
                    consumer_group=None if row["group"] == QUEUE_MODE else row["group"],
                    lag=row["depth"],
                    oldest_age_seconds=row["oldest_age_seconds"],
                    deliveries=row["deliveries"],
                    exact=row["is_exact"],
                )
            )
    return found


def _queue(row: Record) -> dict[str, Any]:
    return {
        "queue": row["name"],
        "namespace": row["namespace"],
        "task": row["task"],
        "paused": row["paused"],
    }


@route(
    "GET /api/v1/analytics/queue/{queue}",
    "Show a queue over time",
    Permission.BROWSE,
    {200: QueueAnalytics},
    is_shared=True,
    query=RangeQuery,
    problems=(errors.QueueNotFound,),
    spread=Summed(joined_series),
)
async def queue(call: Call) -> Answer:
    """Return one queue: now, in a time range, and over time."""
    query = call.query(RangeQuery)
    name = call.parameters["queue"]
    rows = await _found(call, ScopeQuery(queue=name))
    range_ = await _range(call, query)
    (figures,) = await _figures(call, range_, rows)
    return Answer(
        QueueAnalytics(
            **_bounds(range_), queue=figures, series=await _points(call, range_, rows, METRICS)
        )
    )


async def _figures(call: Call, range_: Range, rows: Sequence[Record]) -> list[QueueFigures]:
    sampled = await _sampled(call, rows)
    totals = await _analytics(call).totals(range_, _ids(rows))
    return [
        QueueFigures(**_queue(row), **sampled[row["id"]], totals=Figures(**totals[row["id"]]))
        for row in rows
    ]


@route(
    "GET /api/v1/analytics/queues",
    "List queues over time",
    Permission.BROWSE,
    {200: QueuesAnalytics},
    is_shared=True,
    query=QueuesQuery,
    everywhere=Paged("queues", by("queue"), join=joined, rest=page_of_series, queue="queue"),
)
async def queues(call: Call) -> Answer:
    """List queues with their traffic in a time range, in pages."""
    query = call.query(QueuesQuery)
    limit = limit_of(call, query.limit)
    (after,) = place_of(query.cursor, tuple[Text], ("",))
    rows = await _analytics(call).queues(
        namespace=query.namespace,
        task=query.task,
        after=after,
        limit=limit,
        patterns=call.caller.patterns,
    )
    cursor = cursor_after(rows, limit, "name")
    range_ = await _range(call, query)
    return Answer(
        QueuesAnalytics(
            **_bounds(range_),
            queues=await _figures(call, range_, rows),
            series=await _points(call, range_, rows, (*COUNTED, *TIMED)),
            next_cursor=cursor,
        )
    )


@route(
    "GET /api/v1/analytics",
    "Show a namespace over time",
    Permission.BROWSE,
    {200: ScopeAnalytics},
    is_shared=True,
    query=ScopeQuery,
    problems=(errors.QueueNotFound,),
    everywhere=Summed(joined_series),
)
async def scope(call: Call) -> Answer:
    """Return the sum over the queues of a namespace or task."""
    query = call.query(ScopeQuery)
    rows = await _found(call, query)
    range_ = await _range(call, query)
    totals = await _analytics(call).totals(range_, _ids(rows))
    sums: dict[str, Any] = {}
    for name in COUNTED:
        known = [each[name] for each in totals.values() if each[name] is not None]
        sums[name] = sum(known) if known else None
    return Answer(
        ScopeAnalytics(
            **_bounds(range_),
            namespace=query.namespace,
            task=query.task,
            queues=len(rows),
            totals=Figures(**sums),
            series=await _points(call, range_, rows, METRICS),
        )
    )
