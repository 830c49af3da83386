"""Lakes on an S3-compatible server: exactly once despite its faults, and without leaked keys."""

# pyright: basic
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from queen import errors
from queen.lake import StorageOptions, open_lake
from queen.lake.day_files import DayFiles
from queen.pipelines import archive, compact
from queen.spark.pipelines import replay
from tests.spark import filling, oracle
from tests.spark.lakes.object_store import BUCKET, SECRET_KEY, Fault, FaultProxy, ObjectStore
from tests.spark.lakes.test_lakes import rows
from tests.spark.log import Identity, Log, identity
from tests.support.postgres import bindir

pytestmark = pytest.mark.nightly  # The server is built in minutes: `make versitygw`.
LOCATION = f"s3://{BUCKET}/orders"

Format = Literal["iceberg", "delta"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ObjectStore]:
    with ObjectStore(tmp_path) as store:
        yield store


@pytest.fixture
def log(dsn: str) -> Iterator[Log]:
    with Log(dsn, "orders") as log:
        filling.make(dsn, "again")
        log.stop_clock()
        for _ in range(3):
            log.fill(segments=4)
            log.advance(seconds=86_400)
        yield log


def config_of(dsn: str, store: ObjectStore, url: str, format: Format) -> archive.Config:
    options = StorageOptions(endpoint=url, credentials=str(store.credentials))
    return archive.Config(
        dsn=dsn,
        queue="orders",
        location=LOCATION,
        format=format,
        tasks=2,
        max_messages=100,
        storage=options,
    )


def lake_messages(config: archive.Config, store: ObjectStore) -> Counter[Identity]:
    """The messages in the files of the table, read past the proxy and without code of Queen."""
    found: Counter[Identity] = Counter()
    direct = msgspec.structs.replace(config.storage, endpoint=store.url)
    with open_lake(
        config.dsn, name="orders", format=config.format, location=LOCATION, storage=direct
    ) as lake:
        paths = [file.path.removeprefix("s3://") for file in lake.files()]
    for path in paths:
        with store.files().open_input_file(path) as stream:
            table = pq.ParquetFile(stream).read(["partition", "offset", "payload"])
        columns = (table.column(name).to_pylist() for name in ("partition", "offset", "payload"))
        found.update(identity(*row) for row in zip(*columns, strict=True))
    return found


def run_all(spark: SparkSession, config: archive.Config) -> compact.Progress:
    archive.run(spark, config)
    compacted = compact.run(
        spark, compact.Config(dsn=config.dsn, name="orders", storage=config.storage)
    )
    given = {"dsn": config.dsn, "name": "r", "from": "orders", "to": "again", "tasks": 2}
    source = {"location": LOCATION, "format": config.format, "max_messages": 100}
    replay.run(
        spark,
        msgspec.structs.replace(
            msgspec.convert({**given, **source}, replay.Config), storage=config.storage
        ),
    )
    return compacted


@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_archive_compaction_and_replay_on_an_object_store(
    spark: SparkSession, dsn: str, log: Log, store: ObjectStore, format: Format
) -> None:
    config = config_of(dsn, store, store.url, format)

    compacted = run_all(spark, config)

    assert compacted.replaced > compacted.made > 0
    assert lake_messages(config, store) == Counter(log.messages())
    oracle.assert_same(oracle.digests(dsn, "orders"), oracle.digests(dsn, "again"))


@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_messages_are_stored_once_despite_errors_lost_responses_and_slow_uploads(
    spark: SparkSession, dsn: str, log: Log, store: ObjectStore, format: Format
) -> None:
    def choose(number: int, method: str) -> Fault | None:
        if number % 5 == 0:
            return "rejected"
        if number % 13 == 0:
            return "lost"
        return "slow" if method == "PUT" and number % 3 == 0 else None

    with FaultProxy(store.url, choose) as proxy:
        run_all(spark, config_of(dsn, store, proxy.url, format))

    assert min(proxy.faults.values()) > 0
    assert lake_messages(config_of(dsn, store, store.url, format), store) == Counter(log.messages())
    oracle.assert_same(oracle.digests(dsn, "orders"), oracle.digests(dsn, "again"))


def test_a_wrong_bucket_is_one_sentence_and_leaves_no_hold(
    spark: SparkSession, dsn: str, log: Log, store: ObjectStore
) -> None:
    config = msgspec.structs.replace(
        config_of(dsn, store, store.url, "iceberg"), location="s3://missing/orders"
    )

    with pytest.raises(errors.LakeUnavailable) as failure:
        archive.run(spark, config)

    text = str(failure.value)
    assert text.startswith("s3://missing/orders is unavailable: ")
    assert "\n" not in text
    assert len(text) < 400
    assert log.execute("select 1 from queen.archives") == []
    assert log.execute("select 1 from queen.holds") == []


def test_wrong_keys_are_one_sentence(
    spark: SparkSession, dsn: str, log: Log, store: ObjectStore
) -> None:
    store.credentials.write_text(
        "[default]\naws_access_key_id = queen-tests\naws_secret_access_key = wrong\n"
    )

    with pytest.raises(errors.LakeUnavailable, match="Check your key") as failure:
        archive.run(spark, config_of(dsn, store, store.url, "iceberg"))

    assert "\n" not in str(failure.value)
    assert log.execute("select 1 from queen.holds") == []


@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_access_keys_are_neither_in_the_database_nor_in_the_lake(
    spark: SparkSession, dsn: str, log: Log, store: ObjectStore, format: Format
) -> None:
    config = config_of(dsn, store, store.url, format)
    run_all(spark, config)

    dump = subprocess.run(
        [bindir() / "pg_dump", "--dbname", dsn], capture_output=True, check=True
    ).stdout
    assert b"s3://lake/orders" in dump
    assert SECRET_KEY.encode() not in dump
    assert store.objects()
    assert not [path for path in store.stored() if SECRET_KEY.encode() in path.read_bytes()]
    assert SECRET_KEY not in repr(config)


def test_a_failed_attempt_uploads_no_object_and_no_part(store: ObjectStore) -> None:
    options = StorageOptions(endpoint=store.url, credentials=str(store.credentials))

    def attempt() -> None:
        with DayFiles(f"{LOCATION}/data", "0-0", options=options) as files:
            files.write(rows(0, 100_000))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        attempt()

    assert store.objects() == []
    assert store.stored() == []


def test_a_missing_file_with_keys_is_named(dsn: str, tmp_path: Path) -> None:
    options = StorageOptions(credentials=str(tmp_path / "nothing"))

    with pytest.raises(errors.InvalidOption, match="nothing"):
        open_lake(dsn, name="orders", format="iceberg", location=LOCATION, storage=options)
