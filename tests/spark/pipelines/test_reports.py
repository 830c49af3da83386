"""A pipeline reports its progress to PostgreSQL, and errors there do not stop it."""

# pyright: basic

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest
from pyspark.sql import SparkSession

from queen import errors
from queen.arrow.database import call, connect
from queen.cli.support.progress import Outcome, Progress
from queen.engine.engine import Engine
from queen.pipelines import archive
from queen.pipelines.report import Report, reason, reports, without_secrets
from queen.spark import register
from queen.spark.runner.listener import Listener
from queen.store.migrations import migrate
from queen.wire.resources import Pipeline
from tests.engine.helpers import push
from tests.spark import processes
from tests.support.postgres import Postgres, Server


class Done(msgspec.Struct, kw_only=True):
    """Progress of a job, with numeric and other fields."""

    rows: int
    position: int
    files: int


def wait_for(dsn: str, name: str, condition: Callable[[Pipeline], bool]) -> Pipeline:
    """The row of a pipeline, once it meets the condition."""
    found: list[Pipeline] = []

    def is_so() -> bool:
        found[:] = [each for each in reports(dsn, limit=100) if each.name == name]
        return bool(found) and condition(found[0])

    processes.wait(is_so, 120, lambda: f"{found}")
    return found[0]


async def test_the_report_of_a_job_is_a_row(dsn: str, engine: Engine) -> None:
    await push(engine, "orders", *range(60), partition="a")
    await push(engine, "orders", *range(40), partition="b")

    with Report(dsn, name="a", kind="archive", queues=["orders"], target="lake.orders") as report:
        report(Done(rows=10, position=1, files=3), batch_id=4)
        row = wait_for(dsn, "a", lambda row: row.rows_total == 10)

    assert (row.kind, row.queues, row.target, row.state) == (
        "archive", ["orders"], "lake.orders", "running",
    )  # fmt: skip
    assert (row.batch_id, row.position, row.detail) == (4, 1, {"files": 3})
    assert row.lag_messages == 100
    assert row.lag_seconds is not None
    (row,) = reports(dsn, limit=10)
    assert (row.state, row.error) == ("stopped", None)


async def test_a_finished_job_has_no_lag(dsn: str, engine: Engine) -> None:
    await push(engine, "orders", *range(50))
    with connect(dsn) as connection:
        position = call(connection, "horizon")[0]["xid"]

    with Report(dsn, name="a", kind="archive", queues=["orders"]) as report:
        report(position=position)
        row = wait_for(dsn, "a", lambda row: row.position is not None)

    assert (row.lag_messages, row.lag_seconds) == (0, 0)


@pytest.mark.nightly
async def test_a_job_that_waits_for_a_transaction_is_not_idle(dsn: str, engine: Engine) -> None:
    with connect(dsn) as open_, open_.transaction():
        open_.execute("create table public.open ()")
        pid = open_.info.backend_pid
        with connect(dsn) as connection:
            position = call(connection, "horizon")[0]["xid"]
        await push(engine, "orders", 1)

        with Report(dsn, name="a", kind="window", queues=["orders"]) as report:
            report(position=position)
            report.idle()
            row = wait_for(dsn, "a", lambda row: row.held_back_by is not None)
        (ended,) = reports(dsn, limit=10)

    assert row.held_back_by is not None
    assert row.held_back_by.startswith(f"pid {pid} of database ")
    assert (row.state, row.lag_messages) == ("running", 1)
    assert (ended.state, ended.held_back_by) == ("stopped", row.held_back_by)
    assert report.held_back_by == row.held_back_by


def test_a_failure_is_reported_without_passwords(dsn: str) -> None:
    def fail() -> None:
        with Report(dsn, name="a", kind="archive"):
            raise ValueError("no postgresql://me:secret@host/db")

    with pytest.raises(ValueError, match="secret"):
        fail()

    (row,) = reports(dsn, limit=10)
    assert (row.state, row.error) == ("failed", "ValueError: no postgresql://***@host/db")
    assert without_secrets("host=h password=secret") == "host=h ***@"
    for text in ("password = secret", r"password='sec\'r et'", "db?sslpassword=secret&user=me"):
        assert "ret" not in without_secrets(text)


def test_an_error_of_spark_is_shortened_to_its_cause() -> None:
    ours = reason(
        RuntimeError("failed:\n  Traceback\nqueen.errors.QueueNotFound: no queue a\n at b")
    )
    assert (type(ours), str(ours)) == (errors.QueueNotFound, "no queue a")
    java = "An error occurred while calling o1.start.\n: java.lang.Error: no such class\n\tat b"
    assert reason(RuntimeError(java)) == "java.lang.Error: no such class"
    python = (
        "\n  An exception was thrown from the Python worker. Please see the stack trace below.\n"
        'Traceback (most recent call last):\n  File "a.py", line 1, in b\n    c()\n'
        "KeyError: 'day at postgresql://me:secret@db'\n\n\tat org.apache.spark.api.Python(b)\n"
    )
    assert reason(RuntimeError(python)) == "KeyError: 'day at postgresql://***@db'"
    assert reason(RuntimeError("queen.errors.Nothing: x")) == "queen.errors.Nothing: x"
    assert reason(RuntimeError()) == "RuntimeError"


async def test_a_lag_of_an_earlier_position_is_not_shown(dsn: str, engine: Engine) -> None:
    await push(engine, "orders", *range(50))
    with connect(dsn) as connection:
        position = call(connection, "horizon")[0]["xid"]

    with Report(dsn, name="archive-orders", kind="archive", queues=["orders"]) as report:
        report(position=1)
        wait_for(dsn, "archive-orders", lambda row: row.lag_messages == 50)
        assert Progress(report).text.startswith("archive-orders: running, lag 50, oldest ")

        report(position=position, rows=50, state="idle")
        assert Progress(report).text == "archive-orders: idle, 50 rows"

    outcome = Outcome()
    assert outcome.text(report) == "archive-orders: stopped, processed 50 messages, lag 0"
    outcome.has_ended = True
    outcome.done = archive.Progress(
        step="idle", queue_ids=(1,), position=position, batch_id=1, rows=50, files=2
    )
    assert outcome.text(report) == "archive-orders: archived 50 messages in 2 files, lag 0"


def test_a_replaced_run_reports_no_more(dsn: str) -> None:
    with Report(dsn, name="a", kind="archive") as old:
        wait_for(dsn, "a", lambda row: row.state == "running")
        with Report(dsn, name="a", kind="archive") as new:
            new(batch_id=1)
            wait_for(dsn, "a", lambda row: row.batch_id == 1)
            old(batch_id=7)
            old.close()

            (row,) = reports(dsn, limit=10)
            assert (row.state, row.batch_id) == ("running", 1)


@pytest.mark.nightly
async def test_an_unavailable_database_stops_no_job_and_gets_the_report_later() -> None:
    with Postgres(in_memory=True) as postgres:
        dsn = postgres.create_database("queen")
        await migrate(dsn)
        with Report(dsn, name="a", kind="archive") as report:
            report(batch_id=1)
            wait_for(dsn, "a", lambda row: row.batch_id == 1)
            postgres.stop()
            report(batch_id=2)
            postgres.start()
            wait_for(dsn, "a", lambda row: row.batch_id == 2)


@pytest.mark.nightly
def test_a_run_ends_even_if_its_database_has_no_schema(postgres: Server) -> None:
    dsn = postgres.create_database(f"test_{uuid4().hex}")

    with Report(dsn, name="a", kind="archive") as report:
        report(batch_id=1)


def test_a_job_continues_after_any_report(dsn: str) -> None:
    with Report(dsn, name="a", kind="archive") as report:
        report(object())
        report({"what": object()}, rows=1)
        row = wait_for(dsn, "a", lambda row: row.rows_total == 1)

    assert row.state == "running"


async def test_a_streaming_query_reports_itself(
    dsn: str, engine: Engine, spark: SparkSession, tmp_path: Path
) -> None:
    await push(engine, "orders", *range(200))
    register(spark)
    listener = Listener(dsn)
    spark.streams.addListener(listener)
    try:
        query = (
            spark.readStream.format("queen")
            .option("dsn", dsn)
            .option("queue", "orders")
            .load()
            .writeStream.format("noop")
            .queryName("copy")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(processingTime="200 milliseconds")
            .start()
        )
        row = wait_for(dsn, "copy", lambda row: row.rows_total == 200)
        assert (row.kind, row.queues, row.state) == ("stream", ["orders"], "running")
        assert (row.lag_messages, row.error) == (0, None)
        assert row.batch_millis is not None
        query.stop()
        wait_for(dsn, "copy", lambda row: row.state == "stopped")
    finally:
        spark.streams.removeListener(listener)


async def test_a_failed_streaming_query_reports_its_error(
    dsn: str, engine: Engine, spark: SparkSession, tmp_path: Path
) -> None:
    await push(engine, "orders", 1)
    register(spark)
    listener = Listener(dsn)
    spark.streams.addListener(listener)
    try:
        query = (
            spark.readStream.format("queen")
            .option("dsn", dsn)
            .option("queue", "orders")
            .load()
            .selectExpr("raise_error('no such order')")
            .writeStream.format("noop")
            .queryName("broken")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )
        row = wait_for(dsn, "broken", lambda row: row.state == "failed")
        assert row.error
        assert query.exception() is not None
    finally:
        spark.streams.removeListener(listener)
