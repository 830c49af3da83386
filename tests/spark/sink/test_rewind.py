"""A stream whose database lost transactions stops, and `queen stream rewind` repairs it."""

# pyright: basic

from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from queen import errors
from queen.arrow.planning import find_queue
from queen.spark.format.checkpoint import rewind
from queen.spark.format.stream_offset import StreamOffset
from tests.spark import filling
from tests.spark.copying import Copy, assert_copied, begin, finish
from tests.spark.databases import fail_over, migrated, snapshot
from tests.spark.log import Log
from tests.support.postgres import Postgres


def copied(dsn: str, folder: Path) -> Copy:
    for queue in "ab":
        filling.make(dsn, queue)
    limits = {"maxMessagesPerTrigger": "100", "tasks": "1"}
    return Copy(dsn=dsn, checkpoint=str(folder / "checkpoint"), read=limits)


def test_a_stream_is_exact_after_a_failover_and_a_rewind(
    spark: SparkSession, tmp_path: Path
) -> None:
    with Postgres() as server:
        dsn = migrated(server)
        copy = copied(dsn, tmp_path)
        filling.fill(dsn, "a", 320)
        assert finish(begin(spark, copy)) == ""
        behind = snapshot(server)
        filling.fill(dsn, "a", 320, start=320)
        assert finish(begin(spark, copy)) == ""
        assert assert_copied(dsn) == 640
        rewound = rewind(dsn, copy.checkpoint, app_id=None, is_dry=False)
        assert rewound.kept == rewound.batch  # The database is complete.

        fail_over(server, behind)
        filling.fill(dsn, "a", 640, start=1_000)
        assert "queen stream rewind" in finish(begin(spark, copy))

        dry = rewind(dsn, copy.checkpoint, app_id=None, is_dry=True)
        assert "queen stream rewind" in finish(begin(spark, copy))
        assert rewind(dsn, copy.checkpoint, app_id=None, is_dry=False) == dry
        assert dry.kept < dry.batch
        assert finish(begin(spark, copy)) == ""
        assert assert_copied(dsn) == 960


@pytest.mark.nightly
def test_a_checkpoint_that_remembers_only_lost_batches_is_not_changed(
    spark: SparkSession, tmp_path: Path
) -> None:
    with Postgres() as server:
        dsn = migrated(server)
        copy = copied(dsn, tmp_path)
        behind = snapshot(server)
        filling.fill(dsn, "a", 160)
        assert finish(begin(spark, copy)) == ""
        fail_over(server, behind, is_promoted=False)

        with pytest.raises(errors.DataLost, match="another checkpoint"):
            rewind(dsn, copy.checkpoint, app_id=None, is_dry=False)
    with pytest.raises(errors.NotFound, match="not the checkpoint"):
        rewind(dsn, str(tmp_path), app_id=None, is_dry=False)


def written_checkpoint(folder: Path, *sources: str) -> str:
    """A checkpoint of three batches, as Spark writes it."""
    (folder / "offsets").mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"the-query"}')
    for batch in range(3):
        (folder / "offsets" / str(batch)).write_text("\n".join(["v1", "{}", *sources]))
    return str(folder)


def test_a_stream_of_another_source_is_not_reported_as_rewound(dsn: str, tmp_path: Path) -> None:
    """Its offsets can't be moved, so the batches that the queue lost would be skipped."""
    location = written_checkpoint(tmp_path, '{"logOffset":2}')

    with pytest.raises(errors.InvalidOption, match="something else than a queue"):
        rewind(dsn, location, app_id=None, is_dry=True)


def test_the_batches_of_a_sink_are_found_without_its_name(dsn: str, tmp_path: Path) -> None:
    with Log(dsn, "a") as log:
        log.push("p", [1])
        queue = find_queue(log.connection, "a")
        log.execute(
            "insert into queen.publications (app_id, queue_id, version, messages, published_at,"
            " query_id) select 'named', id, 1, 0, now(), 'the-query' from queen.queues"
        )
        offset = StreamOffset(queue=queue["id"], xid=0, since=0, numbering=queue["numbering"])
    location = written_checkpoint(tmp_path, msgspec.json.encode(offset.stored()).decode())

    assert rewind(dsn, location, app_id=None, is_dry=True).kept == 1
