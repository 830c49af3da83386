"""A driver that counts rows with long tasks, and reports the executors that ran them."""

# pyright: basic

import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from pyspark import TaskContext

from tests.spark.driver import say, step
from tests.spark.drivers import session

TASKS = 4


def task(rows: Iterable[int], folder: Path) -> Iterator[tuple[int, int, int]]:
    """The process and attempt that ran this part, and its result."""
    part = TaskContext.get()
    assert part is not None
    (folder / f"{part.partitionId()}-{part.attemptNumber()}").touch()
    deadline = time.monotonic() + 120
    while not (folder / "go").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    yield (os.getppid(), part.attemptNumber(), sum(rows))


def main(master: str, folder: Path) -> None:
    spark = session(master, "hosts")
    step("started")
    numbers = spark.sparkContext.parallelize(range(100_000), TASKS)
    parts = numbers.mapPartitions(lambda rows: task(rows, folder)).collect()
    say(
        processes=len({process for process, _, _ in parts}),
        attempts=max(attempt for _, attempt, _ in parts) + 1,
        total=sum(total for _, _, total in parts),
    )
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
