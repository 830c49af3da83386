"""Reading a queue as a DataFrame, with options, as a batch and as a stream."""

# pyright: basic
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from queen import sql
from queen.spark import register
from queen.spark.format.options import OPTIONS
from tests.spark.filling import fill, make, partition_ids, push

Load = Callable[..., DataFrame]


@pytest.fixture
def load(spark: SparkSession, dsn: str) -> Load:
    """Read the queue ``orders`` with options."""
    register(spark)

    def load(**options: str) -> DataFrame:
        given = {"dsn": dsn, "queue": "orders", **options}
        return spark.read.format("queen").options(**given).load()

    return load


@pytest.fixture
def orders(dsn: str) -> str:
    """Two partitions of 50 messages, in ten transactions."""
    make(dsn, "orders")
    fill(dsn, "orders", 100, partitions=2, transactions=10)
    return dsn


def execute(dsn: str, statement: str, *arguments: object) -> list[Any]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(statement.encode(), arguments or None)
        return cursor.fetchall() if cursor.description else []


def stream(
    spark: SparkSession, dsn: str, folder: Path, **options: str
) -> tuple[list[dict[str, Any]], list[int]]:
    """All messages that a stream reads with AvailableNow, and the size of each batch."""
    register(spark)
    found: list[dict[str, Any]] = []

    def take(batch: DataFrame, _: int) -> None:
        found.extend(row.asDict() for row in batch.collect())

    given = {"dsn": dsn, "queue": "orders", **options}
    query = (
        spark.readStream.format("queen")
        .options(**given)
        .load()
        .writeStream.foreachBatch(take)
        .option("checkpointLocation", str(folder))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return found, [each.numInputRows for each in query.recentProgress if each.numInputRows]


@pytest.mark.usefixtures("orders")
def test_every_message_is_a_row(load: Load) -> None:
    frame = load()

    rows = frame.collect()

    assert len(rows) == 100
    assert {row["queue"] for row in rows} == {"orders"}
    for name in ("p0", "p1"):
        mine = [row for row in rows if row["partition"] == name]
        assert [row["offset"] for row in mine] == list(range(50))
        assert all(json.loads(row["payload"])["partition"] == name for row in mine)
    assert dict(frame.dtypes)["createdAt"] == "timestamp"


def test_a_batch_is_split_into_tasks(load: Load, dsn: str) -> None:
    make(dsn, "orders")
    fill(dsn, "orders", 60_000, partitions=2, transactions=10)

    assert load().rdd.getNumPartitions() == 1  # There are too few messages for a second task.
    assert load(tasks="8").rdd.getNumPartitions() == 8
    assert load(tasks="8").count() == 60_000


@pytest.mark.usefixtures("orders")
def test_bounds_are_options(load: Load, dsn: str) -> None:
    def offsets(**options: str) -> list[tuple[str, int]]:
        rows = load(columns="partition,offset", **options).collect()
        return sorted((row["partition"], row["offset"]) for row in rows)

    assert offsets(partitions="p1") == [("p1", at) for at in range(50)]
    assert offsets(partitions='["p1", "none"]', startingOffset="48") == [("p1", 48), ("p1", 49)]
    assert offsets(startingOffset='{"p0": 49}', partitions="p0") == [("p0", 49)]
    assert offsets(startingOffset='{"p0": 49}', endingOffset='{"p1": 1}') == [
        ("p0", 49),
        ("p1", 0),
    ]
    assert offsets(endingOffset="1") == [("p0", 0), ("p1", 0)]


@pytest.mark.parametrize("end", [20, pytest.param(50, marks=pytest.mark.nightly)])
def test_an_offset_before_the_first_is_an_error(
    spark: SparkSession, load: Load, orders: str, tmp_path: Path, end: int
) -> None:
    cut = f"queen.cut(p.id, p.queue_id, {end}, 1000, 'age')"
    execute(orders, f"select {cut} from queen.partitions p where p.name = 'p0'")

    for start in ("10", '{"p0": 10}'):
        with pytest.raises(PySparkException, match=f"p0 of queue orders begins at offset {end}"):
            load(startingOffset=start).count()
        with pytest.raises(PySparkException, match="after startingOffset 10"):
            stream(spark, orders, tmp_path / "lost", startingOffset=start)

    assert load(startingOffset="10", failOnDataLoss="false").count() == 40 + 50 - end
    assert load(startingOffset="10", partitions="p1").count() == 40
    assert load(startingOffset=f'{{"p0": {end}, "p1": 49}}').count() == 51 - end
    assert load().count() == 100 - end


@pytest.mark.usefixtures("orders")
def test_a_time_is_a_bound_too(load: Load, dsn: str) -> None:
    (middle,) = execute(
        dsn, "select created_at from queen.segments order by xid, partition_id offset 10 limit 1"
    )[0]
    later = middle + timedelta(days=1)

    before = load(endingTimestamp=middle.isoformat()).count()
    after = load(startingTimestamp=middle.isoformat()).count()

    assert (before, after) == (50, 50)
    assert load(startingTimestamp=later.isoformat()).count() == 0


@pytest.mark.usefixtures("orders")
def test_payloads_are_parsed_by_a_schema(load: Load, dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        ids = partition_ids(connection, "orders", ["odd"])
        push(connection, [ids["odd"]], [[b"[1]", b'{"number": "x"}', b'{"more": 1}', b"3"]])
        push(connection, [ids["odd"]], [[b"null", b" null\n"]])

    frame = load(schema="number bigint, partition string", columns="partition,payload")

    fits = frame.where("partition <> 'odd'").select("payload.*").collect()
    assert sorted(row["number"] for row in fits) == list(range(100))
    odd = [row["payload"] for row in frame.where("partition = 'odd'").collect()]
    assert [odd[0], odd[1], *odd[3:]] == [None] * 5
    assert odd[2].asDict() == {"number": None, "partition": None}
    nulls = load(schema="number bigint", partitions="odd", startingOffset="4")
    assert [row["payload"] for row in nulls.collect()] == [None] * 2
    assert load(schema="number bigint", columns="offset").count() == 106


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingOfset": "1"}, "no option startingOfset"),
        ({"txnVersion": "1"}, "no option txnVersion"),
        ({"queue": ""}, "queue is missing"),
        ({"queue": "none"}, "queue none does not exist"),
        ({"columns": "offset,nothing"}, "nothing does not exist"),
        ({"columns": "offset,offset"}, "twice"),
        ({"startingOffset": "latest"}, "start at latest"),
        ({"startingOffset": "-1"}, "startingOffset"),
        ({"startingOffset": '{"p0": "x"}'}, "startingOffset"),
        ({"endingOffset": "earliest"}, "endingOffset"),
        ({"startingTimestamp": "yesterday"}, "ISO 8601"),
        ({"failOnDataLoss": "maybe"}, "neither true nor false"),
        ({"tasks": "0"}, "not a whole number of at least 1"),
        ({"partitions": "[1]"}, "a list of names"),
        ({"partitions": ""}, "the list is empty"),
        ({"schema": "day date"}, "schema.day: date is not supported"),
        ({"schema": "a struct<b: array<binary>>"}, "schema.a.b: binary"),
        ({"schema": "fields map<string, string>"}, "from_json"),
        ({"schema": "price decimal(38, 18)"}, "decimal"),
        ({"schema": "number bigint not null"}, "not null"),
    ],
)
@pytest.mark.usefixtures("orders")
def test_an_invalid_option_is_rejected(load: Load, options: dict[str, str], said: str) -> None:
    with pytest.raises(PySparkException, match=f"(?i){said}"):
        load(**options).count()


def test_option_names_are_unique() -> None:
    names = [option.name for option in OPTIONS]

    assert len(set(names)) == len(names)


def test_a_stream_reads_all_messages_in_batches_of_a_size(
    spark: SparkSession, orders: str, tmp_path: Path
) -> None:
    rows, sizes = stream(spark, orders, tmp_path, maxMessagesPerTrigger="30")

    assert sizes == [30, 30, 30, 10]
    for name in ("p0", "p1"):
        mine = [row["offset"] for row in rows if row["partition"] == name]
        assert mine == list(range(50))


def test_a_stream_continues_at_its_position(
    spark: SparkSession, orders: str, tmp_path: Path
) -> None:
    stream(spark, orders, tmp_path)
    fill(orders, "orders", 20, partitions=2, transactions=2, start=1_000)

    rows, sizes = stream(spark, orders, tmp_path)

    assert sizes == [20]
    assert min(row["offset"] for row in rows) == 50


def test_a_byte_limit_bounds_a_batch_too(spark: SparkSession, orders: str, tmp_path: Path) -> None:
    size_bytes = execute(orders, "select sum(octet_length(body)) from queen.segments")[0][0]

    _, sizes = stream(spark, orders, tmp_path, maxBytesPerTrigger=str(size_bytes * 6 // 10))

    assert len(sizes) == 2
    assert sum(sizes) == 100


def test_a_stream_from_latest_reads_new_messages(
    spark: SparkSession, orders: str, tmp_path: Path
) -> None:
    assert stream(spark, orders, tmp_path, startingOffset="latest") == ([], [])
    fill(orders, "orders", 20, partitions=2, transactions=2, start=1_000)

    _, sizes = stream(spark, orders, tmp_path, startingOffset="latest")

    assert sizes == [20]


def test_a_stream_that_missed_messages_fails(
    spark: SparkSession, orders: str, tmp_path: Path
) -> None:
    stream(spark, orders, tmp_path)
    fill(orders, "orders", 20, partitions=2, transactions=2, start=1_000)
    execute(
        orders,
        "select queen.cut(p.id, p.queue_id, 55, 1000, 'age') from queen.partitions p"
        " where p.name = 'p0'",
    )

    with pytest.raises(PySparkException, match="failOnDataLoss"):
        stream(spark, orders, tmp_path)
    _, sizes = stream(spark, orders, tmp_path, failOnDataLoss="false")

    assert sizes == [15]


@pytest.mark.nightly
def test_a_stream_may_miss_messages_that_it_had_read(
    spark: SparkSession, orders: str, tmp_path: Path
) -> None:
    stream(spark, orders, tmp_path)
    execute(orders, "select queen.cut(p.id, p.queue_id, 50, 1000, 'age') from queen.partitions p")
    fill(orders, "orders", 20, partitions=2, transactions=2, start=1_000)

    _, sizes = stream(spark, orders, tmp_path)

    assert sizes == [20]


def test_a_recreated_queue_is_another_queue(
    spark: SparkSession, orders: str, tmp_path: Path
) -> None:
    stream(spark, orders, tmp_path)
    execute(orders, "update queen.queues set deleted_at = now() where name = 'orders'")
    make(orders, "orders")

    with pytest.raises(PySparkException, match="deleted and recreated"):
        stream(spark, orders, tmp_path)


@pytest.mark.nightly
def test_batches_of_a_name_stay_the_same_without_the_checkpoint(
    spark: SparkSession, orders: str, tmp_path: Path
) -> None:
    options = {"maxMessagesPerTrigger": "30", "txnAppId": "app"}
    _, before = stream(spark, orders, tmp_path / "first", **options)
    fill(orders, "orders", 20, partitions=2, transactions=2, start=1_000)

    _, after = stream(spark, orders, tmp_path / "second", **options)

    assert before == [30, 30, 30, 10]
    assert after == [30, 30, 30, 10, 20]  # Not 30, 30, 30, 30.


def test_a_read_only_role_can_read(spark: SparkSession, orders: str, tmp_path: Path) -> None:
    name = f"reader_{uuid4().hex}"
    for statement in (sql.ROLES, sql.GRANTS, f"create role {name} login in role queen_readonly"):
        execute(orders, statement)
    dsn = orders.replace("postgres@", f"{name}@")

    rows, _ = stream(spark, dsn, tmp_path)

    assert len(rows) == 100
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        execute(dsn, "delete from queen.segments")
