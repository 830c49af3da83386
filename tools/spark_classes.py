"""
Create an archive of the classes that Spark loads. With it, a JVM starts in two thirds of the time.

Usage::

    python -m tools.spark_classes .venv/spark.jsa

If it exists, the drivers, executors, master and workers of the tests use it, because tests that
kill one start others.
"""

# pyright: basic

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tests.spark.cluster import confs, environment


def main(archive: Path) -> None:
    archive.unlink(missing_ok=True)
    os.environ.update(environment())
    settings = {
        **confs(),
        "spark.driver.extraJavaOptions": f"-XX:+UseSerialGC -XX:ArchiveClassesAtExit={archive} "
        "-Xlog:disable -Xlog:all=error:stderr",
    }
    builder = SparkSession.builder.master("local[2]").appName("classes")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        use(spark, folder)
    gateway: Any = spark.sparkContext._gateway
    jvm = gateway.proc  # To wait for its end.
    spark.stop()
    jvm.stdin.close()
    jvm.wait(120)
    assert archive.stat().st_size > 2**20


def use(spark: SparkSession, folder: str) -> None:
    """Use a little of everything that the tests use."""
    rows = spark.createDataFrame([(n, f"c{n % 3}", n / 2) for n in range(100)], ["n", "c", "x"])
    rows.write.partitionBy("c").parquet(f"{folder}/rows")
    read = spark.read.parquet(f"{folder}/rows")
    read.join(rows, "n").groupBy(read.c).sum("n").orderBy("c").collect()
    spark.read.json(spark.sparkContext.parallelize(['{"a": {"b": 1}}'])).collect()
    rows.mapInArrow(lambda batches: batches, rows.schema).toPandas()
    stream = spark.readStream.schema(read.schema).parquet(f"{folder}/rows")
    query = (
        stream.groupBy("c")
        .count()
        .writeStream.outputMode("complete")
        .foreachBatch(look)
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def look(batch: DataFrame, _: int) -> None:
    batch.collect()


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
