"""A stream whose checkpoint was replaced by an older copy loses no message without an error."""

# pyright: basic

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.streaming.query import StreamingQuery

from queen import spark as queen_spark
from tests.spark import filling
from tests.spark.copying import Copy, assert_copied, begin, finish, messages, staged

Start = Callable[[SparkSession, Copy], StreamingQuery]
BATCH = 80
RESTORED = "an older copy of its checkpoint"


def prepared(dsn: str, folder: Path, *, app_id: str | None = None) -> Copy:
    for queue in "ab":
        filling.make(dsn, queue)
    ours = {} if app_id is None else {"txnAppId": app_id}
    read = {"maxMessagesPerTrigger": str(2 * BATCH), "tasks": "1", **ours}
    return Copy(dsn=dsn, checkpoint=str(folder / "checkpoint"), read=read, write=ours)


def fill(copy: Copy, batches: int = 1) -> None:
    """Push messages, which differ from all others."""
    start = 10_000 + messages(copy.dsn, "a")
    filling.fill(copy.dsn, "a", batches * BATCH, transactions=batches, start=start)


def function(spark: SparkSession, copy: Copy, *, is_summary: bool = False) -> StreamingQuery:
    """Begin a copy that `foreachBatch` writes, or that writes one message per batch."""
    queen_spark.register(spark)
    rows = spark.readStream.format("queen").options(dsn=copy.dsn, queue="a", **copy.read).load()

    def write(batch: DataFrame, number: int) -> None:
        queen_spark.register(batch.sparkSession)
        if is_summary:
            total = F.sum(F.crc32("payload")).cast("string")
            batch = batch.agg(total.alias("payload"))
        writer = batch.write.format("queen").mode("append").options(dsn=copy.dsn, queue="b")
        writer.options(**{"txnAppId": "function", **copy.write}, txnVersion=str(number)).save()

    writer = rows.writeStream.foreachBatch(write)
    writer = writer.option("checkpointLocation", copy.checkpoint)
    return writer.trigger(availableNow=True).start()


def summary(spark: SparkSession, copy: Copy) -> StreamingQuery:
    return function(spark, copy, is_summary=True)


BY_FUNCTION = pytest.param(function, marks=pytest.mark.nightly)


def save_first(copy: Copy, start: Start, spark: SparkSession, older: Path) -> None:
    """Copy the first batch, and save the checkpoint after it."""
    fill(copy)
    assert finish(start(spark, copy)) == ""
    shutil.copytree(copy.checkpoint, older)


def restore(copy: Copy, older: Path) -> None:
    shutil.rmtree(copy.checkpoint)
    shutil.copytree(older, copy.checkpoint)


def forget_commit(copy: Copy) -> None:
    """The last batch was published, and Spark has not recorded it."""
    commits = Path(copy.checkpoint, "commits")
    last = max(int(each.name) for each in commits.iterdir() if each.name.isdecimal())
    for name in (str(last), f".{last}.crc"):
        (commits / name).unlink()


@pytest.mark.parametrize("start", [begin, BY_FUNCTION])
def test_a_checkpoint_from_yesterday_stops_the_stream(
    spark: SparkSession, dsn: str, tmp_path: Path, start: Start
) -> None:
    copy = prepared(dsn, tmp_path)
    save_first(copy, start, spark, tmp_path / "older")
    for _ in range(2):
        fill(copy)
        assert finish(start(spark, copy)) == ""
    assert assert_copied(dsn) == 3 * BATCH

    restore(copy, tmp_path / "older")
    fill(copy, 4)

    for _ in range(2):  # A restart does not pass over the batch either.
        assert RESTORED in finish(start(spark, copy))
        assert messages(dsn, "b") == 3 * BATCH
        assert staged(dsn) == 0


@pytest.mark.nightly
@pytest.mark.parametrize("start", [begin, function, summary])
def test_a_checkpoint_without_the_last_batch_stops_the_stream(
    spark: SparkSession, dsn: str, tmp_path: Path, start: Start
) -> None:
    """Spark plans the batch again under its number, up to a later message."""
    copy = prepared(dsn, tmp_path)
    save_first(copy, start, spark, tmp_path / "older")
    fill(copy)
    assert finish(start(spark, copy)) == ""
    written = messages(dsn, "b")

    restore(copy, tmp_path / "older")
    fill(copy)

    assert RESTORED in finish(start(spark, copy))
    assert (messages(dsn, "b"), staged(dsn)) == (written, 0)


@pytest.mark.parametrize("start", [begin, BY_FUNCTION])
def test_a_batch_that_spark_repeats_is_published_once(
    spark: SparkSession, dsn: str, tmp_path: Path, start: Start
) -> None:
    copy = prepared(dsn, tmp_path)
    for _ in range(2):
        fill(copy)
        assert finish(start(spark, copy)) == ""

    forget_commit(copy)
    fill(copy)
    copy.read["tasks"] = "3"  # Other tasks write the same messages.
    assert finish(start(spark, copy)) == ""

    assert assert_copied(dsn) == 3 * BATCH
    assert staged(dsn) == 0


def test_with_a_name_a_restored_checkpoint_repeats_the_same_batches(
    spark: SparkSession, dsn: str, tmp_path: Path
) -> None:
    copy = prepared(dsn, tmp_path, app_id="copy")
    save_first(copy, begin, spark, tmp_path / "older")
    for _ in range(2):
        fill(copy)
        assert finish(begin(spark, copy)) == ""

    restore(copy, tmp_path / "older")
    fill(copy, 4)
    assert finish(begin(spark, copy)) == ""

    assert assert_copied(dsn) == 7 * BATCH


@pytest.mark.nightly
def test_another_name_publishes_the_batches_of_a_restored_checkpoint_again(
    spark: SparkSession, dsn: str, tmp_path: Path
) -> None:
    """The repair that the error names: no message is lost, and some are there twice."""
    copy = prepared(dsn, tmp_path)
    save_first(copy, begin, spark, tmp_path / "older")
    fill(copy)
    assert finish(begin(spark, copy)) == ""
    restore(copy, tmp_path / "older")
    fill(copy)
    assert "option txnAppId" in finish(begin(spark, copy))

    copy.write["txnAppId"] = "again"
    assert finish(begin(spark, copy)) == ""

    assert messages(dsn, "b") == 4 * BATCH
