"""Read the content of a queue as a DataFrame: the driver plans, and the tasks read."""

# pyright: basic
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from queen import errors
from queen.arrow.database import connect
from queen.arrow.planning import find_queue, horizon, split_batch, xid_at
from queen.arrow.ranges import Position
from queen.arrow.replicas import caught_up, check_replica
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
from queen.spark.format.tiers import LakePart, archived, read_file


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
        # Planned on the primary, because a replica that is behind would leave out messages.
        with connect(options.ledger_dsn) as connection:
            queue = find_queue(connection, options.queue)
            queue_id = queue["id"]
            end = horizon(connection)
            whole = bounded_range(connection, options, queue)._replace(
                end=Position(end), since_xid=end if options.fail_on_data_loss else 0
            )
            lake = archived(connection, options, queue) if options.has_lake else None
            if lake is None:
                check_offsets(connection, options, whole)
            if options.starting_at is not None:
                start = xid_at(connection, queue_id, options.starting_at - MARGIN)
                whole = whole._replace(start=Position(start))
            if options.ending_at is not None:
                latest = options.ending_at + MARGIN
                end = min(end, xid_at(connection, queue_id, latest, is_start=False))
                whole = whole._replace(end=Position(end))
            if lake is not None:
                whole = whole._replace(start=max(whole.start, lake.end))
            log = [] if whole.start >= whole.end else split_batch(connection, whole, options.tasks)
            if log and options.replica_dsn is not None:
                check_replica(connection, options.replica_dsn)
                # Tasks don't wait. Those whose replica is still behind read from the primary.
                caught_up(options.replica_dsn, whole.end.horizon)
        return [*([] if lake is None else lake.parts), *(Part(each) for each in log)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, LakePart):
            return parsed(self._options, self._schema, read_file(self._options, partition))
        return read_part(self._options, self._schema, partition)
