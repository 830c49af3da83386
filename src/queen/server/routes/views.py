"""Figures as they are told: what is not known is null, never 0."""

import math
from collections.abc import Sequence
from typing import Any, Final

from queen.store.connection.database import Record
from queen.wire.resources import GroupSummary, LeaseInfo

LIST: Final = 1_000
"""Rows of a kind that are visited for a figure in a list; more, and it is null."""
DETAIL: Final = 2_000
"""The same where one queue is shown."""
_NAMES: Final = {
    "partitions": "partitions",
    "consumer_groups": "groups",
    "pending": "pending",
    "held": "held",
    "waiting": "waiting",
    "scheduled": "scheduled",
    "dead_letters": "dead_letters",
}
_RATES: Final = ("pushed_per_second", "popped_per_second")


def figures(row: Record) -> dict[str, Any]:
    """The figures of one queue."""
    return {
        **{name: row[column] for name, column in _NAMES.items()},
        **{name: row[name] for name in _RATES},
        "oldest_age_seconds": row["oldest_seconds"],
        "sampled_pending": row["sampled_pending"],
        "sampled_oldest_age_seconds": row["sampled_oldest_seconds"],
    }


def total(rows: Sequence[Record], *, is_known: bool) -> dict[str, Any]:
    """The figures of several queues as one: null where one of them is."""
    found: dict[str, Any] = {}
    for name, column in _NAMES.items():
        values = [row[column] for row in rows]
        found[name] = sum(values) if is_known and None not in values else None
    for name in _RATES:
        # Of a queue that nothing was ever counted of, nothing went through.
        known = [row[name] for row in rows if row[name] is not None]
        found[name] = sum(known) if is_known and known else None
    ages = [row["oldest_seconds"] for row in rows if row["oldest_seconds"] is not None]
    found["oldest_age_seconds"] = max(ages, default=None) if found["pending"] is not None else None
    depths = [row["sampled_pending"] for row in rows if row["sampled_pending"] is not None]
    ages = [row["sampled_oldest_seconds"] for row in rows if row["sampled_oldest_seconds"]]
    found["sampled_pending"] = sum(depths) if is_known and depths else None
    found["sampled_oldest_age_seconds"] = max(ages, default=None) if is_known else None
    return found


def worst_of(rows: Sequence[Record], most: int) -> list[Record]:
    """Queues that wait longest, have most dead letters and are paused: so many of each, so."""

    def age(row: Record) -> float:
        return row["oldest_seconds"] or row["sampled_oldest_seconds"] or 0.0

    def dead_letters(row: Record) -> float:
        # Too many to be counted are more than any number of them.
        return math.inf if row["dead_letters"] is None else row["dead_letters"]

    kinds = (
        sorted((row for row in rows if age(row)), key=age, reverse=True),
        sorted((row for row in rows if dead_letters(row)), key=dead_letters, reverse=True),
        [row for row in rows if row["paused"]],
    )
    return [*{row["id"]: row for kind in kinds for row in kind[:most]}.values()]


def group_summary(row: Record) -> GroupSummary:
    """A group, and how far it is behind."""
    lag = row["lag"]
    return GroupSummary(
        consumer_group=row["name"],
        queue=row["queue"],
        namespace=row["namespace"],
        lag=lag,
        lag_seconds=None if lag is None else row["oldest_seconds"] or 0.0,
        held=row["held"],
        waiting=row["waiting"],
        subscription_mode=row["start_mode"],
        subscription_from=row["start_at"],
        created_at=row["created_at"],
        last_pop_at=row["last_pop_at"],
    )


def lease_info(row: Record) -> LeaseInfo | None:
    """Who holds messages of a partition; None: nobody."""
    if row["lease_until"] is None:
        return None
    return LeaseInfo(
        consumer_group=row["lease_group"],
        expires_at=row["lease_until"],
        attempt=row["lease_attempts"] + 1,
        messages=row["lease_messages"],
    )
