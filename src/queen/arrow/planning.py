"""Plan what to read: where batches end, and how tasks share them."""

from datetime import datetime
from itertools import pairwise
from typing import Any, Final, NamedTuple

from queen import errors
from queen.arrow.database import Connection, call
from queen.arrow.ranges import Position, SegmentRange

_TASKS: Final = 16
_LEAST_PER_TASK: Final = 500_000
"""Messages per task, if the number of tasks is not set. Smaller tasks cost more than they save."""


def find_queue(connection: Connection, name: str) -> dict[str, Any]:
    """Return the queue's row. Raises QueueNotFound, or CrossShard if several databases have it."""
    for row in call(connection, "pipeline_queue", name):
        if row["is_divided"]:
            raise errors.CrossShard(
                f"queue {name} has placement spread, so several databases have its messages. The"
                " Spark source reads them with the option databases. Pipelines need one database"
            )
        return row
    raise errors.QueueNotFound(f"queue {name} does not exist")


def find_queue_by_id(connection: Connection, queue_id: int) -> dict[str, Any] | None:
    """Return the queue's row, or None if it was deleted."""
    rows = call(connection, "pipeline_queue_by_id", queue_id)
    return rows[0] if rows else None


def horizon(connection: Connection) -> int:
    """Return a transaction number. Everything that lower ones stored is readable."""
    return call(connection, "horizon")[0]["xid"]


def xid_at(connection: Connection, queue_id: int, at: datetime, *, is_start: bool = True) -> int:
    """
    Return the first transaction that may have stored messages of the queue at that time.

    It is the start of a range, or else its end.
    """
    return call(connection, "xid_at", queue_id, at, is_start)[0]["xid"]


class BatchEnd(NamedTuple):
    """Where a batch ends: after the last segment that it contains."""

    position: Position
    stored_at: int
    """When that segment was stored, in microseconds since 1970. With the position, it is unique."""
    is_split: bool
    """The next batch continues the same transaction."""


def plan_batch(
    connection: Connection,
    queue_id: int,
    start: Position,
    end_xid: int,
    max_messages: int | None = None,
    max_bytes: int | None = None,
    *,
    is_whole: bool = False,
) -> BatchEnd | None:
    """
    Return where a batch that starts here ends, or None if there is nothing to read.

    ``is_whole`` never splits a transaction, even if it is larger than the limits.
    """
    arguments = (queue_id, *start, end_xid, max_messages, max_bytes, is_whole)
    for row in call(connection, "plan_batch", *arguments):
        return batch_end(row)
    return None


def batch_end(row: dict[str, Any]) -> BatchEnd:
    """Convert a row."""
    position = Position(row["xid"], row["partition_id"], row["end_offset"])
    return BatchEnd(position, row["stored_at"], row.get("is_split", False))


def last_before(connection: Connection, queue_id: int, xid: int) -> BatchEnd | None:
    """Return where everything ends that lower transactions have stored."""
    for row in call(connection, "last_before", queue_id, xid):
        return batch_end(row)
    return None


def split_batch(
    connection: Connection, range_: SegmentRange, tasks: int | None = None
) -> list[SegmentRange]:
    """Split a batch into ordered parts for tasks."""
    limits = (_TASKS, _LEAST_PER_TASK) if tasks is None else (tasks, 1)
    arguments = (range_.queue_id, *range_.start, *range_.end, *limits)
    rows = call(connection, "split_batch", *arguments)
    if not rows:
        return []
    starts = [range_.start, *(Position(*row.values()) for row in rows[1:])]
    return [range_._replace(start=start, end=end) for start, end in pairwise([*starts, range_.end])]
