"""A replay of a lake or a queue stores the same messages in a queue, in order, each once."""

# pyright: basic

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
from pyspark.sql import SparkSession

from queen import errors
from queen.engine.engine import Engine
from queen.pipelines import archive
from queen.spark.pipelines import replay
from queen.spark.pipelines.replay import TRANSACTION_HEADER, Config, Progress, cut
from tests.engine.helpers import push
from tests.spark import filling, oracle, windowing
from tests.spark.log import Log

SEGMENTS = 5
MESSAGES = SEGMENTS * 3 * 4
"""One segment per second in each of three partitions."""
BEGIN = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def log(dsn: str) -> Iterator[Log]:
    with Log(dsn, "orders") as log:
        fill(log)
        yield log


def fill(log: Log) -> None:
    filling.make(log.connection.info.dsn, "again")
    log.stop_clock()
    for number in range(SEGMENTS):
        values = [{"segment": number, "message": message} for message in range(4)]
        log.push_all({f"p{each}": [{**value, "p": each} for value in values] for each in range(3)})
        log.advance(seconds=1)


def archive_of(dsn: str, folder: Path) -> archive.Config:
    return archive.Config(dsn=dsn, queue="orders", location=str(folder / "lake"), tasks=2)


def config_of(dsn: str, **changes: Any) -> Config:  # noqa: ANN401
    """A replay from queue to queue, in pieces of a second."""
    given = {"dsn": dsn, "name": "r", "from": "orders", "to": "again", "max_messages": 12}
    return msgspec.convert({**given, "tasks": 2, **changes}, Config)


def assert_replayed(dsn: str, queue: str = "again") -> None:
    assert oracle.assert_same(oracle.digests(dsn, "orders"), oracle.digests(dsn, queue)) == MESSAGES


def by_partition(dsn: str, queue: str) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = defaultdict(list)
    for partition, payload in windowing.payloads(dsn, queue):
        found[partition].append(payload)
    return dict(found)


@pytest.mark.parametrize(
    "source",
    ["queue", *(pytest.param(each, marks=pytest.mark.nightly) for each in ("iceberg", "parquet"))],
)
def test_replayed_messages_equal_the_stored_ones(
    spark: SparkSession, dsn: str, log: Log, tmp_path: Path, source: str
) -> None:
    changes: dict[str, Any] = {}
    if source != "queue":
        lake = msgspec.structs.replace(archive_of(dsn, tmp_path), format=source)
        archive.run(spark, lake)
        changes = {"location": lake.location, "format": source}
    said: list[Progress] = []

    done = replay.run(spark, config_of(dsn, **changes), report=said.append)

    assert_replayed(dsn)
    assert (done.rows, done.batches, done.state) == (MESSAGES, SEGMENTS, "idle")
    assert [each.batch_id for each in said] == [*range(SEGMENTS), SEGMENTS - 1]

    # A finished replay stores no more messages under its name.
    log.push("p0", [1])
    assert replay.run(spark, config_of(dsn, **changes)).rows == 0
    assert len(by_partition(dsn, "again")["p0"]) == SEGMENTS * 4


async def test_a_message_names_its_original(spark: SparkSession, dsn: str, engine: Engine) -> None:
    for queue in ("orders", "again", "thrice"):
        filling.make(dsn, queue)
    await push(engine, "orders", 1, transaction_id="t1", headers={"a": "b"}, trace_id="trace")
    await push(engine, "orders", 2, transaction_id="t2")

    replay.run(spark, config_of(dsn))
    replay.run(spark, config_of(dsn, name="s", **{"from": "again", "to": "thrice"}))

    for queue in ("again", "thrice"):
        rows = spark.read.format("queen").options(dsn=dsn, queue=queue).load().collect()
        one, two = sorted(rows, key=lambda row: row["offset"])
        headers = [msgspec.json.decode(row["headers"]) for row in (one, two)]
        assert headers == [{"a": "b", TRANSACTION_HEADER: "t1"}, {TRANSACTION_HEADER: "t2"}]
        assert [one["traceId"], two["traceId"]] == ["trace", None]
        assert one["transactionId"] != "t1"


@pytest.mark.parametrize("is_lake", [True, False], ids=["lake", "queue"])
def test_only_the_requested_messages_are_replayed(
    spark: SparkSession, dsn: str, log: Log, tmp_path: Path, is_lake: bool
) -> None:
    changes: dict[str, Any] = {
        "where": "get_json_object(payload, '$.message') < 3 and offset % 2 = 0",
        "start_at": BEGIN + timedelta(seconds=1),
        "end_at": (BEGIN + timedelta(seconds=4)).replace(tzinfo=None),
        "partitions": ["p0", "p2"],
    }
    if is_lake:
        archive.run(spark, archive_of(dsn, tmp_path))
        changes["location"] = str(tmp_path / "lake")

    replay.run(spark, config_of(dsn, **changes))

    assert by_partition(dsn, "again") == {
        f"p{each}": [
            {"segment": number, "message": message, "p": each}
            for number in (1, 2, 3)
            for message in (0, 2)
        ]
        for each in (0, 2)
    }
    del log


@pytest.mark.nightly
def test_a_rate_is_kept_on_average(spark: SparkSession, dsn: str, log: Log) -> None:
    rate = 20
    began_at = time.monotonic()
    replay.run(spark, config_of(dsn, rate=rate))

    # There is no wait after the last piece.
    assert time.monotonic() - began_at >= (MESSAGES - 12) / rate
    assert_replayed(dsn)
    del log


@pytest.mark.nightly
def test_a_name_belongs_to_one_replay(spark: SparkSession, dsn: str, log: Log) -> None:
    filling.make(dsn, "other")
    # A replay without messages has not begun.
    assert replay.run(spark, config_of(dsn, **{"from": "other"})).batches == 0
    replay.run(spark, config_of(dsn))

    for change in ({"from": "other"}, {"to": "other"}, {"where": "offset > 1"}):
        with pytest.raises(errors.InvalidOption, match=r"the replay r was from queue orders \("):
            replay.run(spark, config_of(dsn, **change))
    with pytest.raises(errors.QueueNotFound, match="queue nowhere does not exist"):
        replay.run(spark, config_of(dsn, name="s", to="nowhere"))
    # Other limits don't make it another replay.
    assert replay.run(spark, config_of(dsn, max_messages=1, rate=1)).rows == 0
    del log


def test_a_replay_waits_for_messages_that_are_being_stored(
    spark: SparkSession, dsn: str, log: Log
) -> None:
    """Otherwise it would replay a later message of another partition, and never this one."""
    with psycopg.connect(dsn) as connection:
        partition_id = filling.partition_ids(connection, "orders", ["p0"])["p0"]
        connection.commit()
        filling.push(connection, [partition_id], [[b"1"]])
        log.push("p1", [2])
        timer = threading.Timer(2, connection.commit)
        timer.start()
        replay.run(spark, config_of(dsn))
        timer.join()

    assert oracle.assert_same(oracle.digests(dsn, "orders"), oracle.digests(dsn, "again")) == 62


@pytest.mark.nightly
def test_a_lagging_lake_is_replayed_up_to_its_first_missing_message(
    spark: SparkSession, dsn: str, log: Log, tmp_path: Path
) -> None:
    class Enough(Exception):
        pass

    lake = archive_of(dsn, tmp_path)
    archive.run(spark, lake)
    with psycopg.connect(dsn) as slow:  # Its transaction ID is lower, and its time is later.
        partition_id = filling.partition_ids(slow, "orders", ["p1"])["p1"]
        slow.commit()
        slow.execute("select pg_current_xact_id()")
        log.push("p0", [1])
        log.advance(seconds=5)
        filling.push(slow, [partition_id], [[b"2"]])

    def stop(progress: archive.Progress) -> None:
        if progress.step == "archived":
            raise Enough

    with pytest.raises(Enough):
        archive.run(spark, msgspec.structs.replace(lake, max_messages=1), report=stop)
    replay.run(spark, config_of(dsn, location=lake.location))

    # The lake has the message of p1 and not yet that of p0, so neither is replayed.
    found = by_partition(dsn, "again")
    assert {name: len(each) for name, each in found.items()} == dict.fromkeys(
        ("p0", "p1", "p2"), 20
    )


def test_messages_that_retention_removed_are_missed(
    spark: SparkSession, dsn: str, log: Log
) -> None:
    def lose(progress: Progress) -> None:
        log.execute(
            "update queen.segments set expires_at = '-infinity' where created_at >= $1",
            BEGIN + timedelta(seconds=4),
        )

    for _ in range(2):
        with pytest.raises(errors.DataLost, match="planned 60 messages and wrote 48"):
            replay.run(spark, config_of(dsn), report=lose)


def test_pieces_end_at_the_end_of_a_second() -> None:
    counts = [(BEGIN + timedelta(seconds=number), 4) for number in (0, 1, 2, 9)]
    bounds, total = cut(counts, 8)
    assert [(each - BEGIN).seconds for each in bounds] == [0, 2, 10]
    assert total == 16
    assert cut([], 8) == ([], 0)
