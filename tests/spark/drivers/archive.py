"""A driver that archives, and stops at each step until it is let go on."""

# pyright: basic
import sys

import msgspec
from pyspark.sql import SparkSession

from queen.spark.pipelines import archive
from tests.spark.driver import given_confs, say, step


def main(master: str, text: str) -> None:
    builder = SparkSession.builder.master(master).appName("archive")
    for name, value in given_confs().items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    step("started")
    config = msgspec.json.decode(text, type=archive.Config)
    progress = archive.run(spark, config, report=lambda progress: step(progress.step))
    say(rows=progress.rows, batch=progress.batch_id)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
