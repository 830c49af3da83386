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

from queen.engine.engine import Engine
from queen.spark.runner.report import reports
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
def started(command: list[str], dsn: str) -> Iterator[subprocess.Popen[str]]:
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
    assert " WARN " not in said
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
async def test_an_error_of_a_source_is_one_sentence_and_an_exit_code(
    dsn: str, command: list[str]
) -> None:
    with started(command, dsn) as process:
        _, said = process.communicate(timeout=280)

    assert process.returncode == 3, said
    assert said.splitlines()[-1] == "queen: queue orders does not exist"
    assert "org.apache.spark" not in said
    (row,) = reports(dsn, limit=10)
    assert row.state == "failed"
    assert row.error == "QueueNotFound: queue orders does not exist"


def test_without_java_the_command_reports_it(dsn: str, command: list[str], tmp_path: Path) -> None:
    ended = subprocess.run(
        command,
        env={"PATH": str(tmp_path), "PYTHONPATH": str(ROOT / "src"), "DATABASE_URL": dsn},
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == (
        "queen: Spark needs Java 17 or later: install it and add it to the PATH"
    )
