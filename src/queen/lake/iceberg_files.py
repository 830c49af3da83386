"""
The files of an Iceberg table, also if another tool deleted rows or changed the schema.

Files are read directly as long as the table has the columns that Queen created, and no deleted
rows. Otherwise pyiceberg reads them: it applies deletes, and finds renamed columns. It can't read
all files, because it returns an empty list of structs instead of null.
"""

# pyright: basic, reportAttributeAccessIssue=false
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import DayTransform
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

from queen import errors
from queen.arrow.columns import BY_NAME, COLUMNS
from queen.lake.day_files import SCHEMA
from queen.lake.reading import ALWAYS, Reader, TimeRange
from queen.lake.records import DataFile
from queen.lake.storage import StorageOptions, is_below, local
from queen.lake.typed_columns import DATA, MISFIT, align, small_type

_EPOCH: Final = date(1970, 1, 1)
_EPOCH_AT: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TYPES: Final = {"offset": LongType(), "createdAt": TimestamptzType()}
_TIME_ID: Final = COLUMNS.index("createdAt") + 1
TABLE_SCHEMA: Final = Schema(
    *(
        NestedField(
            number, name, _TYPES.get(name, StringType()), required=not BY_NAME[name].is_optional
        )
        for number, name in enumerate(COLUMNS, 1)
    )
)
BY_DAY: Final = PartitionSpec(PartitionField(_TIME_ID, 1000, DayTransform(), "day"))


def scan_tasks(table: Table) -> list[FileScanTask]:
    """Return the files with their deletes, sorted by name, which is the order of the archive."""
    try:
        tasks = list(table.scan().plan_files())
    except ValueError as error:
        if "equality deletes" not in str(error):
            raise
        raise errors.InvalidOption(
            f"{'.'.join(table.name())} has equality deletes, which pyiceberg can't read: run"
            " rewrite_data_files of Spark or Trino on the table first"
        ) from error
    for path in (file.file_path for task in tasks for file in (task.file, *task.delete_files)):
        if not is_below(path, table.location()):
            # Another client added it. It may belong to somebody else.
            raise errors.InvalidOption(
                f"{'.'.join(table.name())} contains {path}, which is outside its location"
                f" {table.location()}: remove it from the table"
            )
    return sorted(tasks, key=lambda task: task.file.file_path)


def data_file(table: Table, task: FileScanTask) -> DataFile:
    """Describe a file. Its day is None if another tool partitioned the table differently."""
    deletes = tuple(sorted(local(each.file_path) for each in task.delete_files))
    file = task.file
    return DataFile(
        file.file_path,
        _day(table, file),
        file.record_count,
        file.file_size_in_bytes,
        deletes,
        first_at=_time(file.lower_bounds),
        last_at=_time(file.upper_bounds),
    )


def is_evolved(table: Table) -> bool:
    """Whether the columns, other than typed ones, differ from those that Queen created."""
    columns = [field for field in table.schema().fields if field.name not in (DATA, MISFIT)]
    return {_shape(field) for field in columns} != {_shape(field) for field in TABLE_SCHEMA.fields}


def file_schema(table: Table) -> pa.Schema:
    """Return the columns of an archive's new files: those of a message, and typed ones."""
    names = [name for name in (DATA, MISFIT) if _current(table.schema(), name)]
    if not names:
        return SCHEMA
    typed = schema_to_pyarrow(table.schema().select(*names))
    return pa.schema([*SCHEMA, *(each.with_type(small_type(each.type)) for each in typed)])


def rewrite_schema(table: Table) -> pa.Schema:
    """Return the columns that new files of the table must have, with their numbers."""
    if not is_evolved(table):
        return file_schema(table)
    columns = schema_to_pyarrow(table.schema())
    return pa.schema([each.with_type(small_type(each.type)) for each in columns])


class IcebergReader(Reader):
    """Reads files of one state of a table."""

    def __init__(
        self, table: Table, tasks: Sequence[FileScanTask], options: StorageOptions
    ) -> None:
        schema = file_schema(table)
        super().__init__(options, None if schema is SCHEMA else schema)
        # Without snapshots and manifests, because it is sent to each task.
        slim = {"snapshots": [], "snapshot_log": [], "metadata_log": [], "refs": {}}
        self._metadata: TableMetadata = table.metadata.model_copy(
            update={**slim, "current_snapshot_id": None}
        )
        self._is_moved = is_evolved(table)
        self._tasks: Mapping[str, FileScanTask] = {
            task.file.file_path: task for task in tasks if self._is_moved or task.delete_files
        }

    def read(
        self, file: DataFile, columns: Sequence[str], rows: int, during: TimeRange = ALWAYS
    ) -> Iterator[pa.RecordBatch]:
        task = self._tasks.get(file.path)
        if task is None:
            yield from super().read(file, columns, rows, during)
            return
        schema = self._metadata.schema()
        present = {name: current for name in columns if (current := _current(schema, name))}
        time = _current(schema, "createdAt")
        names = {*present.values(), *([time] if time else [])}
        scan = ArrowScan(self._metadata, self._io(file.path), schema.select(*names), AlwaysTrue())
        wanted = during.filter(time or "")
        for batch in scan.to_record_batches([task]):
            kept = batch if wanted is None else batch.filter(wanted)
            for start in range(0, kept.num_rows, rows):
                yield _renamed(kept.slice(start, rows), columns, present)

    def _io(self, path: str) -> Any:  # noqa: ANN401 - a FileIO
        return load_file_io(self._options.for_iceberg(), path)


def _current(schema: Schema, name: str) -> str | None:
    """Return the present name of a column: by its number, if Queen created it."""
    if name in BY_NAME:
        return schema.find_column_name(COLUMNS.index(name) + 1)
    return name if name in schema.column_names else None


def _renamed(
    batch: pa.RecordBatch, columns: Sequence[str], present: Mapping[str, str]
) -> pa.RecordBatch:
    """Return the columns under the names that the caller knows. Dropped columns are null."""
    arrays, fields = [], []
    for name in columns:
        column = BY_NAME.get(name)
        if name in present:
            array = batch.column(present[name])
            wanted = small_type(array.type) if column is None else column.arrow
            arrays.append(align(array, wanted))
        elif column is not None and column.is_optional:
            arrays.append(pa.nulls(batch.num_rows, column.arrow))
        else:
            raise errors.InvalidOption(f"the table has no column {name} any more")
        is_optional = column is None or column.is_optional
        fields.append(pa.field(name, arrays[-1].type, is_optional))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _shape(field: NestedField) -> tuple[int, str, str]:
    return field.field_id, field.name, str(field.field_type)


def _time(bounds: Mapping[int, bytes] | None) -> datetime | None:
    """Return a bound of the time of messages, if the table has it."""
    bound = (bounds or {}).get(_TIME_ID)
    if bound is None:
        return None
    return _EPOCH_AT + timedelta(microseconds=from_bytes(TimestamptzType(), bound))


def _day(table: Table, file: IcebergFile) -> date | None:
    fields = table.metadata.specs()[file.spec_id].fields
    for position, field in enumerate(fields):
        if field.source_id == _TIME_ID and isinstance(field.transform, DayTransform):
            day: Any = file.partition[position]
            return day if isinstance(day, date) else _EPOCH + timedelta(days=day)
    return None
