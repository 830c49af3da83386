"""
Read a queue from both tiers: archived messages from the lake, and later ones from PostgreSQL.

The lake contains the number of its last batch, and the ledger the transaction at which that batch
ends. So the two tiers meet at one position, whatever an archive does meanwhile.
"""

# pyright: basic, reportAttributeAccessIssue=false
from collections.abc import Iterator, Mapping
from functools import reduce
from operator import and_
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql.datasource import InputPartition

from queen import errors
from queen.arrow.columns import BY_NAME
from queen.arrow.database import Connection, call
from queen.arrow.ranges import Position
from queen.lake import CatalogOptions, DataFile, StorageOptions, open_lake
from queen.lake.ledger import archive_of
from queen.lake.reading import Reader, TimeRange
from queen.spark.format.options import Offsets, SourceOptions

_Options = TypeVar("_Options", StorageOptions, CatalogOptions)
_ROWS: Final = 20_000
_FILTERED: Final = ("partition", "offset")


class LakePart(InputPartition):
    """A file of the lake that one task reads."""

    def __init__(self, reader: Reader, file: DataFile) -> None:
        super().__init__(file.path)
        self.reader = reader
        self.file = file


class Archived(NamedTuple):
    """The part of a queue in a lake, and the position in the log after its last message."""

    parts: list[LakePart]
    end: Position


def archived(
    connection: Connection, options: SourceOptions, queue: Mapping[str, Any]
) -> Archived | None:
    """Return the archived part of a queue, or None if it has no archive."""
    archive = archive_of(connection, options.queue, queue["id"], options.archive)
    if archive is None:
        return None
    place = {name: archive[name] for name in ("name", "format", "location")}
    storage = _decoded("storage", options.storage, StorageOptions)
    catalog = None
    if options.catalog is not None:
        catalog = _decoded("catalog", options.catalog, CatalogOptions)
    with open_lake(options.ledger_dsn, **place, storage=storage, catalog=catalog) as lake:
        table = lake.load()
        last = lake.last_in(table)
        if last is None:
            return None
        snapshot = lake.snapshot(table)
    rows = call(connection, "archive_batch_end", archive["name"], last.batch, last.token)
    if not rows:
        raise errors.LakeDiverged(
            f"the lake {archive['location']} has batch {last.batch}, which the ledger of archive"
            f" {archive['name']} does not have: one was restored without the other"
        )
    during = TimeRange(options.starting_at, options.ending_at)
    parts = [LakePart(snapshot.reader, file) for file in snapshot.files_in(during)]
    return Archived(parts, Position(rows[0]["xid"]))


def _decoded(name: str, text: str, type_: type[_Options]) -> _Options:
    try:
        return msgspec.json.decode(text, type=type_)
    except (msgspec.DecodeError, ValueError) as error:
        raise errors.InvalidOption(f"{name}: {error}") from error


def read_file(options: SourceOptions, part: LakePart) -> Iterator[pa.RecordBatch]:
    """Yield the messages of a file that are inside the requested bounds."""
    wanted = _filter(options)
    filtered = [] if wanted is None else [each for each in _FILTERED if each not in options.columns]
    columns = [*options.columns, *filtered]
    schema = pa.schema([(name, BY_NAME[name].arrow) for name in options.columns])
    during = TimeRange(options.starting_at, options.ending_at)
    for batch in part.reader.read(part.file, columns, _ROWS, during):
        kept = batch if wanted is None else batch.filter(wanted)
        if kept.num_rows:
            yield kept.select(list(options.columns)).cast(schema)


def _filter(options: SourceOptions) -> ds.Expression | None:
    """Return the bounds by partition and offset."""
    partition, offset = (ds.field(name) for name in _FILTERED)
    bounds: list[ds.Expression] = []
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
