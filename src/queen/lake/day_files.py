"""Write messages to Parquet files, one per day, in tasks."""

# pyright: basic, reportAttributeAccessIssue=false
import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from typing import Any, Final
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from queen.arrow.columns import BY_NAME
from queen.lake.records import DataFile
from queen.lake.storage import NO_OPTIONS, Storage, StorageOptions
from queen.lake.typed_columns import MISFIT

SCHEMA: Final = pa.schema(
    [
        # Iceberg identifies columns by these numbers, independent of their names.
        pa.field(
            column.name,
            column.arrow,
            column.is_optional,
            metadata={"PARQUET:field_id": str(number)},
        )
        for number, column in enumerate(BY_NAME.values(), 1)
    ]
)
_GROUP_BYTES: Final = 64 * 2**20
"""Bytes of Arrow columns per row group."""
_HELD_BYTES: Final = 256 * 2**20
"""Bytes of all days together. Above it, the largest day is written."""
_DAY_MICROS: Final = 86_400_000_000
_REPEATED: Final = ["queue", "partition"]
_BOUNDED: Final = ["queue", "partition", "offset", "id", "transactionId", "traceId", "createdAt"]
_EPOCH: Final = date(1970, 1, 1)
_TIME: Final = "createdAt"
_TIME_ID: Final = str(list(BY_NAME).index(_TIME) + 1).encode()
_UPLOADS: Final = 3
"""Attempts to upload a file, in addition to the retries of each request."""
_CODEC: Final = "zstd"
_QUICK_CODEC: Final = "snappy"
_COPY_BYTES: Final = 8 * 2**20


class DayFiles:
    """
    The files of one attempt of one task. Their names are unique, so attempts never conflict.

    Usage::

        with DayFiles(directory, "0000000001-00000") as files:
            files.write(batch)
        files.closed  # The files that were written.
    """

    def __init__(
        self,
        folder: str,
        name: str,
        *,
        options: StorageOptions = NO_OPTIONS,
        schema: pa.Schema = SCHEMA,
        is_quick: bool = False,
    ) -> None:
        """``is_quick`` saves processor time, and compresses typed columns less."""
        self._storage = Storage(folder, options)
        self._folder = folder
        self._name = f"{name}-{uuid4().hex}.parquet"
        self._schema = schema
        self._time = _time_column(schema)
        self._codec = _QUICK_CODEC if is_quick else _CODEC
        self._open: dict[int, _DayFile] = {}
        self.closed: list[DataFile] = []

    def __enter__(self) -> "DayFiles":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            for each in self._open.values():
                each.abandon()
            return
        try:
            self.closed += [self._open[day].close() for day in sorted(self._open)]
        finally:
            for each in self._open.values():
                each.abandon()  # Does nothing with files that are closed.
        self._storage.make_durable(file.path for file in self.closed)

    def write(self, batch: pa.RecordBatch) -> None:
        for day, rows in _by_day(batch.cast(self._schema), self._time):
            if day not in self._open:
                named = (_EPOCH + timedelta(days=day)).isoformat()
                path = f"{self._folder}/day={named}/{self._name}"
                self._open[day] = _DayFile(self._storage, path, day, self._schema, self._codec)
            self._open[day].write(rows)
        if sum(each.held_bytes for each in self._open.values()) >= _HELD_BYTES:
            max(self._open.values(), key=lambda each: each.held_bytes).flush()


class _DayFile:
    """
    One file, written in row groups of a useful size.

    A file of an object store is written to a local disk first, because Arrow can't abort an upload:
    the file of a failed attempt would be completed, or its parts would stay in the bucket.
    """

    def __init__(
        self, storage: Storage, path: str, day: int, schema: pa.Schema, codec: str
    ) -> None:
        self._storage = storage
        self._path = path
        self._day = _EPOCH + timedelta(days=day)
        self._is_remote = not path.startswith("/")
        self._stream: Any = tempfile.TemporaryFile() if self._is_remote else storage.create(path)  # noqa: SIM115
        repeated = [name for name in _REPEATED if name in schema.names]
        bounded = [
            path
            for field in schema
            if field.name in _BOUNDED or field.name not in BY_NAME
            for path in _leaves(field)
        ]
        self._writer = pq.ParquetWriter(
            self._stream,
            schema,
            compression={  # pyright: ignore[reportArgumentType] - it takes a mapping
                path: _CODEC if field.name in BY_NAME else codec
                for field in schema
                for path in _leaves(field)
            },
            use_dictionary=repeated,  # pyright: ignore[reportArgumentType] - it takes names
            write_statistics=bounded,  # pyright: ignore[reportArgumentType] - likewise
            store_schema=False,
        )
        self._held: list[pa.RecordBatch] = []
        self._messages = self._misfits = 0
        self._is_closed = False
        self.held_bytes = 0

    def write(self, rows: pa.RecordBatch) -> None:
        self._held.append(rows)
        self._messages += rows.num_rows
        if MISFIT in rows.schema.names:
            self._misfits += rows.num_rows - rows.column(MISFIT).null_count
        self.held_bytes += rows.nbytes
        if self.held_bytes >= _GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        if self._held:
            table = pa.Table.from_batches(self._held)
            self._writer.write_table(table, row_group_size=table.num_rows)
            self._held = []
            self.held_bytes = 0

    def close(self) -> DataFile:
        self.flush()
        self._writer.close()
        size_bytes = self._stream.tell()
        if self._is_remote:
            self._upload()
        self._stream.close()
        self._is_closed = True
        return DataFile(self._path, self._day, self._messages, size_bytes, misfits=self._misfits)

    def abandon(self) -> None:
        """Delete the incomplete file of a failed attempt."""
        if self._is_closed:
            return
        with contextlib.suppress(Exception):  # The file is deleted anyway.
            self._writer.close()
        self._stream.close()
        self._is_closed = True
        if not self._is_remote:
            os.unlink(self._path)

    def _upload(self) -> None:
        for attempt in range(1, _UPLOADS + 1):
            self._stream.seek(0)
            try:
                with self._storage.create(self._path) as target:
                    shutil.copyfileobj(self._stream, target, _COPY_BYTES)
                return
            except OSError:
                if attempt == _UPLOADS:
                    raise


def _leaves(field: pa.Field) -> list[str]:
    """Return the columns of a file that belong to a field."""
    if pa.types.is_struct(field.type):
        inner = [path for each in field.type for path in _leaves(each)]
        return [f"{field.name}.{path}" for path in inner]
    if pa.types.is_list(field.type) or pa.types.is_large_list(field.type):
        return [f"{field.name}.list.{path}" for path in _leaves(field.type.value_field)]
    return [field.name]


def _time_column(schema: pa.Schema) -> str:
    """Return the name of the column with the time of a message, also in a table that renamed it."""
    for field in schema:
        if (field.metadata or {}).get(b"PARQUET:field_id") == _TIME_ID:
            return field.name
    return _TIME


def time_bounds(footer: pq.FileMetaData) -> tuple[datetime | None, datetime | None]:
    """Return the times of the first and the last message of a file, if its footer has them."""
    place = footer.schema.names.index(_TIME) if _TIME in footer.schema.names else None
    if place is None or not footer.num_row_groups:
        return None, None
    groups = [footer.row_group(each).column(place) for each in range(footer.num_row_groups)]
    found = [each.statistics for each in groups]
    if any(each is None or not each.has_min_max for each in found):
        return None, None
    return min(each.min for each in found), max(each.max for each in found)


def _by_day(batch: pa.RecordBatch, time: str) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield days since 1970 with their rows, in order."""
    if not batch.num_rows:
        return
    instants = batch.column(time).cast(pa.int64()).to_numpy(zero_copy_only=False)
    first, last = int(instants.min()) // _DAY_MICROS, int(instants.max()) // _DAY_MICROS
    if first == last:
        yield first, batch
        return
    days = instants // _DAY_MICROS
    for day in np.unique(days).tolist():
        yield day, batch.filter(pa.array(days == day))
