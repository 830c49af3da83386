"""Read a range of a queue's log as Arrow batches."""

# pyright: basic, reportAttributeAccessIssue=false
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import Any, Final, NamedTuple

import pyarrow as pa
from adbc_driver_manager import AdbcConnection, AdbcDatabase, AdbcStatement, Error as AdbcError
from adbc_driver_postgresql import StatementOptions, connect as open_database

from queen import errors
from queen.arrow.columns import COLUMNS
from queen.arrow.database import bound, conninfo
from queen.arrow.expand import Expander
from queen.arrow.pool import Pool
from queen.arrow.ranges import SegmentRange

_BATCH_BYTES: Final = 16 * 2**20
"""Bytes of segments to fetch at a time."""


class _Opened(NamedTuple):
    database: AdbcDatabase
    connection: AdbcConnection

    def close(self) -> None:
        self.connection.close()
        self.database.close()


def read_range(
    dsn: str,
    range_: SegmentRange,
    columns: Sequence[str] = COLUMNS,
    *,
    read_dsn: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """
    Yield the messages of a range, each partition in order. Raises DataLost for deleted ones.

    If the replica ``read_dsn`` has the whole range, it is read there.
    """
    expand = Expander(dsn, range_, columns)
    statement = bound(
        "segments_between",
        range_.queue_id,
        *range_.start,
        *range_.end,
        instant(range_.start_at, "-infinity"),
        instant(range_.end_at, "infinity"),
        array(range_.partition_ids),
    )
    # On one connection, because a DSN may name several replicas that differ in progress.
    with _borrowed(dsn, read_dsn, range_) as connection:
        for segments in copied(connection, statement):
            if segments.num_rows:
                yield expand(segments)
        if range_.since_xid:
            _check_missed(connection, range_)


@contextmanager
def _borrowed(dsn: str, read_dsn: str | None, range_: SegmentRange) -> Generator[AdbcConnection]:
    """Lend a connection to the replica if it has the whole range, else to the primary."""
    with ExitStack() as stack:
        connection = None if read_dsn is None else _of_replica(stack, read_dsn, range_)
        if connection is None:
            connection = stack.enter_context(CONNECTIONS.borrow(dsn)).connection
            if not _has(connection, range_):
                raise errors.DatabaseUnavailable(
                    f"this replica does not have all data of queue {range_.queue} for this task"
                    " yet: run the task again"
                )
        yield connection


def _of_replica(stack: ExitStack, read_dsn: str, range_: SegmentRange) -> AdbcConnection | None:
    """Lend a connection until the stack is closed. None if it is unavailable or behind."""
    try:
        with ExitStack() as attempt:
            connection = attempt.enter_context(CONNECTIONS.borrow(read_dsn)).connection
            if _has(connection, range_):
                stack.push(attempt.pop_all())
                return connection
    except AdbcError:
        pass
    return None


def _has(connection: AdbcConnection, range_: SegmentRange) -> bool:
    """Whether the whole range is readable. False for a replica that is behind the planner."""
    return single_row(connection, "horizon")["xid"] >= range_.end.horizon


def _open(dsn: str) -> _Opened:
    database = open_database(conninfo(dsn))
    return _Opened(database, AdbcConnection(database))


def _is_alive(opened: _Opened) -> bool:
    try:
        single_row(opened.connection, "horizon")
    except AdbcError:
        return False
    return True


CONNECTIONS: Final = Pool(_open, _is_alive)


def copied(connection: AdbcConnection, text: str) -> Iterator[pa.RecordBatch]:
    """Run a statement by COPY. The `dbapi` module would import pandas, which takes a second."""
    with AdbcStatement(connection) as statement:
        statement.set_options(**{StatementOptions.BATCH_SIZE_HINT_BYTES.value: str(_BATCH_BYTES)})
        statement.set_sql_query(text)
        stream, _ = statement.execute_query()
        yield from pa.RecordBatchReader._import_from_c(stream.address)


def single_row(connection: AdbcConnection, name: str, *values: int | str) -> dict[str, Any]:
    """Return the single row of a named statement."""
    (row,) = [row for each in copied(connection, bound(name, *values)) for row in each.to_pylist()]
    return row


def _check_missed(connection: AdbcConnection, range_: SegmentRange) -> None:
    """Raise DataLost if messages were deleted that this reader has not read."""
    at = (range_.queue_id, *range_.start, range_.since_xid, array(range_.partition_ids))
    if single_row(connection, "missed", *at)["is_missed"]:
        raise data_lost(range_.queue)


def data_lost(queue: str) -> errors.DataLost:
    """The error for messages that were deleted before they were read."""
    return errors.DataLost(
        f"retention or a purge deleted messages of queue {queue} before they were read: raise its"
        " retention, hold it back (queen pipeline archive does), or continue without them by"
        " option failOnDataLoss=false"
    )


def instant(at: datetime | None, other: str) -> str:
    """A timestamp as a literal."""
    return f"'{other if at is None else at.isoformat()}'::timestamptz"


def array(ids: Iterable[int] | None) -> str:
    """An array as a literal."""
    return "null" if ids is None else "'{" + ",".join(map(str, ids)) + "}'"
