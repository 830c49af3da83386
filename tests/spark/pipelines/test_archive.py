"""Despite faults, the lake has each message of the log once before retention removes it."""

# pyright: basic
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import duckdb
import msgspec
import pytest

from queen import errors
from queen.codec.ids import message_id
from queen.lake import DataFile, open_lake
from queen.lake.iceberg import IcebergLake
from queen.pipelines import archive
from queen.pipelines.archive import Config, Progress
from queen.pipelines.tasks import Engine
from tests.spark.databases import migrated
from tests.spark.log import Identity, Log, identity
from tests.support.postgres import Postgres

Format = Literal["iceberg", "delta", "parquet"]
Write = Callable[[int], Sequence[DataFile]]
STEPS = ("planned", "written", "committed", "archived")
both_engines = pytest.mark.parametrize("task_engine", ["local", "spark"], indirect=True)


class Crash(Exception):
    """A simulated crash of the driver."""


@pytest.fixture
def log(dsn: str) -> Iterator[Log]:
    with Log(dsn, "orders") as log:
        yield log


@pytest.fixture
def config(dsn: str, tmp_path: Path) -> Config:
    """An archive with batches of 300 messages, so that there are several."""
    return Config(
        dsn=dsn, queue="orders", location=str(tmp_path / "lake"), tasks=2, max_messages=300
    )


def archived(config: Config) -> list[Identity]:
    """The messages in the lake's files, read without code of Queen, in file order per partition."""
    name = config.name or config.queue
    location = config.location
    with open_lake(config.dsn, name=name, format=config.format, location=location) as lake:
        paths = [file.path for file in lake.files()]
    if not paths:
        return []
    query = 'select partition, "offset", payload from read_parquet($1, hive_partitioning = false)'
    with duckdb.connect() as connection:
        connection.execute("set threads = 1")
        found = [identity(*row) for row in connection.execute(query, [paths]).fetchall()]
    for partition in {each.partition for each in found}:
        offsets = [each.offset for each in found if each.partition == partition]
        assert offsets == list(range(offsets[0], offsets[0] + len(offsets))), partition
    return sorted(found)


def figures(log: Log) -> dict[str, Any]:
    (row,) = log.execute(
        """
        select a.batch, a.xid::text::bigint as xid, h.xid::text::bigint as held, b.messages
        from queen.archives a
        left join queen.holds h on h.queue_id = a.queue_id and h.name = 'archive:' || a.name
        cross join lateral (
          select sum(b.messages)::bigint as messages from queen.archive_batches b
          where b.archive = a.name and b.state = 'archived'
        ) b
        """
    )
    return row


def retain(log: Log) -> int:
    """Age all messages, run retention, and return the number of remaining messages."""
    log.advance(seconds=1_000)
    while not log.execute(
        "select is_over from queen.retain(1, (select id from queen.queues), 'age', 100, 1)"
    )[0]["is_over"]:
        pass
    return len(log.messages())


@both_engines
@pytest.mark.parametrize("format", ["iceberg", "delta", "parquet"])
def test_every_message_is_in_the_lake_once(
    task_engine: Engine, dsn: str, tmp_path: Path, log: Log, format: Format
) -> None:
    log.stop_clock()
    log.fill(segments=6)
    log.advance(seconds=86_400)
    log.fill(segments=6)
    config = Config(
        dsn=dsn, queue="orders", location=str(tmp_path), format=format, max_messages=300, tasks=2
    )

    first = archive.run(task_engine, config)
    log.fill(segments=2)
    second = archive.run(task_engine, config)

    assert archived(config) == log.messages()
    assert (first.rows, second.rows) == (720, 120)
    ledger = figures(log)
    assert ledger["messages"] == 840
    assert ledger["held"] == ledger["xid"]
    assert archive.run(task_engine, config).rows == 0


def test_the_table_has_every_column_as_pushed(
    task_engine: Engine, log: Log, config: Config
) -> None:
    log.push("a", [{"n": 1}, "zwei", None])
    archive.run(task_engine, config)

    with IcebergLake(config.dsn, "orders", config.location) as lake:
        rows = lake.load().scan().to_arrow().sort_by("offset").to_pylist()

    (stored,) = log.execute("select partition_id, created_at from queen.segments")
    ids = [str(message_id(stored["partition_id"], offset)) for offset in range(3)]
    assert [row["payload"] for row in rows] == ['{"n": 1}', '"zwei"', "null"]
    assert [row["id"] for row in rows] == [row["transactionId"] for row in rows] == ids
    assert [row["createdAt"] for row in rows] == [stored["created_at"]] * 3
    assert {(row["queue"], row["partition"], row["headers"]) for row in rows} == {
        ("orders", "a", None)
    }


@both_engines
@pytest.mark.parametrize("step", STEPS)
def test_a_driver_crash_after_any_step_loses_and_repeats_no_message(
    task_engine: Engine, log: Log, config: Config, step: str
) -> None:
    log.fill()

    def report(progress: Progress) -> None:
        if progress.step == step:
            raise Crash

    for _ in range(2):
        with pytest.raises(Crash):
            archive.run(task_engine, config, report=report)
    log.fill(segments=2)
    archive.run(task_engine, config)

    assert archived(config) == log.messages()
    assert figures(log)["messages"] == len(log.messages())


@both_engines
@pytest.mark.parametrize("is_written", [False, True])
def test_a_task_that_fails_before_or_after_its_write_is_retried(
    task_engine: Engine,
    log: Log,
    config: Config,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_written: bool,
) -> None:
    log.fill()
    flag = tmp_path / "failed"
    run_tasks = archive.run_tasks

    def run_failing(task_engine: Engine, count: int, write: Write) -> list[DataFile]:
        def failing(number: int) -> Sequence[DataFile]:
            files = write(number) if is_written else []
            if not flag.exists():
                flag.touch()
                raise RuntimeError("the first attempt")
            return files if is_written else write(number)

        return run_tasks(task_engine, count, failing)

    monkeypatch.setattr(archive, "run_tasks", run_failing)
    archive.run(task_engine, config)

    assert flag.exists()
    assert archived(config) == log.messages()


@both_engines
def test_two_concurrent_drivers_archive_each_message_once(
    task_engine: Engine, log: Log, config: Config
) -> None:
    log.fill(segments=20)
    failures: list[Exception] = []

    def drive() -> None:
        try:
            archive.run(task_engine, config)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=drive) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert archived(config) == log.messages()


def test_retention_removes_only_archived_messages(
    task_engine: Engine, dsn: str, config: Config
) -> None:
    with Log(dsn, "orders", retention_enabled=True, retention_seconds=60) as log:
        log.stop_clock()
        log.execute("insert into queen.duties (name, epoch) values ('retention', 1)")
        log.fill(segments=12)
        whole = log.messages()
        left: list[int] = []

        archive.run(task_engine, config, report=lambda _: left.append(retain(log)))

        assert archived(config) == whole
        assert left[0] == len(whole)
        assert left[-1] < left[0]


def test_a_released_hold_is_created_again(task_engine: Engine, log: Log, config: Config) -> None:
    log.fill(segments=2)
    archive.run(task_engine, config)
    log.execute("select queen.unhold('orders', 'archive:orders')")
    log.fill(segments=2)

    archive.run(task_engine, config)

    assert figures(log)["held"] == figures(log)["xid"]


def test_uncommitted_messages_are_archived_later(
    task_engine: Engine, dsn: str, log: Log, config: Config
) -> None:
    log.fill(segments=2)
    with Log(dsn, "orders") as late:
        with late.connection.transaction():
            late.push("late", [1, 2, 3])
            log.fill(segments=2)
            archive.run(task_engine, config)
            early = archived(config)
        archive.run(task_engine, config)

    assert len(early) == 120
    assert archived(config) == log.messages()


def test_an_erased_message_is_left_out(task_engine: Engine, log: Log, config: Config) -> None:
    for number in range(4):
        log.push("a", [number])
    # The state after a redaction.
    log.execute("update queen.segments set expires_at = '-infinity' where base_offset = 2")
    archive.run(task_engine, config)

    with IcebergLake(config.dsn, "orders", config.location) as lake:
        found = lake.load().scan().to_arrow().column("offset").to_pylist()
    assert sorted(found) == [0, 1, 3]


def test_a_recreated_queue_is_not_the_archived_one(
    task_engine: Engine, dsn: str, log: Log, config: Config
) -> None:
    log.fill(segments=1)
    archive.run(task_engine, config)
    log.execute("select queen.delete_queue('orders')")
    with pytest.raises(errors.QueueNotFound):
        archive.run(task_engine, config)

    with Log(dsn, "orders"), pytest.raises(errors.InvalidOption, match="another name"):
        archive.run(task_engine, config)


def test_a_recreated_ledger_does_not_match_the_lake(
    task_engine: Engine, log: Log, config: Config
) -> None:
    log.fill()
    archive.run(task_engine, config)
    before = archived(config)
    log.execute("select queen.drop_archive('orders')")

    with pytest.raises(errors.LakeDiverged):
        archive.run(task_engine, config)

    assert archived(config) == before


def test_an_archive_stays_in_its_lake(
    task_engine: Engine, log: Log, config: Config, tmp_path: Path
) -> None:
    log.fill(segments=1)
    archive.run(task_engine, config)
    other = Config(dsn=config.dsn, queue="orders", location=str(tmp_path / "other"))

    with pytest.raises(errors.InvalidOption, match="has batches"):
        archive.run(task_engine, other)


def test_a_restart_of_postgresql_does_not_stop_the_archive(
    task_engine: Engine, tmp_path: Path
) -> None:
    with Postgres(in_memory=True) as postgres:
        dsn = migrated(postgres)
        config = Config(dsn=dsn, queue="orders", location=str(tmp_path), tasks=2, max_messages=300)
        with Log(dsn, "orders") as log:
            log.fill()
        steps: list[str] = []

        def restart(progress: Progress) -> None:
            steps.append(progress.step)
            if len(steps) <= len(STEPS):
                postgres.restart()

        archive.run(task_engine, config, report=restart)

        assert steps[:4] == list(STEPS)
        with Log(dsn, "orders") as log:
            assert archived(config) == log.messages()
            assert figures(log)["messages"] == 600


@pytest.mark.parametrize(
    ("commit_seconds", "commit_bytes", "commits"),
    [(3_600, 10**9, 1), (3_600, 1, 4), (0, 10**9, 4)],
    ids=["neither", "bytes", "seconds"],
)
def test_a_running_archive_commits_by_time_or_size(
    task_engine: Engine,
    log: Log,
    config: Config,
    commit_seconds: float,
    commit_bytes: int,
    commits: int,
) -> None:
    """Polls see new messages each time, but only some of them commit."""
    config = msgspec.structs.replace(
        config,
        interval_seconds=0.01,
        commit_seconds=commit_seconds,
        commit_bytes=commit_bytes,
    )
    log.push("a", [0])
    steps: list[str] = []

    def report(progress: Progress) -> None:
        steps.append(progress.step)
        if progress.step == "idle":
            if steps.count("idle") == 4:
                raise Crash
            # More than one transaction, because the last one never fills a batch.
            log.push("a", [1])
            log.push("a", [2])

    with pytest.raises(Crash):
        archive.run(task_engine, config, report=report)

    assert steps.count("committed") == commits
    archive.run(task_engine, msgspec.structs.replace(config, interval_seconds=0))
    assert archived(config) == log.messages()
