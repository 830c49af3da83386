"""Plan what to read: where batches end, and how tasks share them."""

from datetime import datetime
from typing import Any, Final

from queen import errors
from queen.arrow.database import Connection, call
from queen.arrow.ranges import SegmentRange

_TASKS: Final = 16
_LEAST_PER_TASK: Final = 500_000
"""Messages per task, if the number of tasks is not set. Smaller tasks cost more than they save."""


def find_queue(connection: Connection, name: str) -> dict[str, Any]:
    """Return the queue's row. Raises QueueNotFound."""
    for row in call(connection, "pipeline_queue", name):
        return row
    raise errors.QueueNotFound(f"queue {name} does not exist")


def horizon(connection: Connection) -> int:
    """Return a transaction number. Everything that lower ones stored is readable."""
    return call(connection, "horizon")[0]["xid"]


def xid_at(connection: Connection, queue_id: int, at: datetime) -> int:
    """Return the first transaction that may have stored messages of the queue at that time."""
    return call(connection, "xid_at", queue_id, at)[0]["xid"]


def plan_batch(
    connection: Connection,
    queue_id: int,
    start_xid: int,
    end_xid: int,
    max_messages: int | None = None,
    max_bytes: int | None = None,
) -> int:
    """Return where a batch that starts here ends. ``start_xid`` if there is nothing to read."""
    rows = call(connection, "plan_batch", queue_id, start_xid, end_xid, max_messages, max_bytes)
    return rows[0]["xid"]


def split_batch(
    connection: Connection, range_: SegmentRange, tasks: int | None = None
) -> list[SegmentRange]:
    """Split a batch into ordered parts for tasks."""
    most, least = (_TASKS, _LEAST_PER_TASK) if tasks is None else (tasks, 1)
    rows = call(
        connection, "split_batch", range_.queue_id, range_.start_xid, range_.end_xid, most, least
    )
    if not rows:
        return []
    starts = [range_.start_xid, *(row["start_xid"] for row in rows[1:])]
    return [
        range_._replace(start_xid=start, end_xid=end)
        for start, end in zip(starts, [*starts[1:], range_.end_xid], strict=True)
    ]
