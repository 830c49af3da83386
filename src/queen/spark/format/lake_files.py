"""Read the messages of a lake as a DataFrame. Tasks read its files."""

# pyright: basic
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from queen.arrow.columns import BY_NAME, COLUMNS, spark_schema
from queen.lake.lake import Snapshot
from queen.lake.reading import ALWAYS, TimeRange

_ROWS: Final = 20_000
_MOST_TASKS: Final = 1_000


def frame(
    spark: SparkSession,
    table: Snapshot,
    during: TimeRange = ALWAYS,
    columns: Sequence[str] = COLUMNS,
) -> DataFrame:
    """
    Return the messages of a lake in a time range. Other columns than those of a message are last.

    Spark's own Parquet reader would need a jar for each object store. Arrow includes them.
    """
    known = [name for name in columns if name in BY_NAME]
    others = pa.schema([table.schema.field(name) for name in columns if name not in BY_NAME])
    message: Any = StructType.fromDDL(spark_schema(known))
    schema = StructType([*message, *from_arrow_schema(others, prefer_timestamp_ntz=False)])
    columns = schema.names
    files = table.files_in(during)
    if not files:
        return spark.createDataFrame([], schema)
    reader = table.reader

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (each for batch in numbers for each in batch.column(0).to_pylist()):
            yield from reader.read(files[number], columns, _ROWS, during)

    tasks = min(len(files), _MOST_TASKS)
    return spark.range(0, len(files), 1, tasks).mapInArrow(read, schema)
