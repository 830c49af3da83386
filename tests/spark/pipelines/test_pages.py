"""The declarations on the docs pages about windows and replays work with the command."""

# pyright: basic

import re
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from queen.pipelines import archive
from queen.pipelines.report import reports
from queen.spark.pipelines.queries import SHUFFLE_PARTITIONS
from tests.spark import filling
from tests.spark.cluster import confs
from tests.spark.driver import ROOT
from tests.spark.log import Log
from tests.spark.pipelines.test_command import started
from tests.spark.pipelines.test_replay import by_partition
from tests.spark.place import arguments, quick

BATCH_SECONDS = 10


def declared(page: str, file: Path, **places: str) -> list[str]:
    """The command for a page's declaration, with other places."""
    text = (ROOT / "docs" / "spark" / page).read_text("utf-8")
    (yaml,) = re.findall(
        r"^```yaml title=\"[\w.]+\"\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE
    )
    for name, place in places.items():
        yaml, count = re.subn(rf"^{name}: \S+", f"{name}: {place}", yaml, flags=re.MULTILINE)
        assert count == 1
    file.write_text(yaml)
    # The page leaves the number of tasks to the window.
    given = {each: value for each, value in confs().items() if each != SHUFFLE_PARTITIONS}
    small = arguments(quick(given))
    return [*("--config", str(file)), *("--master", "local[2]"), *small]


def run(kind: str, words: list[str], dsn: str) -> str:
    with started([sys.executable, "-m", "queen", "pipeline", kind, *words], dsn) as process:
        _, said = process.communicate(timeout=280)
    assert process.returncode == 0, said
    return said


@pytest.mark.nightly
def test_the_declaration_of_the_windows_page_works(dsn: str, tmp_path: Path) -> None:
    with Log(dsn, "orders") as log:
        filling.make(dsn, "spent")
        for minute, amount in ((0, 1), (0, 2), (0, -5), (4, 8), (5, 16)):
            at = f"2026-11-15T14:0{minute}:30Z"
            log.push("any", [{"customer": "ada", "at": at, "amount": amount}])
    words = declared("windows.md", tmp_path / "spent.yaml", checkpoint=str(tmp_path / "checkpoint"))
    words += ["--set", "once=true", "--set", "max_messages_per_trigger=1"]

    said = run("window", words, dsn)

    assert "window-spent-per-minute: starting Spark" in said
    assert by_partition(dsn, "spent") == {
        "ada": [
            {
                "start": "2026-11-15T14:00:00.000Z",
                "end": "2026-11-15T14:01:00.000Z",
                "customer": "ada",
                "total": 3.0,
                "orders": 2,
            }
        ]
    }
    (row,) = reports(dsn, limit=10)
    assert (row.kind, row.state, row.target, row.detail) == (
        "window", "stopped", "spent", {"dropped": 0},
    )  # fmt: skip
    seconds = [float(each) for each in re.findall(r"batch \d+, ([\d.]+) s", said)]
    assert len(seconds) >= 5
    assert max(seconds) <= BATCH_SECONDS, said


@pytest.mark.nightly  # tests/docs/test_tutorials.py follows the page too.
def test_the_declaration_of_the_replays_page_works(
    spark: SparkSession, dsn: str, tmp_path: Path
) -> None:
    with Log(dsn, "orders") as log:
        filling.make(dsn, "orders-again")
        log.stop_clock()
        log.execute("update public.clock set at = '2025-12-31 12:00Z'")
        log.push("ada", [{"total": 500}])
        log.advance(seconds=86_400)
        log.push_all({name: [{"total": each} for each in (5, 50)] for name in ("ada", "bob", "c")})
    location = str(tmp_path / "lake")
    archive.run(spark, archive.Config(dsn=dsn, queue="orders", location=location))
    words = declared("replay.md", tmp_path / "replay.yaml", location=location)

    said = run("replay", words, dsn)

    assert "replay-large-orders: starting Spark" in said
    assert said.splitlines()[-1] == "replay-large-orders: replayed 2 messages in 1 batch"
    assert by_partition(dsn, "orders-again") == {name: [{"total": 50}] for name in ("ada", "bob")}
    (row,) = reports(dsn, limit=10)
    assert (row.kind, row.state, row.target, row.rows_total) == (
        "replay", "stopped", "orders-again", 2,
    )  # fmt: skip
