"""Read the content of a queue of several databases as a DataFrame."""

# pyright: basic
from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from queen import errors
from queen.arrow.births import Births, BornPart, Limits, Planner, split
from queen.arrow.born_reading import read_born
from queen.arrow.databases import FOREVER, Databases, QueueOfAll, Slots
from queen.arrow.ranges import SegmentRange
from queen.spark.format.options import SourceOptions
from queen.spark.format.reading import (
    check_offsets,
    check_payload,
    parsed,
    partitions_of,
    range_of,
)


class ClusterPart(InputPartition):
    """The part of a batch that one task reads."""

    def __init__(self, part: BornPart) -> None:
        super().__init__(part)
        self.part = part


class ClusterReader(DataSourceReader):
    """Reads a batch: the content of all databases when it is planned."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        if options.is_from_latest:
            raise errors.InvalidOption("startingOffset: a batch can't start at latest")
        check_payload(options, schema)
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        with Databases(self._options.databases) as databases:
            queue = databases.find(self._options.queue)
            plan = partial(self._plan, databases, queue)
            return [ClusterPart(each) for each in databases.unmoved(queue.slot, plan)]

    def _plan(self, databases: Databases, queue: QueueOfAll, slots: Slots) -> list[BornPart]:
        options = self._options
        state = databases.state(queue.slot)
        members = state.members
        horizons = {name: each.horizon for name, each in members.items()}
        planner = Planner(databases, queue.id, slots, state)
        ends = planner.plan(dict.fromkeys(members, 0), horizons, Limits())
        births = tuple(
            Births(each.birthplace, 0, ends[name].xid + 1 if name in ends else 0, FOREVER)
            for name, each in members.items()
        )
        whole = bounded(databases, options, queue)
        for name in {name for name, _ in slots.values()}:
            databases.ask(name, check_offsets, options, whole)
        since = tuple(horizons.values()) if options.fail_on_data_loss else ()
        return split(databases, slots, BornPart(whole, "", {}, births, since), options.tasks)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_cluster_part(self._options, self._schema, partition)


def read_cluster_part(
    options: SourceOptions, schema: StructType, partition: InputPartition
) -> Iterator[pa.RecordBatch]:
    if not isinstance(partition, ClusterPart):
        return iter(())  # Without any parts, Spark still creates one task.
    read = read_born(options.databases, partition.part, options.columns)
    return parsed(options, schema, read)


def bounded(databases: Databases, options: SourceOptions, queue: QueueOfAll) -> SegmentRange:
    """Return the queue with the requested bounds by partition, time and offset."""
    names = partitions_of(options)
    ids = databases.partition_ids(queue.id, names) if names else {}
    return range_of(options, queue.id, ids, is_sealed=queue.is_sealed)
