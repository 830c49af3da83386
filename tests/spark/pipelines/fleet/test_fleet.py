"""`queen pipeline run` runs many pipelines from one file, and a failure stops no other."""

# pyright: basic
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from queen import errors
from queen.pipelines.archive import Config
from queen.pipelines.fleet.declaration import declared
from queen.pipelines.report import reports
from queen.wire.resources import Pipeline
from tests.spark import processes
from tests.spark.databases import migrated
from tests.spark.driver import ROOT
from tests.spark.log import Log
from tests.spark.pipelines.test_archive import archived
from tests.spark.pipelines.test_local_engine import WITHOUT_SPARK
from tests.support.postgres import Postgres

FOREVER = """
poll_seconds: 0.2
defaults: {location: "%s/{queue}", interval_seconds: 0.2, commit_seconds: 0}
pipelines:
  - {kind: archive, queues: "orders-*"}
  - {kind: archive, queue: invoices}
"""


@contextmanager
def fleet(dsn: str, file: Path, text: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Run a file with the local engine, in an environment without Spark and Java."""
    file.write_text(text)
    command = [sys.executable, "-c", WITHOUT_SPARK, "pipeline", "run", str(file)]
    with subprocess.Popen(
        [*command, "--engine", "local", *words],
        env={
            "PYTHONPATH": str(ROOT / "src"),
            "DATABASE_URL": dsn,
            "PATH": "/nowhere",
            "XDG_STATE_HOME": str(file.parent),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def rows(dsn: str) -> dict[str, Pipeline]:
    return {each.name: each for each in reports(dsn, limit=1_000)}


def messages(log: Log, lake: Path, dsn: str) -> bool:
    """Whether the lake has all messages of a queue."""
    config = Config(dsn=dsn, queue=log.queue, location=str(lake / log.queue))
    try:
        return archived(config) == log.messages()
    except errors.QueenError:
        return False  # It has no table yet.


def test_a_failing_pipeline_is_retried_and_the_others_go_on(dsn: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    text = f"""
retries: 1
defaults: {{location: "{tmp_path}/lake/{{queue}}"}}
pipelines:
  - {{kind: archive, queues: "orders-*"}}
  - {{kind: archive, queue: invoices, location: {tmp_path}/file/invoices}}
"""
    with Log(dsn, "orders-eu") as eu, Log(dsn, "orders-us") as us, Log(dsn, "invoices") as other:
        for log in (eu, us, other):
            log.fill(segments=2)

        with fleet(dsn, tmp_path / "fleet.yaml", text, "-o", "json") as process:
            shown, said = process.communicate(timeout=200)

        assert process.returncode == 1, said
        assert "archive-invoices: failed, next attempt in 1 s: " in said
        assert "archive-invoices: failed: " in said
        assert "archive-orders-eu: archived 120 messages in 1 file" in said
        assert "3 pipelines: 2 archived, lag 0; 1 failed" in said.splitlines()
        states = {each["name"]: each["state"] for each in json.loads(shown)}
        assert states == {
            "archive-invoices": "failed",
            "archive-orders-eu": "stopped",
            "archive-orders-us": "stopped",
        }
        found = rows(dsn)
        assert {name: row.state for name, row in found.items()} == states
        assert "file" in (found["archive-invoices"].error or "")
        assert messages(eu, tmp_path / "lake", dsn)
        assert messages(us, tmp_path / "lake", dsn)


def test_new_queues_are_picked_up_and_a_signal_ends_all_in_order(dsn: str, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with (
        Log(dsn, "orders-eu") as eu,
        Log(dsn, "invoices") as invoices,
        fleet(dsn, tmp_path / "fleet.yaml", FOREVER % lake) as process,
    ):
        eu.fill(segments=1)
        invoices.fill(segments=1)
        with Log(dsn, "orders-us") as us:
            us.fill(segments=1)
            for log in (eu, invoices, us):
                processes.wait(
                    lambda log=log: messages(log, lake, dsn), 120, lambda: f"{rows(dsn)}"
                )
        eu.fill(segments=1)
        processes.wait(lambda: messages(eu, lake, dsn), 120, lambda: f"{rows(dsn)}")
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=200)

    assert process.returncode == 0, said
    assert said.splitlines()[-1] == "3 pipelines: 3 archived, lag 0"
    found = rows(dsn)
    assert {row.state for row in found.values()} == {"stopped"}
    assert found["archive-orders-eu"].rows_total == 120


def test_every_error_of_a_file_is_reported_with_its_path(dsn: str, tmp_path: Path) -> None:
    text = f"""
concurrency: 0
parallel: 2
defaults: {{lokation: /lake, storage: {{region: 5, bucket: x}}}}
pipelines:
  - {{kind: archive, queue: orders, location: {tmp_path}/a, interval_second: 5}}
  - {{kind: archive, queues: "orders-*", location: {tmp_path}/b, max_messages: many}}
  - {{kind: replay, name: again, from: orders, to: other}}
  - {{kind: sing}}
  - {{kind: compact, every: soon}}
  - orders
  - {{kind: compact, name: one}}
  - {{kind: compact, name: one}}
"""
    with fleet(dsn, tmp_path / "fleet.yaml", text) as process:
        _, said = process.communicate(timeout=200)

    assert process.returncode == 2, said
    lines = [line.strip() for line in said.splitlines()]
    expected = [
        "parallel: this field does not exist; it has defaults, pipelines, concurrency, retries,",
        "concurrency: expected `int` >= 1",
        "pipelines[0].interval_second: this field does not exist; did you mean interval_seconds?",
        "pipelines[0].storage: ",
        "pipelines[1].max_messages: expected `int`, got `str`",
        "pipelines[1].location: add {queue}, because each queue needs its own location",
        "pipelines[2].kind: a pipeline replay needs Spark: leave out --engine local",
        "pipelines[3].kind: choose one of archive, compact, ",
        "pipelines[4].name: this option is required: set it",
        "pipelines[4].every: ",
        "pipelines[5]: write `kind:` and the options of the pipeline",
    ]
    for start in expected:
        assert [line for line in lines if line.startswith(start)], (start, said)
    assert "Traceback" not in said


def test_a_replay_is_not_repeated() -> None:
    replay = {"kind": "replay", "name": "again", "from": "a", "to": "b", "every": "1d"}

    with pytest.raises(errors.InvalidOption, match=r"every: remove it, because a replay runs once"):
        declared({"pipelines": [replay]}, dsn="postgresql://db/queen", is_local=False)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ([{"kind": "compact", "name": "one"}] * 2, "pipelines[1].name: pipelines[0] has"),
        (
            [{"kind": "archive", "queue": each, "location": "/lake"} for each in ("a", "b")],
            "pipelines[1].location: pipelines[0] has /lake too: choose another one",
        ),
        ([{"kind": "compact", "name": "a", "dsn": None}], "pipelines[0].dsn: expected `str`"),
        ([], "pipelines: write a list with at least one pipeline"),
    ],
)
def test_pipelines_must_differ(given: list[dict[str, str]], error: str) -> None:
    with pytest.raises(errors.InvalidOption) as caught:
        declared({"pipelines": given}, dsn="postgresql://db/queen", is_local=True)
    assert error in str(caught.value)


def test_missing_queues_are_found_before_anything_runs(dsn: str, tmp_path: Path) -> None:
    text = f"""
defaults: {{location: "{tmp_path}/{{queue}}"}}
pipelines:
  - {{kind: archive, queue: one}}
  - {{kind: archive, queue: two}}
  - {{kind: compact, name: three}}
  - {{kind: compact, name: one}}
"""
    with fleet(dsn, tmp_path / "fleet.yaml", text) as process:
        _, said = process.communicate(timeout=200)

    assert process.returncode == 2, said
    assert [line.strip() for line in said.splitlines()] == [
        "queen: the fleet has 3 errors:",
        "pipelines[0]: queue one does not exist",
        "pipelines[1]: queue two does not exist",
        "pipelines[2]: archive three does not exist",
    ]
    assert rows(dsn) == {}


IDLE_QUEUES = 100
POLLS = 10
MOST_PER_POLL = 3
"""The search for queues, the poll of all archives, and at times the renewal of all rows."""
MOST_CONNECTIONS = 3
"""Of the planner, of the reports, and one that the last task has left for the next one."""


@pytest.mark.nightly
def test_a_hundred_idle_queues_cost_three_statements_per_poll(tmp_path: Path) -> None:
    text = f"""
poll_seconds: 0.2
defaults: {{location: "{tmp_path}/{{queue}}", interval_seconds: 0.2, format: parquet}}
pipelines:
  - {{kind: archive, queues: "orders-*"}}
"""
    with Postgres({"log_statement": "all"}) as server:
        dsn = migrated(server)
        for number in range(IDLE_QUEUES):
            with Log(dsn, f"orders-{number}") as log:
                log.push("a", [number])

        def sent() -> list[str]:
            """The statements so far, without those of this test."""
            lines = server.log.read_text().splitlines()
            return [line for line in lines if "  execute " in line or "  statement: " in line]

        def polls(since: int) -> int:
            """One search for queues is sent in each interval."""
            return sum("-- Queues whose names match" in line for line in sent()[since:])

        with fleet(dsn, tmp_path / "fleet.yaml", text):
            processes.wait(
                lambda: [each.state for each in rows(dsn).values()] == ["idle"] * IDLE_QUEUES,
                200,
                lambda: f"{rows(dsn)}",
            )
            connections = server.value(
                "select count(*) from pg_stat_activity where application_name = 'queen-spark'"
            )
            before = len(sent())
            processes.wait(lambda: polls(before) >= POLLS, 120, lambda: f"{sent()[before:]}")
            count, polled = len(sent()) - before, polls(before)

    print(f"{count / polled:.1f} statements per poll, {connections} connections")
    assert count <= MOST_PER_POLL * polled
    assert int(str(connections)) <= MOST_CONNECTIONS
