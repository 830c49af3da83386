"""A failing archive does not stop retention. Runs report open transactions and missed messages."""

# pyright: basic
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Literal
from uuid import uuid4

import psycopg
import pytest

from queen import errors
from queen.lake import open_lake
from queen.pipelines import archive
from queen.pipelines.archive import Config, Progress
from queen.pipelines.tasks import Engine
from tests.spark.log import Log
from tests.spark.pipelines.test_archive import Crash, archived
from tests.support.postgres import Server

Format = Literal["iceberg", "delta", "parquet"]


@pytest.fixture
def log(dsn: str) -> Iterator[Log]:
    with Log(dsn, "orders", retention_enabled=True, retention_seconds=60) as log:
        log.execute("insert into queen.duties (name, epoch) values ('retention', 1)")
        yield log


@pytest.fixture
def other(postgres: Server) -> Iterator[str]:
    """Another database of the same PostgreSQL server."""
    name = f"other_{uuid4().hex[:8]}"
    yield postgres.create_database(name)
    postgres.drop_database(name)


def config_of(dsn: str, location: Path, format: Format = "iceberg") -> Config:
    return Config(dsn=dsn, queue="orders", location=str(location), format=format, tasks=1)


def held(log: Log) -> list[str]:
    return [row["name"] for row in log.execute("select name from queen.holds")]


def retain(log: Log) -> int:
    """Run retention, a second after all messages became old, and count the messages that stay."""
    log.execute("update queen.segments set created_at = created_at - interval '61 seconds'")
    log.execute("select queen.retain(1, (select id from queen.queues), 'age', 100, 1)")
    return len(log.messages())


@pytest.mark.parametrize("format", ["iceberg", "delta", "parquet"])
def test_a_wrong_location_leaves_no_hold_and_can_be_corrected(
    task_engine: Engine, dsn: str, tmp_path: Path, log: Log, format: Format
) -> None:
    log.fill(segments=2)
    (tmp_path / "file").touch()

    with pytest.raises(errors.LakeUnavailable, match="file/lake is unavailable: ") as failure:
        archive.run(task_engine, config_of(dsn, tmp_path / "file" / "lake", format))

    assert "\n" not in str(failure.value)
    assert held(log) == []
    assert log.execute("select 1 from queen.archives") == []
    right = config_of(dsn, tmp_path / "lake", format)
    archive.run(task_engine, right)
    assert archived(right) == log.messages()


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("nope://x:secret@bucket/orders", errors.LakeUnavailable),
        ("s3://x:secret@/", errors.InvalidOption),
    ],
)
def test_an_unsupported_location_is_an_error_without_its_credentials(
    task_engine: Engine, dsn: str, log: Log, uri: str, expected: type[errors.QueenError]
) -> None:
    with pytest.raises(expected) as failure:
        archive.run(task_engine, Config(dsn=dsn, queue="orders", location=uri))

    assert "secret" not in str(failure.value)
    assert held(log) == []


def test_a_first_batch_that_fails_stops_neither_retention_nor_a_correction(
    task_engine: Engine, dsn: str, tmp_path: Path, log: Log
) -> None:
    log.fill(segments=2)
    wrong, right = (config_of(dsn, tmp_path / name) for name in ("wrong", "right"))
    kept: list[int] = []

    def report(progress: Progress) -> None:
        if progress.step == "written":
            kept.append(retain(log))
            raise Crash

    with pytest.raises(Crash):
        archive.run(task_engine, wrong, report=report)

    assert kept == [120]  # The batch was protected while it ran.
    assert held(log) == []
    log.fill(segments=1)
    archive.run(task_engine, right)
    assert archived(right) == log.messages()
    assert held(log) == ["archive:orders"]
    with pytest.raises(errors.InvalidOption, match="has batches as iceberg at "):
        archive.run(task_engine, wrong)


def test_retention_continues_if_a_first_batch_never_ended(
    task_engine: Engine, dsn: str, tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.fill(segments=1)
    config = config_of(dsn, tmp_path / "lake")

    def report(progress: Progress) -> None:
        if progress.step == "planned":
            raise Crash

    # A driver that was killed can't drop its hold.
    monkeypatch.setattr("queen.lake.ledger.Ledger.release_first", lambda *_: None)
    with pytest.raises(Crash):
        archive.run(task_engine, config, report=report)
    assert retain(log) == 60
    log.execute("update queen.holds set expires_at = expires_at - interval '1 hour'")

    assert retain(log) == 0
    log.fill(segments=1)
    assert archive.run(task_engine, config).missed == 60


def test_an_empty_queue_is_held_from_the_first_successful_run_on(
    task_engine: Engine, dsn: str, tmp_path: Path, log: Log
) -> None:
    config = config_of(dsn, tmp_path / "lake")
    archive.run(task_engine, config)
    log.fill(segments=1)

    assert retain(log) == 60
    archive.run(task_engine, config)
    assert len(archived(config)) == 60


def test_an_open_transaction_of_another_database_is_named(
    task_engine: Engine, dsn: str, other: str, tmp_path: Path, log: Log
) -> None:
    config = config_of(dsn, tmp_path / "lake")
    log.fill(segments=1)
    with psycopg.connect(other) as connection:
        connection.execute("create table open ()")
        pid, name = connection.info.backend_pid, connection.info.dbname
        log.fill(segments=1)
        blocked = archive.run(task_engine, config)

    assert (blocked.step, blocked.state, blocked.rows) == ("held_back", "running", 60)
    assert blocked.held_back_by is not None
    assert blocked.held_back_by.startswith(f"pid {pid} of database {name} since ")
    free = archive.run(task_engine, config)
    assert (free.step, free.held_back_by, free.rows) == ("idle", None, 60)
    assert archived(config) == log.messages()


def test_a_short_transaction_is_waited_for(
    task_engine: Engine,
    dsn: str,
    other: str,
    tmp_path: Path,
    log: Log,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = config_of(dsn, tmp_path / "lake")
    with psycopg.connect(other) as connection:
        connection.execute("create table open ()")
        log.fill(segments=1)
        # It ends while the archive waits.
        clock = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: connection.commit())
        monkeypatch.setattr(archive, "time", clock)
        ended = archive.run(task_engine, config)

    assert (ended.step, ended.rows) == ("idle", 60)


@pytest.mark.parametrize("format", ["iceberg", "delta", "parquet"])
def test_messages_that_were_purged_unarchived_are_recorded_and_shown(
    task_engine: Engine,
    dsn: str,
    tmp_path: Path,
    log: Log,
    format: Format,
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = config_of(dsn, tmp_path / "lake", format)
    log.fill(segments=1)
    archive.run(task_engine, config)
    log.fill(segments=1)
    log.execute("select queen.purge('orders', 'p0', false, null, null, 10)")
    with caplog.at_level(logging.WARNING, "queen.spark"):
        second = archive.run(task_engine, config)
    log.fill(segments=1)
    third = archive.run(task_engine, config)

    assert (second.rows, second.missed, third.rows, third.missed) == (40, 20, 60, 20)
    assert "20 messages of queue orders were removed before they were archived" in caplog.text
    batches = log.execute(
        "select missed_messages, missed from queen.archive_batches order by batch"
    )
    assert [row["missed_messages"] for row in batches] == [0, 20, 0]
    (gap,) = batches[1]["missed"]
    assert (gap["partition"], gap["firstOffset"], gap["endOffset"]) == ("p0", 20, 40)
    with open_lake(dsn, name="orders", format=format, location=config.location) as lake:
        last = lake.last()
    assert last is not None
    assert (last.missed, last.missed_total) == (0, 20)


def test_a_purge_of_all_messages_is_shown_before_the_next_batch(
    task_engine: Engine, dsn: str, tmp_path: Path, log: Log
) -> None:
    config = config_of(dsn, tmp_path / "lake")
    log.fill(segments=1)
    archive.run(task_engine, config)
    log.fill(segments=1)
    log.execute("select queen.purge('orders', null, false, null, null, 10)")

    idle = archive.run(task_engine, config)

    assert (idle.step, idle.rows, idle.missed) == ("idle", 0, 60)
