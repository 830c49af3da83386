"""
Measure the throughput of pipelines, compared with `psql` copying the same messages as rows.

Messages are pushed to a queue in segments of 500, and also stored as one row each. Every result is
a ratio to `psql COPY (…) TO STDOUT (FORMAT binary)` of those rows, measured immediately before it,
as the median of the rounds. The archive of the local engine is compared with one executor that
only reads and writes the files. The latency of streams is measured at a steady rate. The last line
is one JSON object.
"""

# pyright: basic
import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import psycopg
import pyarrow as pa
import pyspark
from adbc_driver_postgresql import dbapi
from pyspark.sql import SparkSession

from benchmarks import spark_latency
from benchmarks.load import SETTINGS, machine
from queen.arrow.columns import COLUMNS
from queen.arrow.database import call, connect
from queen.arrow.planning import find_queue, horizon
from queen.arrow.ranges import Position, SegmentRange
from queen.arrow.reading import read_range
from queen.codec.segment import encode
from queen.lake.day_files import DayFiles
from queen.pipelines import archive
from queen.pipelines.tasks import LOCAL
from queen.spark import register
from queen.store.migrations import migrate
from tests.spark.cluster import Cluster, confs, environment
from tests.support.postgres import Postgres, bindir

TARGETS: Final = {
    "read_vs_copy": 2.5,
    "archive_one_vs_copy": 0.9,
    "archive_two_vs_copy": 0.9,
    "noop_vs_copy": 0.9,
    "queue_to_queue_rate": 150_000,
    "archive_local_vs_archive_one": 0.8,
}
PARTITIONS: Final = 100
SEGMENT: Final = 500
COPY: Final = "copy (select * from kept_as_rows) to stdout (format binary)"


def payload(number: int) -> bytes:
    """Return about 190 bytes, similar to an order."""
    order = {
        "order": number,
        "customer": f"customer-{number % 9_973}",
        "amount": number % 100_000 / 100,
        "currency": "EUR",
        "status": "paid",
        "note": "thank you for your order, it will be delivered soon",
        "tags": ["a", "b", "c"],
    }
    return json.dumps(order).encode()


class Bench:
    """A queue, the same messages as rows, and the pipelines to measure."""

    def __init__(self, dsn: str, messages: int, folder: Path) -> None:
        self.dsn = dsn
        self.messages = messages
        self.folder = folder

    def fill(self) -> None:
        """Store the messages as segments and as rows."""
        with connect(self.dsn) as connection:
            names = [f"p{number}" for number in range(PARTITIONS)]
            queues, levels = ["orders"] * PARTITIONS, [0] * PARTITIONS
            rows = call(connection, "partition_ids", queues, names, levels, True, None)
            for first in range(0, self.messages, SEGMENT):
                partition_id = rows[first // SEGMENT % PARTITIONS]["partition_id"]
                body, ends = encode([payload(first + at) for at in range(SEGMENT)])
                connection.execute(
                    b"select kind from queen.push($1, $2, $3, $4, $5, $6)",
                    ([partition_id], [SEGMENT], [body], [ends], [None], [None]),
                )
            call(connection, "partition_ids", ["copy"], ["p0"], [0], True, None)
        with dbapi.connect(self.dsn) as connection, connection.cursor() as cursor:
            batches = read_range(self.dsn, self.whole, COLUMNS[1:])
            first_batch = next(batches)
            stream = pa.RecordBatchReader.from_batches(
                first_batch.schema, _chained(first_batch, batches)
            )
            cursor.adbc_ingest("kept_as_rows", stream, mode="create")
            connection.commit()
        with connect(self.dsn) as connection:
            connection.execute(b"vacuum analyze")

    @property
    def whole(self) -> SegmentRange:
        with connect(self.dsn) as connection:
            row = find_queue(connection, "orders")
            end = horizon(connection)
            return SegmentRange(
                "orders", row["id"], Position(), Position(end), is_sealed=row["has_data_keys"]
            )

    def copy(self) -> None:
        subprocess.run(
            [bindir() / "psql", "--no-psqlrc", "--quiet", "--command", COPY, self.dsn],
            stdout=subprocess.DEVNULL,
            check=True,
        )

    def read(self) -> None:
        rows = sum(batch.num_rows for batch in read_range(self.dsn, self.whole))
        assert rows == self.messages, rows

    def archive_one(self) -> None:
        with DayFiles(str(self.folder / uuid4().hex), "one") as files:
            for batch in read_range(self.dsn, self.whole):
                files.write(batch)
        assert sum(file.messages for file in files.closed) == self.messages

    def archive_two(self, spark: SparkSession) -> None:
        name = uuid4().hex
        config = archive.Config(
            dsn=self.dsn, queue="orders", name=name, location=str(self.folder / name), tasks=2
        )
        assert archive.run(spark, config).rows == self.messages

    def archive_local(self) -> None:
        name = uuid4().hex
        config = archive.Config(
            dsn=self.dsn, queue="orders", name=name, location=str(self.folder / name)
        )
        assert archive.run(LOCAL, config).rows == self.messages

    def noop(self, spark: SparkSession) -> None:
        frame = spark.read.format("queen").options(dsn=self.dsn, queue="orders").load()
        frame.write.format("noop").mode("overwrite").save()

    def queue_to_queue(self, spark: SparkSession) -> None:
        options = {"dsn": self.dsn, "queue": "orders"}
        messages = spark.readStream.format("queen").options(**options).load()
        with tempfile.TemporaryDirectory(dir=self.folder) as checkpoint:
            query = (
                messages.writeStream.format("queen")
                .options(dsn=self.dsn, queue="copy", checkpointLocation=checkpoint)
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            rows = sum(each.numInputRows for each in query.recentProgress)
        assert rows == self.messages, rows


def _chained(first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from others


def seconds(work: Callable[[], None]) -> float:
    began_at = time.perf_counter()
    work()
    return time.perf_counter() - began_at


def measure(bench: Bench, rounds: int, **works: Callable[[], None]) -> dict[str, Any]:
    """Measure each pipeline after a copy. The first round is a warm-up."""
    copies: dict[str, list[float]] = {name: [] for name in works}
    taken: dict[str, list[float]] = {name: [] for name in works}
    for number in range(rounds + 1):
        for name, work in works.items():
            copied, worked = seconds(bench.copy), seconds(work)
            if number:
                copies[name].append(copied)
                taken[name].append(worked)
            print(
                f"{name} {number}: {bench.messages / worked:,.0f} msg/s, psql"
                f" {bench.messages / copied:,.0f} rows/s, ratio {copied / worked:.2f}",
                flush=True,
            )
    return {
        name: {
            "ratio": round(statistics.median(map(_ratio, copies[name], taken[name])), 2),
            "rate": round(bench.messages / statistics.median(taken[name])),
        }
        for name in works
    }


def _ratio(copied: float, taken: float) -> float:
    return copied / taken


def session(master: str, settings: dict[str, str]) -> SparkSession:
    builder = SparkSession.builder.master(master).appName("benchmark")
    for name, value in {**settings, "spark.driver.memory": "2g"}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    return spark


def run(bench: Bench, rounds: int, latency_seconds: float) -> dict[str, Any]:
    """Return the rates and ratios of all pipelines, and the latency of streams."""
    bench.fill()
    found = measure(
        bench,
        rounds,
        read=bench.read,
        archive_one=bench.archive_one,
        archive_local=bench.archive_local,
    )
    spark = session("local[2]", confs())
    found |= measure(
        bench,
        rounds,
        noop=lambda: bench.noop(spark),
        queue_to_queue=lambda: bench.queue_to_queue(spark),
    )
    latency = spark_latency.measure(bench.dsn, bench.folder, spark, latency_seconds)
    spark.stop()
    with Cluster() as cluster:
        spark = session(cluster.url, cluster.confs)
        found |= measure(bench, rounds, archive_two=lambda: bench.archive_two(spark))
        spark.stop()
    return {"rates": found, "latency_ms": latency}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--latency-seconds", type=float, default=60)
    flags = parser.parse_args()
    os.environ.update(environment())
    with Postgres(SETTINGS) as server, tempfile.TemporaryDirectory() as folder:
        dsn = server.create_database("spark")
        asyncio.run(migrate(dsn))
        with psycopg.connect(dsn) as connection:
            version = connection.info.parameter_status("server_version")
        measured = run(
            Bench(dsn, flags.messages, Path(folder)), flags.rounds, flags.latency_seconds
        )
    found, latency = measured["rates"], measured["latency_ms"]
    figures = {
        **{f"{name}_vs_copy": found[name]["ratio"] for name in found if name != "queue_to_queue"},
        "queue_to_queue_rate": found["queue_to_queue"]["rate"],
        "archive_local_vs_archive_one": round(
            found["archive_local"]["ratio"] / found["archive_one"]["ratio"], 2
        ),
    }
    settings = {"postgres": version, "pyspark": pyspark.__version__, **SETTINGS}
    print(
        json.dumps(
            {
                "bench": "spark",
                **machine(),
                **settings,
                "messages": flags.messages,
                "rounds": flags.rounds,
                "rates": {name: each["rate"] for name, each in found.items()},
                **figures,
                "latency_ms": latency,
                "latency_rate": spark_latency.RATE,
                "targets": TARGETS,
            }
        )
    )
    return 0 if all(figures[name] >= least for name, least in TARGETS.items()) else 1


if __name__ == "__main__":
    sys.exit(main())
