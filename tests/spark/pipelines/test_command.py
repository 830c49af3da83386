"""`queen pipeline` runs a pipeline in its own session, and reports the result."""

# pyright: basic

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from queen.engine.engine import Engine
from queen.pipelines.report import reports
from tests.engine.helpers import push
from tests.spark import processes
from tests.spark.cluster import confs
from tests.spark.driver import ROOT
from tests.spark.place import arguments, quick

WINDOW = """
name: per-minute
from: orders
to: totals
window: {tumbling: 1 minute}
aggregate: {total: count(*)}
checkpoint: %s
once: %s
every: 1 second
"""


@pytest.fixture
def command(dsn: str, tmp_path: Path) -> list[str]:
    small = arguments(quick(confs()))
    file = tmp_path / "window.yaml"
    file.write_text(WINDOW % (tmp_path / "checkpoint", "true"))
    words = ["pipeline", "window", "--config", str(file), "--master", "local[2]", *small]
    return [sys.executable, "-m", "queen", *words]


@contextmanager
def started(command: list[str], dsn: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Run the command, and end it with its children at the end of the block."""
    inherited = {
        name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ
    }
    process = subprocess.Popen(
        command,
        env={
            **inherited,
            "PYTHONPATH": str(ROOT / "src"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "DATABASE_URL": dsn,
            **environment,
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            below = processes.descendants(process.pid)
            process.kill()
            processes.kill(below)
        process.communicate()


@pytest.mark.nightly
async def test_a_pipeline_runs_to_its_end_and_is_listed(
    dsn: str, engine: Engine, command: list[str]
) -> None:
    await push(engine, "orders", *range(30))
    await push(engine, "totals", 0)

    with started(command, dsn) as process:
        _, said = process.communicate(timeout=280)

    assert process.returncode == 0, said
    assert "window-per-minute: starting Spark on local[2]" in said
    assert "30 rows" in said
    assert said.splitlines()[-1] == "window-per-minute: processed 30 messages, lag 0"
    assert [line for line in said.splitlines() if not line.startswith("window-per-minute: ")] == []
    (row,) = reports(dsn, limit=10)
    assert (row.name, row.kind, row.state) == ("window-per-minute", "window", "stopped")
    assert (row.queues, row.target, row.rows_total) == (["orders"], "totals", 30)
    assert (row.lag_messages, row.error) == (0, None)


@pytest.mark.nightly
async def test_a_pipeline_that_is_signalled_to_stop_ends_successfully(
    dsn: str, engine: Engine, command: list[str]
) -> None:
    await push(engine, "orders", *range(30))
    await push(engine, "totals", 0)

    with started([*command, "--set", "once=false"], dsn) as process:
        processes.wait(
            lambda: [each.rows_total for each in reports(dsn, limit=10)] == [30],
            240,
            lambda: f"{reports(dsn, limit=10)}",
        )
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)

    assert process.returncode == 0, said
    (row,) = reports(dsn, limit=10)
    assert (row.state, row.error) == ("stopped", None)


@pytest.mark.nightly
async def test_an_archive_ends_with_its_totals_and_no_lag(
    dsn: str, engine: Engine, tmp_path: Path
) -> None:
    await push(engine, "orders", *range(30))
    words = ["archive", "--set", "queue=orders", "--set", f"location={tmp_path / 'lake'}"]
    command = [sys.executable, "-m", "queen", "pipeline", *words, *arguments(quick(confs()))]

    with started(command, dsn) as process:
        shown, said = process.communicate(timeout=280)

    assert (process.returncode, shown) == (0, ""), said
    assert said.splitlines()[-1] == "archive-orders: archived 30 messages in 1 file, lag 0"
    assert [line for line in said.splitlines() if "idle" in line and "lag 30" in line] == []


@pytest.mark.nightly
async def test_an_error_of_a_run_is_one_sentence_and_its_trace_is_in_a_log(
    dsn: str, engine: Engine, command: list[str], tmp_path: Path
) -> None:
    await push(engine, "orders", *range(30))
    await push(engine, "totals", 0)
    failing = ["--set", 'aggregate={"total": "max(raise_error(\'no such day\'))"}']

    with started([*command, *failing], dsn, XDG_STATE_HOME=str(tmp_path)) as process:
        _, said = process.communicate(timeout=280)

    assert process.returncode == 1, said
    *_, failed, sentence = said.splitlines()
    path = Path(failed.removeprefix("window-per-minute: failed. The whole error is in "))
    assert sentence.startswith("queen: ")
    assert "no such day" in sentence
    assert [line for line in said.splitlines() if line.startswith(("\t", "  ", "Caused"))] == []
    assert path.is_relative_to(tmp_path)
    trace = private_text(path)
    assert "Traceback (most recent call last)" in trace
    assert "\tat org.apache.spark" in trace
    (row,) = reports(dsn, limit=10)
    assert row.state == "failed"


@pytest.mark.parametrize(
    ("database", "code", "sentence"),
    [
        (None, 3, "queen: queue orders does not exist"),
        (
            "template1",
            1,
            "queen: this database has no current schema of Queen: run `queen migrate`",
        ),
        ("unreachable", 5, "queen: PostgreSQL is unreachable: connection failed: "),
    ],
)
def test_missing_queues_and_databases_are_found_before_spark_starts(
    database: str | None, code: int, sentence: str, dsn: str, command: list[str], tmp_path: Path
) -> None:
    if database == "unreachable":
        dsn = "postgresql://queen@127.0.0.1:1/queen"
    elif database is not None:
        dsn = make_conninfo(dsn, dbname=database)

    ended = without_java(command, dsn, tmp_path)  # So that Spark can't start.

    assert (ended.returncode, ended.stdout) == (code, "")
    (line,) = ended.stderr.splitlines()
    assert line.startswith(sentence)


async def test_without_java_the_command_reports_it(
    dsn: str, engine: Engine, command: list[str], tmp_path: Path
) -> None:
    await push(engine, "orders", 1)
    await push(engine, "totals", 0)

    ended = without_java(command, dsn, tmp_path)

    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == (
        "queen: Spark needs Java 17 or later: install it and add it to the PATH"
    )


def private_text(path: Path) -> str:
    """The content of a file that only its owner can read."""
    assert path.stat().st_mode & 0o777 == 0o600
    return path.read_text()


def without_java(command: list[str], dsn: str, path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env={"PATH": str(path), "PYTHONPATH": str(ROOT / "src"), "DATABASE_URL": dsn},
        capture_output=True,
        text=True,
        timeout=120,
    )
