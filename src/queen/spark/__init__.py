"""Queen on Spark: queues as DataFrames, and pipelines over them. Needs ``queenmq[pyspark]``."""

# pyright: basic
from typing import TYPE_CHECKING

from queen.spark.format.source import QueenDataSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["QueenDataSource", "register"]


def register(spark: "SparkSession") -> None:
    """Register the format ``queen`` with a session."""
    spark.dataSource.register(QueenDataSource)
