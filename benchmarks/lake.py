"""
Measure whether commits to an Iceberg lake slow down with their number, without Spark.

Each commit adds one file with ten messages. A result is the cost of a hundred commits to a table
with many commits, relative to the first hundred commits of a new table. Both take turns, so that
other load on the machine affects both alike. The last line is one JSON object.
"""

# pyright: basic
import argparse
import json
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import uvloop

from benchmarks.load import SETTINGS, machine
from queen.arrow.columns import BY_NAME
from queen.lake import Batch
from queen.lake.day_files import DayFiles
from queen.lake.iceberg import IcebergLake
from queen.store.migrations import migrate
from tests.support.postgres import Postgres

TARGET = 1.5
BLOCK = 100
"""Commits per measurement."""
MESSAGES = 10
COMMITS_PER_DAY = 1_440
BEGIN = datetime(2026, 11, 1, tzinfo=UTC)


class Cost(NamedTuple):
    """The mean cost of a block of commits, and the state of the table after it."""

    commits: int
    cpu_ms: float
    wall_ms: float
    metadata_bytes: int
    snapshots: int
    metadata_files: int


class Clock:
    """Sums up the time of commits. Writing data files does not count."""

    def __init__(self, lake: IcebergLake) -> None:
        self._lake = lake
        self._number = 0
        self.start_block()

    def start_block(self) -> None:
        self._count = 0
        self._cpu = self._wall = 0.0

    def commit(self) -> None:
        self._number += 1
        with DayFiles(self._lake.folder, f"{self._number:010d}-00000") as files:
            files.write(rows(self._number))
        batch = Batch.of(self._number, self._number, files.closed)
        cpu_at, wall_at = time.process_time(), time.perf_counter()
        self._lake.commit(batch, files.closed)
        self._cpu += time.process_time() - cpu_at
        self._wall += time.perf_counter() - wall_at
        self._count += 1

    def cost(self) -> Cost:
        table = self._lake.load()
        folder = Path(self._lake.storage.location) / "metadata"
        return Cost(
            self._number,
            round(self._cpu / self._count * 1e3, 1),
            round(self._wall / self._count * 1e3, 1),
            Path(table.metadata_location.removeprefix("file://")).stat().st_size,
            len(table.snapshots()),
            sum(1 for _ in folder.iterdir()),
        )


def rows(batch: int) -> pa.RecordBatch:
    """The messages of a batch."""
    first = batch * MESSAGES
    numbers = range(first, first + MESSAGES)
    at = BEGIN + timedelta(days=batch / COMMITS_PER_DAY)
    columns: dict[str, list[Any]] = {
        "queue": ["orders"] * MESSAGES,
        "partition": ["p0"] * MESSAGES,
        "offset": list(numbers),
        "id": [f"m{number}" for number in numbers],
        "transactionId": [f"m{number}" for number in numbers],
        "payload": [f'{{"n":{number}}}' for number in numbers],
        "headers": [None] * MESSAGES,
        "traceId": [None] * MESSAGES,
        "createdAt": [at] * MESSAGES,
    }
    arrays = [pa.array(columns[each.name], each.arrow) for each in BY_NAME.values()]
    return pa.RecordBatch.from_arrays(arrays, list(BY_NAME))


def compare(old: Clock, new: Clock, block: int = BLOCK) -> tuple[Cost, Cost]:
    """Commit to both tables in turn, so that other load on the machine affects both alike."""
    for clock in (old, new):
        clock.start_block()
    for _ in range(block):
        old.commit()
        new.commit()
    return old.cost(), new.cost()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=10_000)
    parser.add_argument("--every", type=int, default=2_000, help="commits between comparisons")
    arguments = parser.parse_args()
    result: dict[str, Any] = {}
    with Postgres(SETTINGS) as postgres, tempfile.TemporaryDirectory(prefix="queen-lake-") as place:
        dsn = postgres.create_database("lake")
        uvloop.run(migrate(dsn))
        with IcebergLake(dsn, "old", f"{place}/old", make=True) as lake:
            old = Clock(lake)
            for commits in range(arguments.every, arguments.commits + 1, arguments.every):
                for _ in range(arguments.every - BLOCK):
                    old.commit()
                name = f"new-{commits}"
                with IcebergLake(dsn, name, f"{place}/{name}", make=True) as fresh:
                    late, first = compare(old, Clock(fresh))
                result = {
                    "commits": commits,
                    "cpu_ratio": round(late.cpu_ms / first.cpu_ms, 2),
                    "wall_ratio": round(late.wall_ms / first.wall_ms, 2),
                    "target": TARGET,
                    "first": first._asdict(),
                    "last": late._asdict(),
                }
                print(json.dumps(result), flush=True)
    print(json.dumps({**result, "machine": machine()}))
    return 0 if result["cpu_ratio"] <= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
