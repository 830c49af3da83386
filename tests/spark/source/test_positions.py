"""A checkpoint decides what a stream reads, not its options or transaction numbers."""

# pyright: basic

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import psycopg
import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import StructType

from queen import errors
from queen.spark.format.options import source_options
from queen.spark.format.stream_reader import QueueStreamReader
from tests.spark.databases import fail_over, migrated, promote, snapshot
from tests.spark.filling import make, partition_ids, push
from tests.support.postgres import Postgres

Messages = Counter[tuple[str, int]]
FIELDS = ("partition", "offset")


class Stream:
    """A stream with its own checkpoint: its last offset."""

    def __init__(self, dsn: str, **options: str) -> None:
        self.dsn = dsn
        self.options = options
        self.offset: dict[str, Any] | None = None

    def reader(self, **options: str) -> QueueStreamReader:
        given = {"dsn": self.dsn, "queue": "orders", "columns": ",".join(FIELDS)}
        chosen = {**given, **self.options, **options}
        return QueueStreamReader(source_options(chosen, {}), StructType())

    def read(self, **options: str) -> Messages:
        """Restart with these options, and read all messages."""
        found = Messages()
        reader = self.reader(**options)
        try:
            start = self.offset or reader.initialOffset()
            while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
                found += read(reader, start, end)
                start = end
        finally:
            reader.stop()
        self.offset = start
        return found


def read(reader: QueueStreamReader, start: dict[str, Any], end: dict[str, Any]) -> Messages:
    batches = [each for part in reader.partitions(start, end) for each in reader.read(part)]
    found = Messages()
    for batch in batches:
        found.update(zip(*(batch.column(name).to_pylist() for name in FIELDS), strict=True))
    return found


def fill(dsn: str, partition: str, messages: int, *, at_once: int = 10) -> None:
    """Push in transactions of ten messages."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        (id_,) = partition_ids(connection, "orders", [partition]).values()
        for _ in range(messages // at_once):
            push(connection, [id_], [[b"{}"] * at_once])


def numbers(partition: str, *offsets: int) -> Messages:
    return Messages((partition, offset) for offset in range(*offsets))


def remove(dsn: str, partition: str) -> None:
    """Remove all messages of a partition, as retention does."""
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "select queen.cut(p.id, p.queue_id, 1000000, 1000, 'age') from queen.partitions p"
            " where p.name = %s",
            (partition,),
        )


@pytest.fixture
def dsn(dsn: str) -> str:
    make(dsn, "orders")
    return dsn


def test_a_partition_created_after_the_start_is_read_from_its_first_message(dsn: str) -> None:
    fill(dsn, "eu", 200)
    stream = Stream(dsn, startingOffset="150")
    assert stream.read() == numbers("eu", 150, 200)

    fill(dsn, "us", 100)
    fill(dsn, "eu", 10)

    assert stream.read() == numbers("us", 100) + numbers("eu", 200, 210)


@pytest.mark.parametrize(
    "changed",
    [
        {"startingOffset": "100000"},
        {"startingOffset": '{"eu": 100000}'},
        {"startingOffset": "latest"},
        {"startingTimestamp": "2020-01-01"},
    ],
    ids=["offset", "offsets", "latest", "timestamp"],
)
def test_an_option_for_the_start_has_no_effect_after_it(dsn: str, changed: dict[str, str]) -> None:
    fill(dsn, "eu", 50)
    stream = Stream(dsn)
    stream.read()

    fill(dsn, "eu", 50)

    assert stream.read(**changed) == numbers("eu", 50, 100)


def test_offsets_by_partition_start_there_and_other_partitions_at_the_first(dsn: str) -> None:
    fill(dsn, "eu", 200)
    fill(dsn, "us", 30)
    stream = Stream(dsn, startingOffset='{"eu": 155, "later": 100}')

    assert stream.read() == numbers("eu", 155, 200) + numbers("us", 30)
    fill(dsn, "later", 50)
    assert stream.read() == numbers("later", 50)


def test_an_offset_after_the_end_skips_no_message_that_is_stored_later(dsn: str) -> None:
    fill(dsn, "eu", 100)
    stream = Stream(dsn, startingOffset='{"eu": 150}')
    assert stream.read() == Messages()

    fill(dsn, "eu", 100)

    assert stream.read() == numbers("eu", 100, 200)


def test_an_offset_is_exact_while_another_transaction_is_open(dsn: str) -> None:
    """Its messages are behind the horizon when the stream starts."""
    fill(dsn, "eu", 100)
    with psycopg.connect(dsn) as other:
        other.execute("select pg_current_xact_id()")
        fill(dsn, "eu", 100)
        stream = Stream(dsn, startingOffset="155")
        assert stream.read() == Messages()
        fill(dsn, "us", 100)

    assert stream.read() == numbers("eu", 155, 200) + numbers("us", 100)


@pytest.mark.parametrize("first", ["earliest", "latest", "35"])
@pytest.mark.parametrize("changed", ["earliest", "latest", "70"])
def test_a_repeated_first_batch_reads_the_same_messages(dsn: str, first: str, changed: str) -> None:
    """Spark stores the end of a batch before it runs, but not where the first one starts."""
    fill(dsn, "eu", 50)
    reader = Stream(dsn, startingOffset=first).reader()
    start = reader.initialOffset()
    fill(dsn, "eu", 50)
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    expected = read(reader, start, end)
    reader.stop()
    fill(dsn, "eu", 50)

    again = Stream(dsn, startingOffset=changed).reader()
    found = read(again, again.initialOffset(), end)
    again.stop()

    assert found == expected
    assert expected == numbers("eu", {"earliest": 0, "latest": 50, "35": 35}[first], 100)


def test_a_stream_does_not_start_in_the_future(dsn: str) -> None:
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()

    with pytest.raises(errors.InvalidOption, match="future"):
        Stream(dsn, startingTimestamp=tomorrow).read()


def test_other_partitions_need_another_checkpoint(dsn: str) -> None:
    fill(dsn, "eu", 50)
    fill(dsn, "us", 50)
    stream = Stream(dsn, partitions="eu")
    assert stream.read() == numbers("eu", 50)

    with pytest.raises(errors.InvalidOption, match="partitions"):
        stream.read(partitions="eu,us")
    assert stream.read() == Messages()


def test_a_stream_of_one_partition_misses_nothing_of_another(dsn: str) -> None:
    fill(dsn, "eu", 10)
    stream = Stream(dsn, partitions="eu")
    stream.read()
    fill(dsn, "us", 10)
    fill(dsn, "eu", 10)

    remove(dsn, "us")
    assert stream.read() == numbers("eu", 10, 20)

    fill(dsn, "eu", 10)
    remove(dsn, "eu")
    with pytest.raises(errors.DataLost, match="were deleted"):
        stream.read()


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("messages", "most"),
    [(2_000, 500), pytest.param(2_000_000, 100_000, marks=pytest.mark.nightly)],
)
def test_a_large_transaction_is_read_in_batches_and_tasks(
    dsn: str, messages: int, most: int
) -> None:
    partitions, pushes = 40, 5
    at_once = messages // partitions // pushes // 10
    with psycopg.connect(dsn) as connection:  # One transaction.
        ids = partition_ids(connection, "orders", [f"p{number}" for number in range(partitions)])
        for _ in range(pushes):
            push(connection, [*ids.values()] * 10, [[b"{}"] * at_once] * partitions * 10)
    reader = Stream(dsn, maxMessagesPerTrigger=str(most), tasks="8").reader()
    start, found, sizes, tasks = reader.initialOffset(), Messages(), [], []

    while (end := reader.latestOffset(start, ReadMaxRows(most))) != start:
        tasks.append(len(reader.partitions(start, end)))
        batch = read(reader, start, end)
        sizes.append(batch.total())
        found.update(batch)
        start = end
    reader.stop()

    print(f"{messages} messages: {len(sizes)} batches of {min(sizes)} to {max(sizes)}, {tasks=}")
    assert sizes == [most] * (messages // most)
    assert min(tasks) >= 8
    assert found == Messages(product(ids, range(messages // partitions)))


@pytest.mark.parametrize("is_promoted", [True, False], ids=["failover", "restore"])
@pytest.mark.parametrize("is_named", [True, False], ids=["named", "unnamed"])
def test_a_stream_does_not_skip_messages_with_reused_transaction_numbers(
    is_promoted: bool, is_named: bool
) -> None:
    """A copy without the last transactions takes over, and gives their numbers to others."""
    with Postgres() as server:
        dsn = migrated(server)
        make(dsn, "orders")
        fill(dsn, "eu", 200)
        copy = snapshot(server)
        fill(dsn, "eu", 400)
        stream = Stream(dsn, **({"txnAppId": "app"} if is_named else {}))
        assert stream.read() == numbers("eu", 600)
        fail_over(server, copy, is_promoted=is_promoted)
        with pytest.raises(errors.DataLost, match="stream rewind"):
            stream.read()
        fill(dsn, "eu", 600)

        with pytest.raises(errors.DataLost, match="stream rewind"):
            stream.read()


def test_a_stream_continues_after_a_failover_that_lost_nothing() -> None:
    with Postgres() as server:
        dsn = migrated(server)
        make(dsn, "orders")
        fill(dsn, "eu", 200)
        stream = Stream(dsn)
        stream.read()
        server.stop()
        promote(server)
        fill(dsn, "eu", 200)

        assert stream.read() == numbers("eu", 200, 400)
        assert stream.offset is not None
        assert stream.offset["server"].endswith("00000002")


def test_a_stream_continues_after_retention_removed_everything_it_has_read(dsn: str) -> None:
    fill(dsn, "eu", 20)
    stream = Stream(dsn)
    stream.read()
    remove(dsn, "eu")
    fill(dsn, "us", 10)

    assert stream.read() == numbers("us", 10)
    fill(dsn, "eu", 10)
    remove(dsn, "us")
    assert stream.read() == numbers("eu", 20, 30)
