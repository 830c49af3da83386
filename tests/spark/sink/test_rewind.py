"""A stream whose database lost transactions stops, and `queen stream rewind` repairs it."""

# pyright: basic

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from queen import errors
from queen.spark.format.checkpoint import rewind
from tests.spark import filling
from tests.spark.copying import Copy, assert_copied, begin, finish
from tests.spark.databases import fail_over, migrated, snapshot
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
