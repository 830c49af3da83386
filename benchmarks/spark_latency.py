"""
Measure the time from a push until a message is in the lake, or in the queue of a stream.

A producer pushes at fixed times, whether or not earlier messages have arrived. Batches contain all
messages up to a transaction, so the number of arrived messages identifies them.
"""

# pyright: basic
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import psycopg
from pyspark.sql import SparkSession

from queen.lake import open_lake
from queen.pipelines import archive
from tests.spark.filling import make, partition_ids, push

RATE: Final = 1_000
TICK_SECONDS: Final = 0.05
PARTITIONS: Final = 10
WARM_UP_SECONDS: Final = 5.0
"""Messages of the first seconds are not measured."""
COMMIT_SECONDS: Final = 60.0
"""The default of an archive."""
_PAYLOAD: Final = b'{"order":1234567,"customer":"customer-1234","amount":12.34,"status":"paid"}'
_STORED: Final = """
select coalesce(sum(l.stored), 0)::bigint
from queen.queues q
join queen.partitions p on p.queue_id = q.id
cross join lateral (
  select s.base_offset + s.message_count as stored
  from queen.segments s
  where s.partition_id = p.id
  order by s.base_offset desc
  limit 1
) l
where q.name = %s
"""

Count = Callable[[], int]
"""Returns the number of messages that have arrived."""


class _Stopped(Exception):
    """Ends an archive that polls forever."""


def measure(
    dsn: str, folder: Path, spark: SparkSession, seconds: float
) -> dict[str, dict[str, int]]:
    """Return the percentiles in milliseconds by name. Pushes for some seconds per measurement."""
    with _copied(dsn, spark, folder) as (queue, count):
        found = {"push_to_queue": latency(dsn, queue, count, seconds)}
    quick = _archived(dsn, spark, folder, "quick", interval_seconds=1, commit_seconds=1)
    with quick as (queue, count):
        found["push_to_lake_each_second"] = latency(dsn, queue, count, seconds)
    # A few commits, one per minute.
    seconds = max(seconds, min(3 * seconds, 3 * COMMIT_SECONDS))
    with _archived(dsn, spark, folder, "usual", interval_seconds=10) as (queue, count):
        found["push_to_lake"] = latency(dsn, queue, count, seconds)
    for name, each in found.items():
        print(f"{name}: {each}", flush=True)
    return found


def latency(dsn: str, queue: str, count: Count, seconds: float) -> dict[str, int]:
    """Push at a fixed rate, and wait until all messages have arrived."""
    before = count()
    ticks = round((WARM_UP_SECONDS + seconds) / TICK_SECONDS)
    per_tick = round(RATE * TICK_SECONDS)
    began_at = time.perf_counter()
    due_at = [began_at + tick * TICK_SECONDS for tick in range(ticks)]
    producer = threading.Thread(target=_produce, args=(dsn, queue, due_at, per_tick), daemon=True)
    producer.start()
    taken: list[float] = []
    give_up_at = due_at[-1] + 3 * COMMIT_SECONDS
    while len(taken) < ticks and time.perf_counter() < give_up_at:
        arrived = count() - before
        now = time.perf_counter()
        done = arrived // per_tick
        taken += [now - due for due in due_at[len(taken) : done]]
        time.sleep(0.01)
    producer.join()
    # A message that never arrives counts with its age.
    taken += [time.perf_counter() - due for due in due_at[len(taken) :]]
    measured = sorted(taken[round(WARM_UP_SECONDS / TICK_SECONDS) :])
    return {name: _percentile(measured, each) for name, each in (("p50", 0.5), ("p99", 0.99))}


def _percentile(ordered: list[float], part: float) -> int:
    return round(1000 * ordered[min(int(part * len(ordered)), len(ordered) - 1)])


def _produce(dsn: str, queue: str, due_at: list[float], per_tick: int) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        names = [f"p{number}" for number in range(PARTITIONS)]
        ids = list(partition_ids(connection, queue, names).values())
        for number, due in enumerate(due_at):
            time.sleep(max(0.0, due - time.perf_counter()))
            push(connection, [ids[number % PARTITIONS]], [[_PAYLOAD] * per_tick])


@contextmanager
def _copied(dsn: str, spark: SparkSession, folder: Path) -> Iterator[tuple[str, Count]]:
    """Run a stream from queue to queue without a trigger. Yields its source and its count."""
    for name in ("copy-from", "copy-to"):
        make(dsn, name)
    with tempfile.TemporaryDirectory(dir=folder) as checkpoint:
        messages = spark.readStream.format("queen").options(dsn=dsn, queue="copy-from").load()
        options = {"dsn": dsn, "queue": "copy-to", "checkpointLocation": checkpoint}
        query = messages.writeStream.format("queen").options(**options).start()
        try:
            with psycopg.connect(dsn, autocommit=True) as connection:
                yield "copy-from", lambda: _stored(connection, "copy-to")
        finally:
            query.stop()


def _stored(connection: psycopg.Connection[Any], queue: str) -> int:
    row = connection.execute(_STORED, (queue,)).fetchone()
    return 0 if row is None else row[0]


@contextmanager
def _archived(
    dsn: str, spark: SparkSession, folder: Path, name: str, **options: int
) -> Iterator[tuple[str, Count]]:
    """Run an archive that polls. Yields its queue and its count."""
    make(dsn, name)
    location = str(folder / name)
    config: Any = {"dsn": dsn, "queue": name, "location": location}
    archive.run(spark, archive.Config(**config))  # Creates the table.
    config |= options
    is_over = threading.Event()

    def report(_: archive.Progress) -> None:
        if is_over.is_set():
            raise _Stopped

    def run() -> None:
        with suppress(_Stopped):
            archive.run(spark, archive.Config(**config), report=report)

    runner = threading.Thread(target=run, daemon=True)
    runner.start()
    try:
        with open_lake(dsn, name=name, format="iceberg", location=location) as lake:
            yield name, lambda: _total(lake.load())
    finally:
        is_over.set()
        runner.join()


def _total(table: Any) -> int:  # noqa: ANN401 - of pyiceberg
    snapshot = table.current_snapshot()
    return 0 if snapshot is None else int(snapshot.summary["total-records"])
