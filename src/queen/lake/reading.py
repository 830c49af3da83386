"""Read files of a lake in tasks. Readers are pickled, so they have no secrets."""

# pyright: basic
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from typing import NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds

from queen.lake.records import DataFile
from queen.lake.storage import NO_OPTIONS, StorageOptions
from queen.lake.typed_columns import align, find_field


class TimeRange(NamedTuple):
    """Messages from ``start`` on, and before ``end``."""

    start: datetime | None = None
    end: datetime | None = None

    def has_day(self, day: date | None) -> bool:
        """Whether a file of this day, or of an unknown one, can have such messages."""
        if day is None:
            return True
        return (self.start is None or day >= self.start.astimezone(UTC).date()) and (
            self.end is None or day <= self.end.astimezone(UTC).date()
        )

    def overlaps(self, file: DataFile) -> bool:
        """Whether a file can have such messages."""
        if file.first_at is None or file.last_at is None:
            return self.has_day(file.day)
        return (self.start is None or file.last_at >= self.start) and (
            self.end is None or file.first_at < self.end
        )

    def filter(self, column: str = "createdAt") -> ds.Expression | None:
        """Return the range as a condition on a column."""
        instant = pa.timestamp("us", "UTC")
        bounds = [
            *([] if self.start is None else [ds.field(column) >= pa.scalar(self.start, instant)]),
            *([] if self.end is None else [ds.field(column) < pa.scalar(self.end, instant)]),
        ]
        return None if not bounds else bounds[0] if len(bounds) == 1 else bounds[0] & bounds[1]


ALWAYS = TimeRange()


class Reader:
    """Reads files as they are: by the names of their columns. Missing ones are null."""

    def __init__(
        self, options: StorageOptions = NO_OPTIONS, schema: pa.Schema | None = None
    ) -> None:
        self._options = options
        self._schema = schema
        """The columns of the table, if files can lack some of them."""

    def read(
        self, file: DataFile, columns: Sequence[str], rows: int, during: TimeRange = ALWAYS
    ) -> Iterator[pa.RecordBatch]:
        """Yield the messages of a file in a time range, in batches of at most ``rows``."""
        system, path = self._options.for_arrow(file.path)
        dataset = ds.dataset(path, filesystem=system, format="parquet")
        there = dataset.schema.names
        present = [name for name in columns if self._schema is None or name in there]
        for batch in dataset.to_batches(
            columns=present, filter=during.filter(), batch_size=rows, batch_readahead=2
        ):
            yield batch if self._schema is None else _completed(batch, columns, self._schema)


def _completed(batch: pa.RecordBatch, columns: Sequence[str], schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch of an older file with the columns that the table has now."""
    fields = [schema.field(name) for name in columns]
    places = [find_field(batch.schema, field) for field in fields]
    arrays = [
        pa.nulls(batch.num_rows, field.type)
        if place is None
        else align(batch.column(place), field.type)
        for place, field in zip(places, fields, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
