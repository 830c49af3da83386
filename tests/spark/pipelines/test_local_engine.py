"""`--engine local` archives and compacts without Spark and Java, with the same ledger."""

# pyright: basic
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from queen.pipelines.archive import Config
from tests.spark.driver import ROOT, Driver
from tests.spark.faults import Faults
from tests.spark.log import Log
from tests.spark.pipelines.test_archive import STEPS, archived

WITHOUT_SPARK = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j", "pandas"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocked())
from queen.__main__ import main
main()
"""


@pytest.fixture
def log(dsn: str) -> Iterator[Log]:
    with Log(dsn, "orders") as log:
        yield log


def queen(dsn: str, *words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run a command in an environment without Spark and Java."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_SPARK, *words],
        env={"PYTHONPATH": str(ROOT / "src"), "DATABASE_URL": dsn, "PATH": "/nowhere"}
        | environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_command_archives_and_compacts_without_spark_and_java(
    dsn: str, log: Log, tmp_path: Path
) -> None:
    config = Config(dsn=dsn, queue="orders", location=str(tmp_path / "lake"))
    given = ["--engine", "local", "--set", "queue=orders", "--set", f"location={config.location}"]
    for number in range(3):
        log.fill(segments=1)
        done = queen(dsn, "pipeline", "archive", *given, "-o", "json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["batch_id"] == number + 1
        assert "lag 0" in done.stderr

    done = queen(dsn, "pipeline", "compact", "--engine", "local", "--set", "name=orders")

    assert done.returncode == 0, done.stderr
    assert "merged 3 files into 1" in done.stderr
    assert archived(config) == log.messages()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["replay", "--set", "from=orders", "--set", "to=orders"], "a pipeline replay needs Spark"),
        (["archive", "--master", "local[2]"], "--master and --conf need --engine spark"),
        (["archive", "--conf", "a=b"], "--master and --conf need --engine spark"),
    ],
)
def test_what_needs_spark_is_rejected(
    dsn: str, log: Log, tmp_path: Path, words: list[str], reason: str
) -> None:
    lake = ["--set", "queue=orders", "--set", f"location={tmp_path / 'lake'}"]
    options = lake if words[0] == "archive" else []

    done = queen(dsn, "pipeline", *words, "--engine", "local", *options)

    assert done.returncode != 0
    assert reason in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("step", STEPS)
def test_a_process_killed_after_a_step_loses_and_repeats_no_message(
    dsn: str, log: Log, faults: Faults, tmp_path: Path, step: str
) -> None:
    config = Config(
        dsn=dsn, queue="orders", location=str(tmp_path / "lake"), tasks=2, max_messages=60
    )
    given = ("-m", "tests.spark.drivers.archive", "", msgspec.json.encode(config).decode())
    log.fill(segments=3)
    with Driver(*given, str(faults.folder)) as driver:
        driver.until(step)
        driver.kill()
    log.fill(segments=1)

    with Driver(*given, str(faults.folder)) as driver:
        driver.answer()

    assert archived(config) == log.messages()


@pytest.mark.nightly
def test_the_first_file_is_archived_three_seconds_after_the_start(
    dsn: str, log: Log, tmp_path: Path
) -> None:
    log.fill(segments=1)
    given = ["--set", "queue=orders", "--set", f"location={tmp_path / 'lake'}"]
    started_at = time.monotonic()

    done = queen(dsn, "pipeline", "archive", "--engine", "local", *given)

    print(f"{time.monotonic() - started_at:.1f} s")
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - started_at <= 3
