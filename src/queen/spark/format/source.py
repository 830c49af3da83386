"""The Spark format ``queen``: read from a queue and write to a queue."""

# pyright: basic
import os

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from queen.arrow.columns import spark_schema
from queen.spark.format.batch_reader import QueueReader
from queen.spark.format.cluster_reader import ClusterReader
from queen.spark.format.cluster_stream import ClusterStreamReader
from queen.spark.format.options import SourceOptions, sink_options, source_options
from queen.spark.format.sink import QueueStreamWriter, QueueWriter
from queen.spark.format.stream_reader import QueueStreamReader


class QueenDataSource(DataSource):
    """``format("queen")`` for batch and streaming reads and writes: docs/reference/spark.md."""

    @classmethod
    def name(cls) -> str:
        return "queen"

    def schema(self) -> str:
        options = self._source_options()
        if options.payload_schema is None:
            return spark_schema(options.columns)
        return spark_schema(options.columns, payload=f"struct<{options.payload_schema}>")

    def reader(self, schema: StructType) -> DataSourceReader:
        options = self._source_options()
        kind = ClusterReader if options.databases else QueueReader
        return kind(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = self._source_options()
        kind = ClusterStreamReader if options.databases else QueueStreamReader
        return kind(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> QueueWriter:
        options = sink_options(self.options, os.environ, is_stream=False)
        return QueueWriter(options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> QueueStreamWriter:
        del overwrite  # Set in complete mode, but pushed messages can't be overwritten.
        return QueueStreamWriter(sink_options(self.options, os.environ, is_stream=True), schema)

    def _source_options(self) -> SourceOptions:
        return source_options(self.options, os.environ)
