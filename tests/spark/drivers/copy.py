"""A driver that copies a queue, or several one after the other, each by a stream."""

# pyright: basic

import sys
import time

import msgspec
from pyspark.sql import SparkSession

from tests.spark.copying import Copy, begin, finish
from tests.spark.driver import given_confs, say, step


def main(master: str, *copies: str) -> None:
    builder = SparkSession.builder.master(master).appName("copy")
    for name, value in given_confs().items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    step("started")
    for each in copies:
        copy = msgspec.json.decode(each, type=Copy)
        began = time.monotonic()
        query = begin(spark, copy)
        if copy.is_endless:
            step("running")
            query.stop()
        failure = finish(query)
        say(failure=failure, seconds=time.monotonic() - began)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
