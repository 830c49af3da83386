"""How the responses of several databases about a spread queue become one."""

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from msgspec import structs

from queen import errors
from queen.cluster.cluster import Cluster
from queen.engine.engine import Engine
from queen.server.http.call import Call, Order
from queen.store.cluster.homes import SPREAD
from queen.wire.resources import (
    Counted,
    ErrorKind,
    ErrorKinds,
    GroupSummary,
    OperationStarted,
    QueueDetail,
    QueueSummary,
)

T = TypeVar("T")
Q = TypeVar("Q", bound=QueueSummary)
Read = Callable[[Call, Sequence[T]], Awaitable[Sequence[T]]]
"""Reads the same entries from another database, without those that it lacks."""

_COUNTS: Final = ("partitions", "pending", "held", "waiting", "scheduled", "dead_letters")
_KNOWN: Final = ("sampled_pending", "pushed_per_second", "popped_per_second")
_AGES: Final = ("oldest_age_seconds", "sampled_oldest_age_seconds")


def unsorted(query: object) -> Order:
    """Lists that show one database after the other."""
    del query
    return lambda _: 0, False


def newest(due: str) -> Callable[[Any], Order]:
    """Lists with the newest entry first, or with those that are due first. ``due``: its field."""

    def order(query: Any) -> Order:  # noqa: ANN401 - of the route
        if query.status == "scheduled":
            return lambda each: getattr(each, due), False
        return lambda each: each.created_at, True

    return order


def of_scans(pages: Sequence[Any]) -> dict[str, Any]:
    """How many entries all databases scanned for a page."""
    return {
        "scanned": sum(page.scanned for page in pages),
        "complete": all(page.complete for page in pages),
    }


def of_operations(bodies: Sequence[Counted | OperationStarted]) -> Counted | OperationStarted:
    """The counts of all databases, or the operation of the first one. Each has its own."""
    counts = [each for each in bodies if isinstance(each, Counted)]
    if not counts:
        return bodies[0]
    is_complete = all(each.complete for each in counts)
    return Counted(count=sum(each.count for each in counts), complete=is_complete)


def of_errors(bodies: Sequence[ErrorKinds]) -> ErrorKinds:
    """The kinds of errors in all databases, those with the most dead letters first."""
    kinds: dict[str, ErrorKind] = {}
    for each in (kind for body in bodies for kind in body.errors):
        known = kinds.get(each.fingerprint)
        kinds[each.fingerprint] = (
            each
            if known is None
            else structs.replace(
                known,
                count=known.count + each.count,
                first_at=min(known.first_at, each.first_at),
                last_at=max(known.last_at, each.last_at),
            )
        )
    return ErrorKinds(
        errors=sorted(kinds.values(), key=lambda each: each.count, reverse=True),
        scanned=sum(body.scanned for body in bodies),
        complete=all(body.complete for body in bodies),
    )


def of_details(bodies: Sequence[QueueDetail]) -> QueueDetail:
    """A queue with the counts of all databases."""
    groups: dict[str, list[GroupSummary]] = {}
    for body in bodies:
        for group in body.groups:
            groups.setdefault(group.consumer_group, []).append(group)
    return structs.replace(of_queue(bodies), groups=[of_group(some) for some in groups.values()])


def of_queue(entries: Sequence[Q]) -> Q:
    """A queue in a list. A count that is unknown in one database is unknown."""
    histories = [each.history for each in entries if each.history is not None]
    changes: dict[str, Any] = {
        **{name: _total(entries, name) for name in _COUNTS},
        **{name: _added([getattr(each, name) for each in entries]) for name in _KNOWN},
        **{name: _largest(entries, name) for name in _AGES},
        "history": [_added(depths) for depths in zip(*histories, strict=True)] or None,
    }
    return structs.replace(entries[0], **changes)


def of_group(entries: Sequence[GroupSummary]) -> GroupSummary:
    """A group of a queue. A count that is unknown in one database is unknown."""
    changes: dict[str, Any] = {name: _total(entries, name) for name in ("lag", "held", "waiting")}
    if changes["lag"] is not None:
        changes["lag_seconds"] = _largest(entries, "lag_seconds")
    return structs.replace(entries[0], **changes, last_pop_at=_largest(entries, "last_pop_at"))


async def completed(
    call: Call,
    entries: Sequence[T],
    engines: Sequence[Engine],
    *,
    queue: Callable[[T], str],
    key: Callable[[T], object],
    read: Read[T],
    combine: Callable[[Sequence[T]], T],
) -> list[T]:
    """Entries with the counts of all databases that are available, each once."""
    spread = await names_of_spread(call.state.cluster, {queue(each) for each in entries})
    listed = {key(each): each for each in entries}
    found: dict[object, list[T]] = {}
    wanted = [each for each in listed.values() if queue(each) in spread]
    for engine in engines if wanted else ():
        with contextlib.suppress(errors.DatabaseUnavailable):
            for each in await read(call.at(engine), wanted):
                found.setdefault(key(each), []).append(each)
    return [combine(found[name]) if name in found else each for name, each in listed.items()]


async def names_of_spread(cluster: Cluster, names: set[str]) -> set[str]:
    """The spread queues among these."""
    slots = await cluster.places.of_queues(names)
    return {name for name, slot in slots.items() if slot == SPREAD}


async def as_listed(call: Call, entries: Sequence[T], engines: Sequence[Engine]) -> list[T]:
    """Entries that are the same in all databases."""
    del call, engines
    return [*entries]


def _total(entries: Sequence[object], name: str) -> int | None:
    values = [getattr(each, name) for each in entries]
    return None if None in values else sum(values)


def _added(values: Sequence[Any]) -> Any:  # noqa: ANN401 - a number, or None
    known = [each for each in values if each is not None]
    return sum(known) if known else None


def _largest(entries: Sequence[object], name: str) -> Any:  # noqa: ANN401 - of any field
    values = (getattr(each, name) for each in entries)
    return max((each for each in values if each is not None), default=None)
