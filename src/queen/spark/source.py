"""The Spark format ``queen``: read from a queue and write to a queue."""

# pyright: basic
import os
from typing import Final

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from queen.spark.options import SourceOptions, sink_options, source_options
from queen.spark.reader import QueueReader, QueueStreamReader
from queen.spark.writer import QueueStreamWriter, QueueWriter

_TYPES: Final = {"offset": "bigint", "createdAt": "timestamp"}


class QueenDataSource(DataSource):
    """``format("queen")`` for batch and streaming reads and writes: docs/reference/spark.md."""

    @classmethod
    def name(cls) -> str:
        return "queen"

    def schema(self) -> str:
        options = self._source_options()
        types = dict(_TYPES)
        if options.payload_schema is not None:
            types["payload"] = f"struct<{options.payload_schema}>"
        return ", ".join(f"`{name}` {types.get(name, 'string')}" for name in options.columns)

    def reader(self, schema: StructType) -> QueueReader:
        return QueueReader(self._source_options(), schema)

    def streamReader(self, schema: StructType) -> QueueStreamReader:
        return QueueStreamReader(self._source_options(), schema)

    def writer(self, schema: StructType, overwrite: bool) -> QueueWriter:
        options = sink_options(self.options, os.environ, is_stream=False)
        return QueueWriter(options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> QueueStreamWriter:
        del overwrite  # Set in complete mode, but pushed messages can't be overwritten.
        return QueueStreamWriter(sink_options(self.options, os.environ, is_stream=True), schema)

    def _source_options(self) -> SourceOptions:
        return source_options(self.options, os.environ)
