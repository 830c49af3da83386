"""How the responses of several databases become one."""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec import structs

from queen.server.databases.spread_merges import of_queue
from queen.server.http.call import Order, Paged
from queen.wire.analytics import Percentiles, Point, Series
from queen.wire.resources import (
    Buffer,
    Duties,
    Duty,
    GroupDeleted,
    Migrations,
    Overview,
    QueueSummary,
    Scope,
    Table,
    Tables,
    TraceName,
)

T = TypeVar("T", bound=msgspec.Struct)

_LARGEST: Final = frozenset({"oldest_age_seconds", "sampled_oldest_age_seconds"})
"""Counts and times of which the largest is kept; others are added."""
_SORTED: Final[dict[str, str]] = {
    "createdAt": "created_at",
    "deadLetters": "dead_letters",
    "failedAt": "failed_at",
    "lag": "lag",
    "lagSeconds": "lag_seconds",
    "name": "name",
    "oldestAgeSeconds": "oldest_age_seconds",
    "pending": "pending",
}


def by(field: str, *, is_down: bool = False) -> Callable[[Any], Order]:
    """Lists that are always sorted by a field."""
    return lambda _: (lambda entry: _place(getattr(entry, field)), is_down)


def as_sorted(**names: str) -> Callable[[Any], Order]:
    """Lists in the order that the query asks for. ``names``: fields with other names."""

    def order(query: Any) -> Order:  # noqa: ANN401 - of the route
        sort = query.sort.removeprefix("-")
        field = names.get(sort, _SORTED[sort])
        return lambda entry: _place(getattr(entry, field)), query.sort.startswith("-")

    return order


def _place(value: object) -> tuple[bool, Any]:
    """Unknown values are the smallest."""
    return value is not None, value


def number(entry: Any) -> tuple[int, ...]:  # noqa: ANN401 - an entry with an id
    """The order of ids that are numbers in text."""
    return tuple(int(part) for part in entry.id.split("."))


def by_number(query: object) -> Order:
    """Lists with the newest number first."""
    del query
    return number, True


def added(first: T, *others: T) -> T:
    """Add the numbers of fields with the same name; other fields are those of the first."""
    changes: dict[str, Any] = {}
    for field in structs.fields(first):
        values = [getattr(each, field.name) for each in (first, *others)]
        known = [each for each in values if each is not None and each is not msgspec.UNSET]
        if not known:
            continue
        if all(isinstance(each, msgspec.Struct) for each in known):
            # Percentiles of several databases can't be computed from theirs.
            is_one = len(known) == 1 or not isinstance(known[0], Percentiles)
            changes[field.name] = added(*known) if is_one else None
        elif all(isinstance(each, int | float) and not isinstance(each, bool) for each in known):
            changes[field.name] = max(known) if field.name in _LARGEST else sum(known)
    return structs.replace(first, **changes)


def joined(one: T, other: T) -> T:
    """The counts of a spread queue in two databases."""
    return added(one, other)


def summed(bodies: Sequence[T]) -> T:
    """The counts of all databases."""
    return added(*bodies)


def joined_series(bodies: Sequence[Series]) -> Series:
    """The series of all databases, and their counts and lists of queues."""
    at: dict[Any, list[Point]] = {}
    for body in bodies:
        for point in body.series:
            at.setdefault(point.t, []).append(point)
    whole = added(*(structs.replace(each, series=[]) for each in bodies))
    changes: dict[str, Any] = {
        "series": [added(*points) for _, points in sorted(at.items())],
        "bucket_seconds": bodies[0].bucket_seconds,
    }
    if hasattr(whole, "window_seconds"):
        changes["window_seconds"] = max(getattr(each, "window_seconds") for each in bodies)  # noqa: B009 - of some series
    queues: Any = getattr(whole, "queues", None)
    if isinstance(queues, list):
        entries: dict[str, Any] = {}
        for body in bodies:
            for each in getattr(body, "queues"):  # noqa: B009 - of some series
                known = entries.get(each.queue)
                entries[each.queue] = each if known is None else joined(known, each)
        changes["queues"] = [entries[name] for name in sorted(entries)]
    return structs.replace(whole, **changes)


def page_of_series(bodies: Sequence[Any]) -> dict[str, Any]:
    """The series beside a list of queues."""
    return {"series": joined_series(bodies).series}


def scopes(field: str) -> Paged:
    """A list of namespaces or tasks, of which some are in several databases."""

    def join(one: Scope, other: Scope) -> Scope:
        return added(one, other)

    return Paged(field, by("name"), join=join)


def same(bodies: Sequence[T]) -> T:
    """A response that is the same for all databases."""
    return bodies[0]


def of_totals(pages: Sequence[Any]) -> dict[str, Any]:
    """The total beside a list; unknown if it is unknown for one database."""
    totals = [page.total for page in pages]
    return {"total": None if None in totals else sum(totals)}


def of_buffers(bodies: Sequence[Buffer]) -> Buffer:
    """The file buffers of all databases."""
    known = [each.oldest_seconds for each in bodies if each.oldest_seconds is not None]
    return structs.replace(
        added(*bodies),
        buffering=any(each.buffering for each in bodies),
        db_healthy=all(each.db_healthy for each in bodies),
        max_bytes=bodies[0].max_bytes,
        oldest_seconds=max(known, default=None),
    )


def of_deleted(bodies: Sequence[GroupDeleted]) -> GroupDeleted:
    """A group that was deleted in all its queues."""
    queues = [queue for each in bodies for queue in each.queues]
    return structs.replace(bodies[0], queues=sorted(queues))


def of_overviews(bodies: Sequence[Overview]) -> Overview:
    """The counts of all databases, and the queues with the most waiting messages."""
    by_name: dict[str, list[QueueSummary]] = {}
    for queue in (queue for each in bodies for queue in each.worst):
        by_name.setdefault(queue.name, []).append(queue)
    worst = sorted(
        map(of_queue, by_name.values()),
        key=lambda queue: _place(queue.pending),
        reverse=True,
    )
    most = max(len(each.worst) for each in bodies)
    return structs.replace(added(*bodies), worst=worst[:most])


def of_migrations(bodies: Sequence[Migrations]) -> Migrations:
    """Migrations that are applied in all databases, and those that one lacks."""
    common = set[str].intersection(*({step.name for step in each.applied} for each in bodies))
    pending = [*dict.fromkeys(name for each in bodies for name in each.pending)]
    applied = [step for step in bodies[0].applied if step.name in common]
    return Migrations(applied=applied, pending=pending)


def join_names(one: TraceName, other: TraceName) -> TraceName:
    """A name with events in two databases."""
    last = max(one.last_seen_at, other.last_seen_at)
    return structs.replace(added(one, other), last_seen_at=last)


def by_queue_and_name(query: object) -> Order:
    """Holds by queue and name."""
    del query
    return lambda hold: (hold.queue, hold.name), False


def of_tables(bodies: Sequence[Tables]) -> Tables:
    """The sizes of the tables of all databases, and the oldest transaction of all."""
    by_name: dict[str, list[Table]] = {}
    for body in bodies:
        for table in body.tables:
            by_name.setdefault(table.name, []).append(table)
    tables = [added(*some) for some in by_name.values()]
    transactions = [each.oldest_transaction for each in bodies if each.oldest_transaction]
    horizons = [each.horizon for each in bodies if each.horizon]
    return Tables(
        tables=sorted(tables, key=lambda table: table.total_bytes, reverse=True),
        oldest_transaction=max(transactions, key=lambda each: each.age_seconds, default=None),
        horizon=max(horizons, key=lambda each: each.age_seconds or 0.0, default=None),
    )


def of_duties(bodies: Sequence[Duties]) -> Duties:
    """Each background task once, as it is in the database where it is furthest behind."""
    worst: dict[str, Duty] = {}
    for body in bodies:
        for duty in body.duties:
            if duty.name not in worst or _badness(duty) > _badness(worst[duty.name]):
                worst[duty.name] = duty
    return Duties(duties=[*worst.values()])


def _badness(duty: Duty) -> tuple[bool, float]:
    return duty.error is not None, duty.lag_seconds or 0.0
