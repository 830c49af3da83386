"""A stream over many partitions has one number as its position, and plans by pending messages."""

# pyright: basic
import os
import time
from typing import Any

import psycopg
import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import StructType

from queen.spark.format.options import source_options
from queen.spark.format.stream_reader import QueueStreamReader
from tests.spark.filling import make, partition_ids, push

pytestmark = pytest.mark.nightly

AT_ONCE = 1_000


def fill(dsn: str, partitions: int) -> None:
    """Push one message to each partition."""
    make(dsn, "orders")
    with psycopg.connect(dsn, autocommit=True) as connection:
        for first in range(0, partitions, AT_ONCE):
            names = [f"customer-{number}" for number in range(first, first + AT_ONCE)]
            ids = partition_ids(connection, "orders", names)
            push(connection, list(ids.values()), [[b'{"n": 1}']] * AT_ONCE)
        connection.execute("analyze queen.segments")


def planned(dsn: str, **options: str) -> tuple[dict[str, Any], int, float]:
    """The offset after the first batch, its tasks, and the seconds to plan it."""
    given = source_options({"dsn": dsn, "queue": "orders", **options}, os.environ)
    reader = QueueStreamReader(given, StructType())
    start = reader.initialOffset()
    began_at = time.monotonic()
    end = reader.latestOffset(start, ReadMaxRows(given.max_messages))
    parts = reader.partitions(start, end)
    seconds = time.monotonic() - began_at
    reader.stop()
    return end, len(parts), seconds


def test_an_offset_is_one_number_for_any_number_of_partitions(dsn: str) -> None:
    fill(dsn, 20_000)

    end, tasks, _ = planned(dsn)

    assert sorted(end) == ["queue", "since", "xid"]
    assert all(isinstance(value, int) for value in end.values())
    assert tasks == 1


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_batch_over_a_million_partitions_is_planned_in_two_seconds(dsn: str) -> None:
    fill(dsn, 1_000_000)

    end, tasks, seconds = planned(dsn)
    _, _, short = planned(dsn, maxMessagesPerTrigger="10000")

    print({"seconds": round(seconds, 2), "of_10_000": round(short, 2), "tasks": tasks, **end})
    assert tasks == 2
    assert max(seconds, short) < 2
