"""Writing a DataFrame to a queue: stored messages, rejections, and exactly-once writes."""

# pyright: basic
import asyncio
import json
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession, functions as F

from queen import sql
from queen.arrow.staging import LEFT_OUT, WRITTEN
from queen.engine.engine import Engine
from queen.settings import Settings
from queen.spark import register
from queen.wire.messages import PopRequest
from tests.engine.helpers import pop_one, push, values
from tests.spark.conftest import KEY
from tests.spark.copying import messages
from tests.spark.filling import fill, make
from tests.spark.oracle import assert_same, digests

Frame = Callable[..., DataFrame]


@pytest.fixture
def frame(spark: SparkSession) -> Frame:
    register(spark)

    def frame(
        *rows: tuple[Any, ...], columns: str = "partition string, payload string"
    ) -> DataFrame:
        return spark.createDataFrame(list(rows), columns).coalesce(1)

    return frame


class Running:
    """An engine in another thread, because only the creating thread knows a Spark session."""

    def __init__(self, dsn: str, settings: Settings) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.engine = self.wait(Engine.open(dsn, settings=settings))

    def begin(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401
        return self.begin(work).result(60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait(self.engine.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def write(frame: DataFrame, dsn: str, queue: str = "orders", **options: str) -> None:
    writer = frame.write.format("queen").mode("append")
    writer.options(dsn=dsn, queue=queue, **options).save()


def log(dsn: str, queue: str = "orders") -> list[tuple[str, int, str]]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(
            'select partition, "offset", payload from queen.messages where queue = %s'
            ' order by partition, "offset"',
            (queue,),
        ).fetchall()


def count(dsn: str, table: str) -> int:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(f"select count(*) from queen.{table}".encode()).fetchone()
    assert row is not None
    return row[0]


def test_rows_become_messages_in_their_order(frame: Frame, dsn: str) -> None:
    make(dsn, "orders")
    rows = [("a", "1"), ("b", "2"), ("a", "3"), (None, '"ä"'), ("a", "4")]

    write(frame(*rows), dsn)

    assert log(dsn) == [
        ("Default", 0, '"ä"'),
        ("a", 0, "1"),
        ("a", 1, "3"),
        ("a", 2, "4"),
        ("b", 0, "2"),
    ]
    assert count(dsn, "staged") == 0


def test_tasks_without_rows_open_no_connection(frame: Frame) -> None:
    unreachable = "postgresql://queen@127.0.0.1:1/queen"

    write(frame(("a", "1")).where("payload = '2'"), unreachable)
    with pytest.raises(PySparkException, match="PostgreSQL is unreachable"):
        write(frame(("a", "1")), unreachable)


def test_tasks_are_published_in_the_order_of_the_frame(spark: SparkSession, dsn: str) -> None:
    register(spark)
    make(dsn, "orders")
    numbers = spark.range(0, 10_000, 1, 7).select(
        F.lit("p").alias("partition"), F.col("id").cast("string").alias("payload")
    )

    write(numbers, dsn)

    assert [int(payload) for _, _, payload in log(dsn)] == list(range(10_000))


def test_a_waiter_is_woken_and_receives_headers(frame: Frame, dsn: str) -> None:
    with Running(dsn, Settings(safety_poll_ms=600_000)) as running:
        running.wait(running.engine.queues.configure("orders", {}))
        request = PopRequest(queue="orders", wait=True)
        waiting = running.begin(running.engine.pop(request))
        columns = "payload string, headers map<string,string>, traceId string"

        write(frame(('{"n": 1}', {"a": "b"}, "trace"), columns=columns), dsn)

        ((message,),) = [list(each.messages()) for each in waiting.result(60)]
        assert json.loads(bytes(message.data)) == {"n": 1}
        assert message.headers == {"a": "b"}
        assert message.trace_id == "trace"


def test_a_trace_id_may_be_empty_as_on_a_server(frame: Frame, dsn: str) -> None:
    make(dsn, "orders")
    columns = "payload string, headers map<string,string>, traceId string"

    write(frame(("1", {"a": "b"}, ""), ("2", None, ""), columns=columns), dsn)

    assert [payload for _, _, payload in log(dsn)] == ["1", "2"]


def test_a_queue_is_copied_completely(spark: SparkSession, dsn: str) -> None:
    register(spark)
    make(dsn, "orders")
    make(dsn, "copy")
    fill(dsn, "orders", 12_000, partitions=6, transactions=20)

    source = spark.read.format("queen").options(dsn=dsn, queue="orders").load()
    write(source, dsn, "copy")

    assert assert_same(digests(dsn, "orders"), digests(dsn, "copy")) == 12_000


def test_a_write_with_a_name_and_a_number_is_applied_once(frame: Frame, dsn: str) -> None:
    make(dsn, "orders")

    for payload, version in (("1", "0"), ("2", "0"), ("3", "1")):
        write(frame(("a", payload)), dsn, txnAppId="nightly", txnVersion=version)

    assert [payload for _, _, payload in log(dsn)] == ["1", "3"]
    assert count(dsn, "staged") == 0


@pytest.mark.parametrize(
    ("columns", "row", "said"),
    [
        ("partition string", ("a",), "payload is missing"),
        ("payload string, total bigint", ("1", 1), "column total"),
        ("payload struct<a: int>", ((1,),), "to_json|not a string"),
        ("payload string", (None,), "payload is null"),
        ("payload string", ("{",), "not JSON"),
        ("payload string", ("[" * 65 + "]" * 65,), "deeper than 64"),
        ("payload string", ('"' + "x" * 2**20 + '"',), "the limit is 1048576"),
        ("payload string, headers string", ("1", "[]"), "headers must be a JSON object"),
        ("payload string, headers string", ("1", '{"a": "\\u0000"}'), "NUL"),
        ("payload string, headers map<string,string>", ("1", {"a": None}), "of strings"),
        ("payload string, headers map<string,int>", ("1", {"a": 1}), "of strings"),
        ("payload string, partition string", ("1", "."), "partition"),
    ],
)
def test_invalid_rows_are_rejected_and_no_message_is_stored(
    frame: Frame, dsn: str, columns: str, row: tuple[Any, ...], said: str
) -> None:
    make(dsn, "orders")

    with pytest.raises(PySparkException, match=said):
        write(frame(row, columns=columns), dsn)

    assert log(dsn) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"queue": "none"}, "queue none does not exist"),
        ({"txnAppId": "a"}, "together"),
        ({"txnVersion": "1"}, "together"),
        ({"startingOffset": "earliest"}, "no option startingOffset"),
    ],
)
def test_an_invalid_option_is_rejected(
    frame: Frame, dsn: str, options: dict[str, str], said: str
) -> None:
    make(dsn, "orders")

    with pytest.raises(PySparkException, match=f"(?i){said}"):
        write(frame(("a", "1")), dsn, **{"queue": "orders", **options})


def test_a_queue_is_not_overwritten(frame: Frame, dsn: str) -> None:
    make(dsn, "orders")

    with pytest.raises(PySparkException, match="append"):
        frame(("a", "1")).write.format("queen").mode("overwrite").options(
            dsn=dsn, queue="orders"
        ).save()


def test_schema_and_maximum_size_of_a_queue_apply_to_the_sink(frame: Frame, dsn: str) -> None:
    make(dsn, "orders", schema={"type": "object"}, max_payload_bytes=20)

    with pytest.raises(PySparkException, match="object"):
        write(frame(("a", "1")), dsn)
    with pytest.raises(PySparkException, match="the limit is 20"):
        write(frame(("a", '{"long": "0123456789"}')), dsn)
    write(frame(("a", '{"a": 1}')), dsn)

    assert len(log(dsn)) == 1


def test_a_queue_with_a_payload_limit_above_one_mebibyte_accepts_it_from_spark_too(
    frame: Frame, dsn: str
) -> None:
    make(dsn, "orders", max_payload_bytes=3 * 2**20)

    write(frame(("a", '"' + "x" * 2**21 + '"')), dsn)

    assert len(log(dsn)[0][2]) == 2**21 + 2


def test_rows_that_a_failed_task_staged_are_removed(spark: SparkSession, dsn: str) -> None:
    register(spark)
    make(dsn, "orders")
    good = F.concat(F.lit('"'), F.repeat(F.lit("x"), 1_000_000), F.lit('"'))
    payload = F.when(F.col("id") < 40, good).otherwise("{").alias("payload")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "5")
    try:
        with pytest.raises(PySparkException, match="not JSON"):
            write(spark.range(0, 41, 1, 1).select(payload), dsn)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")

    assert count(dsn, "staged") == 0


def test_the_options_of_a_dsn_apply_to_tasks_too(frame: Frame, dsn: str) -> None:
    """For example `role`, if the login role has no privileges itself."""
    make(dsn, "orders")
    name = f"writer_{uuid4().hex}"
    with psycopg.connect(dsn) as connection:
        for statement in (
            *(sql.ROLES, sql.GRANTS, f"create role {name} login noinherit"),
            f"grant queen_pipeline to {name}",
        ):
            connection.execute(statement.encode())
    ours = make_conninfo(dsn, user=name, options="-c role=queen_pipeline")

    write(frame(("a", "1")), ours)

    assert len(log(dsn)) == 1


def test_a_queue_that_was_encrypted_after_staging_fails_the_write(frame: Frame, dsn: str) -> None:
    make(dsn, "orders")
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "create function public.encrypt () returns trigger language plpgsql as $$ begin"
            " update queen.queues set encrypted = true; return null; end $$"
        )
        connection.execute(
            "create trigger t after insert on queen.staged"
            " for each statement execute function public.encrypt()"
        )

    with pytest.raises(PySparkException, match=r"EncryptionUnavailable.*can be run again"):
        write(frame(("a", "1")), dsn)

    assert (log(dsn), count(dsn, "staged")) == ([], 0)


def test_a_batch_that_never_fits_a_full_queue_fails(frame: Frame, dsn: str) -> None:
    make(dsn, "orders", max_size=2)

    write(frame(("a", "1"), ("a", "2")), dsn)
    with pytest.raises(PySparkException, match="maxMessagesPerTrigger"):
        write(frame(("a", "1"), ("a", "2"), ("a", "3")), dsn)


def test_tasks_encrypt_messages_of_an_encrypted_queue(frame: Frame, dsn: str) -> None:
    with Running(dsn, Settings(encryption_key=KEY)) as running:
        running.wait(running.engine.queues.configure("orders", {"encrypted": True}))

        write(frame(("a", '"canary"'), ("b", '"canary"')), dsn)

        delivery = running.wait(pop_one(running.engine, "orders", partition="a"))
        assert values(delivery) == ["canary"]
    with psycopg.connect(dsn) as connection:
        bodies = connection.execute("select body from queen.segments").fetchall()
    assert bodies
    assert not any(b"canary" in body for (body,) in bodies)


def test_without_the_key_of_a_queue_no_message_is_written(frame: Frame, dsn: str) -> None:
    with Running(dsn, Settings(encryption_keys=f"other:{'22' * 32}")) as running:
        running.wait(running.engine.queues.configure("orders", {"encrypted": True}))
        running.wait(push(running.engine, "orders", 1))

        with pytest.raises(PySparkException, match="master key other"):
            write(frame(("a", '"canary"')), dsn)

    assert count(dsn, "staged") == 0


def test_written_and_ignored_columns_are_those_of_the_source() -> None:
    from queen.arrow.columns import COLUMNS

    assert sorted((*WRITTEN, *LEFT_OUT)) == sorted(COLUMNS)


def test_a_new_checkpoint_with_an_old_txn_app_id_is_rejected(
    spark: SparkSession, dsn: str, tmp_path: Path
) -> None:
    """Its batches have the numbers of published ones, and would be skipped."""
    make(dsn, "a")
    register(spark)
    files = tmp_path / "files"
    files.mkdir()

    def run(checkpoint: str) -> None:
        rows = spark.readStream.schema("payload string").option("maxFilesPerTrigger", 1)
        writer = rows.json(str(files)).writeStream.format("queen")
        writer = writer.options(dsn=dsn, queue="a", txnAppId="ingest")
        writer = writer.option("checkpointLocation", str(tmp_path / checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()

    for number in range(3):
        (files / f"{number}.json").write_text(json.dumps({"payload": str(number)}))
    run("first")
    run("first")
    assert messages(dsn, "a") == 3

    with pytest.raises(StreamingQueryException, match="another checkpoint"):
        run("second")
    assert messages(dsn, "a") == 3
