"""A batch reads archived messages from the lake and later ones from PostgreSQL, each once."""

# pyright: basic

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from queen.lake import CatalogOptions
from queen.pipelines import archive
from queen.pipelines.archive import Config
from queen.spark import register
from tests.spark.log import Identity, Log, identity
from tests.spark.pipelines.test_archive import retain

Format = Literal["iceberg", "delta", "parquet"]


@pytest.fixture
def log(dsn: str) -> Iterator[Log]:
    with Log(dsn, "orders", retention_enabled=True, retention_seconds=60) as log:
        log.stop_clock()
        log.execute("insert into queen.duties (name, epoch) values ('retention', 1)")
        yield log


def config(dsn: str, folder: Path, format: Format = "iceberg", name: str = "") -> Config:
    location = str(folder / f"lake{name}")
    return Config(dsn=dsn, queue="orders", location=location, format=format, name=name, tasks=2)


def frame(spark: SparkSession, dsn: str, **options: str) -> DataFrame:
    register(spark)
    given = {"dsn": dsn, "queue": "orders", "tier": "all", **options}
    return spark.read.format("queen").options(**given).load()


def read(spark: SparkSession, dsn: str, **options: str) -> list[Identity]:
    """The messages of both tiers. Those of a partition must be in order."""
    rows = frame(spark, dsn, **options).collect()
    for partition in {row.partition for row in rows}:
        offsets = [row.offset for row in rows if row.partition == partition]
        assert offsets == sorted(offsets), partition
    return sorted(identity(row.partition, row.offset, row.payload) for row in rows)


@pytest.mark.parametrize("format", ["iceberg", "delta", "parquet"])
def test_messages_of_both_tiers_are_read_once_and_in_order(
    spark: SparkSession, dsn: str, tmp_path: Path, log: Log, format: Format
) -> None:
    log.fill(segments=6)
    everything = log.messages()
    assert read(spark, dsn) == everything  # Without an archive, from PostgreSQL.
    archive.run(spark, config(dsn, tmp_path, format))
    assert read(spark, dsn) == everything
    assert retain(log) == 0

    log.fill(segments=4)

    assert read(spark, dsn) == sorted([*everything, *log.messages()])
    assert len(read(spark, dsn, tier="database")) == len(log.messages())


def test_a_batch_that_the_ledger_does_not_have_yet_is_read_once(
    spark: SparkSession, dsn: str, tmp_path: Path, log: Log
) -> None:
    """An archive was killed between its commit to the lake and its commit to the ledger."""
    log.fill(segments=6)

    def killed(progress: archive.Progress) -> None:
        if progress.step == "committed":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        archive.run(spark, config(dsn, tmp_path), report=killed)
    log.fill(segments=2)

    assert read(spark, dsn) == log.messages()


def test_options_have_the_same_meaning_in_both_tiers(
    spark: SparkSession, dsn: str, tmp_path: Path, log: Log
) -> None:
    for _ in range(2):
        log.push("eu", range(10))
        log.push("us", range(10))
        archive.run(spark, config(dsn, tmp_path))
        log.advance(seconds=60)
    log.push("eu", range(10))
    log.push("us", range(10))

    def found(**options: str) -> list[tuple[str, int]]:
        rows = frame(spark, dsn, columns="offset,partition", **options).collect()
        return sorted((row.partition, row.offset) for row in rows)

    def numbers(partition: str, *offsets: int) -> list[tuple[str, int]]:
        return [(partition, offset) for offset in range(*offsets)]

    assert found(partitions="us") == numbers("us", 30)
    assert found(startingOffset="5", endingOffset="25") == numbers("eu", 5, 25) + numbers(
        "us", 5, 25
    )
    assert found(startingOffset='{"eu": 15}', endingOffset='{"us": 5}') == numbers(
        "eu", 15, 30
    ) + numbers("us", 5)
    (second, *_) = [row.createdAt for row in frame(spark, dsn).collect() if row.offset == 10]
    at = second.isoformat() + "+00:00"
    assert found(startingTimestamp=at) == numbers("eu", 10, 30) + numbers("us", 10, 30)
    assert found(endingTimestamp=at) == numbers("eu", 10) + numbers("us", 10)
    parsed = frame(spark, dsn, schema="n int").select("payload").collect()
    assert len(parsed) == 60


def test_an_archive_in_another_catalog_is_read(
    spark: SparkSession, dsn: str, tmp_path: Path, log: Log
) -> None:
    catalog = CatalogOptions(
        type="sql", name="other", uri=f"sqlite:///{tmp_path}/catalog.db", namespace="analytics"
    )
    log.fill(segments=2)
    archive.run(spark, msgspec.structs.replace(config(dsn, tmp_path), catalog=catalog))
    log.fill(segments=2)

    assert read(spark, dsn, catalog=msgspec.json.encode(catalog).decode()) == log.messages()
    for wrong in ("{", '{"url": "x"}', '{"uri": "x", "properties": {"token": "hush"}}'):
        with pytest.raises(PySparkException, match="catalog: "):
            read(spark, dsn, catalog=wrong)


def test_one_of_several_archives_is_named(
    spark: SparkSession, dsn: str, tmp_path: Path, log: Log
) -> None:
    log.fill(segments=2)
    for name in ("one", "two"):
        archive.run(spark, config(dsn, tmp_path, name=name))

    assert read(spark, dsn, archive="two") == log.messages()
    with pytest.raises(PySparkException, match="it has one, two"):
        read(spark, dsn)
    with pytest.raises(PySparkException, match="tier: cold does not exist"):
        read(spark, dsn, tier="cold")
