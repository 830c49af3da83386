"""What batch and streaming readers share: bounds of the range, and the work of a task."""

# pyright: basic
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from queen import errors
from queen.arrow.database import Connection, call
from queen.arrow.ranges import Position, SegmentRange
from queen.arrow.reading import read_range
from queen.spark.format.options import Offsets, SourceOptions
from queen.spark.format.payloads import check_fields, parse_payloads

MARGIN: Final = timedelta(hours=1)
"""How far the order of transaction numbers and of timestamps may differ."""


class Part(InputPartition):
    """The part of a batch that one task reads."""

    def __init__(self, range_: SegmentRange) -> None:
        super().__init__(range_)
        self.range = range_


def bounded_range(
    connection: Connection, options: SourceOptions, queue: dict[str, Any]
) -> SegmentRange:
    """Return the range of the queue inside the requested bounds, for all transactions."""
    ids: dict[str, list[int]] = {}
    if names := partitions_of(options):
        for row in call(connection, "partitions_named", queue["id"], sorted(names)):
            ids.setdefault(row["name"], []).append(row["id"])
    return range_of(options, queue["id"], ids, is_sealed=queue["has_data_keys"])


def partitions_of(options: SourceOptions) -> set[str]:
    """Return the partitions that the options name."""
    names = set(options.partitions or ())
    for offsets in (options.starting_offset, options.ending_offset):
        names |= set() if offsets is None or isinstance(offsets, int) else set(offsets)
    return names


def range_of(
    options: SourceOptions, queue_id: int, ids: dict[str, list[int]], *, is_sealed: bool
) -> SegmentRange:
    """Return the range of the queue inside the requested bounds. ``ids``: of the partitions."""
    wanted = options.partitions
    return SegmentRange(
        queue=options.queue,
        queue_id=queue_id,
        start=Position(),
        end=Position(),
        is_sealed=is_sealed,
        partition_ids=(
            None if wanted is None else tuple(each for name in wanted for each in ids.get(name, ()))
        ),
        start_at=options.starting_at,
        end_at=options.ending_at,
        start_offsets=_by_id(options.starting_offset, ids),
        end_offsets=_by_id(options.ending_offset, ids),
    )


def check_offsets(connection: Connection, options: SourceOptions, range_: SegmentRange) -> None:
    """Raise DataLost if a partition begins after the requested offset."""
    starts = range_.start_offsets
    if starts is None or not options.fail_on_data_loss:
        return
    given, other = ({}, starts) if isinstance(starts, int) else (starts, None)
    ids = None if range_.partition_ids is None else [*range_.partition_ids]
    arguments = (range_.queue_id, [*given], [*given.values()], other, ids)
    for row in call(connection, "begins_later", *arguments):
        raise errors.DataLost(
            f"partition {row['name']} of queue {range_.queue} begins at offset {row['first']},"
            f" after startingOffset {row['wanted']}: messages between were deleted; continue"
            " without them by option failOnDataLoss=false"
        )


def _by_id(offsets: Offsets | None, ids: dict[str, list[int]]) -> dict[int, int] | int | None:
    if offsets is None or isinstance(offsets, int):
        return offsets
    return {each: at for name, at in offsets.items() for each in ids.get(name, ())}


def check_payload(options: SourceOptions, schema: StructType) -> None:
    if options.payload_schema is not None and "payload" in options.columns:
        payload = schema["payload"].dataType
        assert isinstance(payload, StructType)
        check_fields(payload)


def read_part(
    options: SourceOptions, schema: StructType, partition: InputPartition
) -> Iterator[pa.RecordBatch]:
    if not isinstance(partition, Part):
        return iter(())  # Without any parts, Spark still creates one task.
    read = read_range(
        options.ledger_dsn, partition.range, options.columns, read_dsn=options.replica_dsn
    )
    return parsed(options, schema, read)


def parsed(
    options: SourceOptions, schema: StructType, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Parse payloads if the option ``schema`` is set."""
    if options.payload_schema is None or "payload" not in options.columns:
        return batches
    wanted = to_arrow_schema(schema, timezone="UTC")
    return (parse_payloads(batch, wanted) for batch in batches)
