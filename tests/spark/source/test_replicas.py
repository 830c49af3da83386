"""A replica is read up to its position, and never beyond it."""

# pyright: basic

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import uvloop
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import StructType

from queen import errors
from queen.arrow.database import connect
from queen.arrow.planning import find_queue, horizon
from queen.arrow.ranges import Position, SegmentRange
from queen.arrow.reading import read_range
from queen.spark.format.options import source_options
from queen.spark.format.stream_reader import QueueStreamReader
from queen.store.migrations import migrate
from tests.spark import filling, processes
from tests.support.pair import Pair

pytestmark = pytest.mark.nightly


def whole(dsn: str) -> SegmentRange:
    """The whole log, as a driver plans it here."""
    with connect(dsn) as connection:
        queue_id = find_queue(connection, "a")["id"]
        return SegmentRange("a", queue_id, Position(), Position(horizon(connection)))


def read(dsn: str, range_: SegmentRange) -> int:
    return sum(batch.num_rows for batch in read_range(dsn, range_, ("offset",)))


def plan_by_two(primary: str, replica: str, reached: int) -> None:
    """A replica that is behind waits for a range that another one planned."""
    with stream(primary, primary) as ahead, stream(primary, replica) as behind:
        start = {**ahead.initialOffset(), "xid": reached}
        end = ahead.latestOffset(start, ReadMaxRows(100))

        assert ahead.partitions(start, end)
        assert behind.latestOffset(start, ReadMaxRows(100)) == start
        with pytest.raises(errors.DatabaseUnavailable, match="does not have all data"):
            behind.partitions(start, end)


@contextmanager
def stream(primary: str, read_from: str) -> Iterator[QueueStreamReader]:
    given = {"dsn": primary, "readDsn": read_from, "queue": "a", "txnAppId": "copy"}
    reader = QueueStreamReader(source_options(given, {}), StructType())
    yield reader
    reader.stop()


@pytest.mark.timeout(180)
def test_a_range_planned_by_one_replica_is_not_read_early_from_another() -> None:
    with Pair() as pair:
        primary = pair.primary.create_database("queues")
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(migrate(primary))
        replica = pair.standby.dsn("queues")
        filling.make(primary, "a")
        filling.fill(primary, "a", 480)
        first = whole(primary)
        processes.wait(
            lambda: whole(replica).end.xid >= first.end.xid, 60, lambda: "the replica is behind"
        )
        assert read(replica, first) == 480

        pair.standby.execute("select pg_wal_replay_pause()")
        filling.fill(primary, "a", 480, start=480)
        second = whole(primary)

        assert read(primary, second) == 960
        with pytest.raises(errors.DatabaseUnavailable, match="does not have all data"):
            read(replica, second)
        assert read(replica, first) == 480
        plan_by_two(primary, replica, first.end.xid)
        pair.standby.execute("select pg_wal_replay_resume()")
        processes.wait(
            lambda: whole(replica).end.xid >= second.end.xid, 60, lambda: "the replica is behind"
        )
        assert read(replica, second) == 960
