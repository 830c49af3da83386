"""A driver that runs a window whose source and sink fail as they are told."""

# pyright: basic

import sys
from pathlib import Path

import msgspec
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from queen.spark.pipelines import windows
from tests.spark.driver import given_confs, say, step
from tests.spark.faults import faulty_queen


def main(master: str, text: str, faults: str) -> None:
    builder = SparkSession.builder.master(master).appName("window")
    for name, value in given_confs().items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    windows.register = lambda spark: spark.dataSource.register(faulty_queen(Path(faults)))
    step("started")
    failure = ""
    try:
        windows.run(spark, msgspec.json.decode(text, type=windows.Config))
    except StreamingQueryException as error:
        failure = str(error)
    say(failure=failure)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
