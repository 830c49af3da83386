"""
Read a queue from both tiers: archived messages from the lake, and later ones from PostgreSQL.

The lake contains the number of its last batch, and the ledger the transaction at which that batch
ends. So the two tiers meet at one position, whatever an archive does meanwhile.
"""

# pyright: basic, reportAttributeAccessIssue=false
from collections.abc import Iterator, Mapping
from functools import reduce
from operator import and_
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs
from pyspark.sql.datasource import InputPartition

from queen import errors
from queen.arrow.columns import BY_NAME
from queen.arrow.database import Connection, call
from queen.arrow.ranges import Position
from queen.lake import DataFile, open_lake
from queen.spark.format.options import Offsets, SourceOptions

_ROWS: Final = 20_000


class LakePart(InputPartition):
    """A file of the lake that one task reads."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class Archived(NamedTuple):
    """The files of a lake, and the position in the log after the last message in them."""

    files: list[DataFile]
    end: Position


def archived(
    connection: Connection, options: SourceOptions, queue: Mapping[str, Any]
) -> Archived | None:
    """Return the archived part of a queue, or None if it has no archive."""
    archive = _archive(connection, options, queue)
    if archive is None:
        return None
    place = {name: archive[name] for name in ("name", "format", "location")}
    with open_lake(options.ledger_dsn, **place) as lake:
        table = lake.load()
        last = lake.last_in(table)
        if last is None:
            return None
        files = lake.files_in(table)
    rows = call(connection, "archive_batch_end", archive["name"], last.batch, last.token)
    if not rows:
        raise errors.LakeDiverged(
            f"the lake {archive['location']} has batch {last.batch}, which the ledger of archive"
            f" {archive['name']} does not have: one was restored without the other"
        )
    return Archived([file for file in files if _has(file, options)], Position(rows[0]["xid"]))


def _archive(
    connection: Connection, options: SourceOptions, queue: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the archive to read. Raises InvalidOption if several are possible."""
    all_ = call(connection, "archives")
    found = [row for row in all_ if row["queue_id"] == queue["id"]]
    wanted = options.archive or (options.queue if len(found) > 1 else None)
    if wanted is not None:
        found = [row for row in found if row["name"] == wanted]
    if not found and wanted is not None:
        names = ", ".join(row["name"] for row in all_ if row["queue_id"] == queue["id"])
        raise errors.InvalidOption(
            f"archive: queue {options.queue} has no archive {wanted}; it has {names or 'none'}"
        )
    return found[0] if found else None


def read_file(options: SourceOptions, part: LakePart) -> Iterator[pa.RecordBatch]:
    """Yield the messages of a file that are inside the requested bounds."""
    system, path = fs.FileSystem.from_uri(part.path)
    schema = pa.schema([(name, BY_NAME[name].arrow) for name in options.columns])
    batches = ds.dataset(path, filesystem=system, format="parquet").to_batches(
        columns=list(options.columns),
        filter=_filter(options),
        batch_size=_ROWS,
        batch_readahead=2,
    )
    return (batch.cast(schema) for batch in batches if batch.num_rows)


def _has(file: DataFile, options: SourceOptions) -> bool:
    """Whether the file's day is in the requested time range."""
    start, end = options.starting_at, options.ending_at
    if file.day is None:
        return True
    return (start is None or file.day >= start.date()) and (end is None or file.day <= end.date())


def _filter(options: SourceOptions) -> ds.Expression | None:
    at, offset, partition = (ds.field(name) for name in ("createdAt", "offset", "partition"))
    instant = BY_NAME["createdAt"].arrow
    bounds: list[ds.Expression] = []
    if options.starting_at is not None:
        bounds.append(at >= pa.scalar(options.starting_at, instant))
    if options.ending_at is not None:
        bounds.append(at < pa.scalar(options.ending_at, instant))
    if options.partitions is not None:
        bounds.append(partition.isin(list(options.partitions)))
    bounds += [
        ~_is_named(partition, name) | (offset >= least)
        for name, least in _each(options.starting_offset)
    ]
    bounds += [
        ~_is_named(partition, name) | (offset < most) for name, most in _each(options.ending_offset)
    ]
    return reduce(and_, bounds) if bounds else None


def _each(offsets: Offsets | None) -> list[tuple[str | None, int]]:
    """Return offsets by partition. None is for all partitions."""
    if offsets is None or isinstance(offsets, int):
        return [] if offsets is None else [(None, offsets)]
    return list(offsets.items())


def _is_named(partition: ds.Expression, name: str | None) -> ds.Expression:
    return ds.scalar(True) if name is None else partition == name
