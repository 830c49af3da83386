"""Read the content of a queue as a DataFrame: the driver plans, and the tasks read."""

# pyright: basic
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from queen import errors
from queen.arrow.database import connect
from queen.arrow.planning import find_queue, horizon, split_batch, xid_at
from queen.arrow.ranges import Position
from queen.spark.format.options import SourceOptions
from queen.spark.format.reading import (
    MARGIN,
    Part,
    bounded_range,
    check_offsets,
    check_payload,
    parsed,
    read_part,
)
from queen.spark.format.tiers import Archived, LakePart, archived, read_file


class QueueReader(DataSourceReader):
    """Reads a batch: the content of the log when it is planned."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        if options.is_from_latest:
            raise errors.InvalidOption("startingOffset: a batch can't start at latest")
        check_payload(options, schema)
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        with connect(options.dsn) as connection:
            queue = find_queue(connection, options.queue)
            queue_id = queue["id"]
            end = horizon(connection)
            whole = bounded_range(connection, options, queue)._replace(
                end=Position(end), since_xid=end if options.fail_on_data_loss else 0
            )
            lake = _archived(options, queue)
            if lake is None:
                check_offsets(connection, options, whole)
            if options.starting_at is not None:
                start = xid_at(connection, queue_id, options.starting_at - MARGIN)
                whole = whole._replace(start=Position(start))
            if options.ending_at is not None:
                end = min(end, xid_at(connection, queue_id, options.ending_at + MARGIN))
                whole = whole._replace(end=Position(end))
            if lake is not None:
                whole = whole._replace(start=max(whole.start, lake.end))
            log = [] if whole.start >= whole.end else split_batch(connection, whole, options.tasks)
        return [*([] if lake is None else lake.parts), *(Part(each) for each in log)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, LakePart):
            return parsed(self._options, self._schema, read_file(self._options, partition))
        return read_part(self._options, self._schema, partition)


def _archived(options: SourceOptions, queue: dict[str, Any]) -> Archived | None:
    if not options.has_lake:
        return None
    with connect(options.ledger_dsn) as primary:
        return archived(primary, options, queue)
