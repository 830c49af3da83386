"""Convert rows to API structs. An unknown number is null, never 0."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from queen.codec.ids import reference
from queen.engine.buffer.file_buffer import age_seconds
from queen.engine.engine import Engine
from queen.settings import Settings
from queen.store.connection.database import Record
from queen.wire.resources import (
    Buffer,
    GroupSummary,
    LeaseInfo,
    Operation,
    SlotRange,
    TraceEvent,
)

S = TypeVar("S", bound=msgspec.Struct)
LIST: Final = 1_000
"""Rows of a kind that are counted for an entry of a list; null above."""
DETAIL: Final = 2_000
"""Rows of a kind that are counted for a single queue; null above."""
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


def of_row(
    type_: type[S],
    row: Record | Mapping[str, Any],
    **others: Any,  # noqa: ANN401 - of the struct
) -> S:
    """Build a struct from the columns with the names of its fields, and from the other fields."""
    names = type_.__struct_fields__
    return type_(**{name: row[name] for name in names if name not in others}, **others)


def figures(row: Record) -> dict[str, Any]:
    """Return the counts of one queue."""
    return {
        **{name: row[column] for name, column in _NAMES.items()},
        **{name: row[name] for name in _RATES},
        "oldest_age_seconds": row["oldest_seconds"],
        "sampled_pending": row["sampled_pending"],
        "sampled_oldest_age_seconds": row["sampled_oldest_seconds"],
    }


def total(rows: Sequence[Record], *, is_known: bool) -> dict[str, Any]:
    """Add the counts of several queues; null if one of them is."""
    found: dict[str, Any] = {}
    for name, column in _NAMES.items():
        values = [row[column] for row in rows]
        found[name] = sum(values) if is_known and None not in values else None
    for name in _RATES:
        # Without any counter, a queue has had no messages.
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
    """Return up to ``most`` queues each: the oldest messages, the most dead letters, paused."""

    def age(row: Record) -> float:
        return row["oldest_seconds"] or row["sampled_oldest_seconds"] or 0.0

    def dead_letters(row: Record) -> float:
        # A null count is above the limit of the count.
        return math.inf if row["dead_letters"] is None else row["dead_letters"]

    kinds = (
        sorted((row for row in rows if age(row)), key=age, reverse=True),
        sorted((row for row in rows if dead_letters(row)), key=dead_letters, reverse=True),
        [row for row in rows if row["paused"]],
    )
    return [*{row["id"]: row for kind in kinds for row in kind[:most]}.values()]


def group_summary(row: Record) -> GroupSummary:
    """Build the API's view of a group with its lag."""
    lag = row["lag"]
    return of_row(
        GroupSummary,
        row,
        consumer_group=row["name"],
        lag_seconds=None if lag is None else row["oldest_seconds"] or 0.0,
        subscription_mode=row["start_mode"],
        subscription_from=row["start_at"],
    )


def lease_info(row: Record) -> LeaseInfo | None:
    """Return the lease of a partition; None without one."""
    if row["lease_until"] is None:
        return None
    return LeaseInfo(
        consumer_group=row["lease_group"],
        expires_at=row["lease_until"],
        attempt=row["lease_attempts"] + 1,
        messages=row["lease_messages"],
    )


def buffer_info(engine: Engine, settings: Settings) -> Buffer:
    """Return the file buffer of this server, and whether the database is available."""
    folder = engine.buffer.folder if engine.buffer is not None else None
    return Buffer(
        enabled=folder is not None,
        buffering=engine.push_fallback.is_buffering,
        db_healthy=not engine.store.database.is_away,
        messages=folder.messages if folder is not None else 0,
        bytes=folder.state.size_bytes if folder is not None else 0,
        max_bytes=settings.file_buffer_max_bytes,
        oldest_seconds=age_seconds(folder.oldest) if folder and folder.oldest else None,
        failed_files=len(folder.failed()) + len(folder.torn()) if folder is not None else 0,
    )


def without_counts(buffer: Buffer) -> Buffer:
    """Remove counts that cover other callers' messages."""
    return msgspec.structs.replace(
        buffer, messages=None, bytes=None, oldest_seconds=None, failed_files=None
    )


def operation_info(row: Record) -> Operation:
    """Build the API's view of an operation."""
    return of_row(Operation, row, id=str(row["id"]))


def trace_event(row: Record) -> TraceEvent:
    """Build the API's view of a trace event."""
    return of_row(
        TraceEvent,
        row,
        id=str(row["id"]),
        partition_id=reference(row["partition_id"]),
        consumer_group=row["group"],
        trace_names=row["names"],
        data=msgspec.Raw(row["data"]),
    )


def slot_ranges(slots: Iterable[int]) -> list[SlotRange]:
    """Slots in order, as ranges."""
    ranges: list[list[int]] = []
    for slot in slots:
        if ranges and ranges[-1][1] == slot - 1:
            ranges[-1][1] = slot
        else:
            ranges.append([slot, slot])
    return [SlotRange(first=first, last=last) for first, last in ranges]
