"""Driver programs, which `tests.spark.driver.Driver` runs as processes."""

# pyright: basic

from pyspark.sql import SparkSession

from tests.spark.driver import given_confs


def session(master: str, name: str) -> SparkSession:
    """The session of a driver, with the confs from the test."""
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in given_confs().items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
