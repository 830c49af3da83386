"""A Spark session with Iceberg's runtime that runs the requests on its stdin, one per line."""

# pyright: basic

import json
import sys
from datetime import UTC, date, datetime
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from tests.spark.driver import given_confs, say


def main() -> None:
    builder = SparkSession.builder.master("local[2]").appName("iceberg")
    for name, value in given_confs().items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    say(version=spark.version)
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        try:
            say(rows=HANDLERS[request.pop("do")](spark, **request))
        except (PySparkException, Py4JJavaError) as error:
            lines = str(error).splitlines()
            say(error="\n".join(line for line in lines if "\tat " not in line))


def configure(spark: SparkSession, confs: dict[str, str]) -> list[Any]:
    for name, value in confs.items():
        spark.conf.set(name, value)
    return []


def query(spark: SparkSession, text: str) -> list[Any]:
    return [portable(row) for row in spark.sql(text).collect()]


def drain(
    spark: SparkSession, table: str, checkpoint: str, output: str, available_now: bool
) -> list[Any]:
    """Stream all new rows of a table into files, and stop. A checkpoint continues."""
    writer = spark.readStream.format("iceberg").load(table).writeStream.format("parquet")
    if available_now:
        writer = writer.trigger(availableNow=True)
    query = writer.option("checkpointLocation", checkpoint).start(output)
    try:
        query.awaitTermination() if available_now else query.processAllAvailable()
    finally:
        query.stop()
    return []


def portable(value: Any) -> Any:  # noqa: ANN401 - JSON
    """As JSON. Spark's timestamps have no time zone in Python: that of this process, UTC."""
    if isinstance(value, Row):
        return {name: portable(each) for name, each in value.asDict().items()}
    if isinstance(value, dict):
        return {name: portable(each) for name, each in value.items()}
    if isinstance(value, list):
        return [portable(each) for each in value]
    if isinstance(value, datetime):
        return value.replace(tzinfo=value.tzinfo or UTC).astimezone(UTC).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    return value


HANDLERS = {"configure": configure, "drain": drain, "query": query}

if __name__ == "__main__":
    main()
