"""Read a part of a queue of several databases, wherever its slots are now."""

# pyright: basic, reportAttributeAccessIssue=false
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
from adbc_driver_manager import AdbcConnection, AdbcStatement

from queen import errors
from queen.arrow.births import BornPart, ranges
from queen.arrow.database import bound
from queen.arrow.expand import Expander
from queen.arrow.reading import CONNECTIONS, array, copied, data_lost, instant, single_row

_PATIENCE_SECONDS: Final = 60.0
"""How long a task searches for a slot. A hand-over takes seconds."""
_WAIT_SECONDS: Final = 0.1


def read_born(
    dsns: Mapping[str, str], part: BornPart, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """
    Yield the messages of a part, each partition in order. Raises DataLost for deleted ones.

    Each slot is read once, in a snapshot of a database that has all its rows. A slot that has moved
    since the batch was planned is read in its new database.
    """
    others = (name for name in dsns if name != part.database)
    order = [part.database, *others]
    missing = dict(part.slots)
    until = time.monotonic() + _PATIENCE_SECONDS
    while missing:
        for name in order:
            with _snapshot(dsns[name]) as connection:
                here = _slots_here(connection, missing)
                if here:
                    there = part._replace(slots=dict.fromkeys(here, 0))
                    yield from _read(connection, dsns[name], there, columns)
            missing = {slot: epoch for slot, epoch in missing.items() if slot not in here}
            if not missing:
                return
        if time.monotonic() > until:
            raise errors.DatabaseUnavailable(
                f"the databases {', '.join(order)} lack slot {next(iter(missing))} of queue"
                f" {part.whole.queue}: run the task again"
            )
        time.sleep(_WAIT_SECONDS)


@contextmanager
def _snapshot(dsn: str) -> Generator[AdbcConnection]:
    """Lend a connection whose statements see the same rows."""
    with CONNECTIONS.borrow(dsn) as opened:
        connection = opened.connection
        connection.set_autocommit(False)
        with AdbcStatement(connection) as statement:
            statement.set_sql_query("set transaction isolation level repeatable read, read only")
            statement.execute_update()
        yield connection
        connection.rollback()
        connection.set_autocommit(True)


def _slots_here(connection: AdbcConnection, wanted: Mapping[int, int]) -> list[int]:
    statement = bound("epochs_here", array(wanted), array(wanted.values()))
    return [row["slot"] for each in copied(connection, statement) for row in each.to_pylist()]


def _read(
    connection: AdbcConnection, dsn: str, part: BornPart, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    whole = part.whole
    expand = Expander(dsn, whole, columns)
    births = [array(each) for each in ranges(part.births)]
    partitions = array(whole.partition_ids)
    statement = bound(
        "segments_born",
        whole.queue_id,
        *births,
        array(each.until for each in part.births),
        instant(whole.start_at, "-infinity"),
        instant(whole.end_at, "infinity"),
        partitions,
        array(part.slots),
        *part.share,
    )
    for segments in copied(connection, statement):
        if segments.num_rows:
            yield expand(segments)
    if part.since:
        numbers, lows, _ = births
        at = (whole.queue_id, numbers, lows, array(part.since), partitions)
        if single_row(connection, "missed_births", *at)["is_missed"]:
            raise data_lost(whole.queue)
