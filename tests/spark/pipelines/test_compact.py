"""Compaction changes files, but never messages."""

# pyright: basic
import os
import threading
import time
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Literal

import pytest

from queen import errors
from queen.lake import DataFile, open_lake
from queen.lake.iceberg import IcebergLake
from queen.pipelines import archive, compact
from queen.pipelines.archive import Config
from queen.pipelines.tasks import Engine
from tests.spark.log import Log
from tests.spark.pipelines.test_archive import archived


def config_of(dsn: str, tmp_path: Path, format: Literal["iceberg", "delta"] = "iceberg") -> Config:
    return Config(
        dsn=dsn, queue="orders", location=str(tmp_path), format=format, tasks=2, max_messages=100
    )


def compact_all(task_engine: Engine, dsn: str, **options: Any) -> compact.Progress:  # noqa: ANN401
    return compact.run(task_engine, compact.Config(dsn=dsn, name="orders", **options))


def files(config: Config) -> list[DataFile]:
    with open_lake(
        config.dsn, name="orders", format=config.format, location=config.location
    ) as lake:
        return lake.files()


@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_small_files_of_a_day_become_one_with_the_same_rows(
    task_engine: Engine, dsn: str, tmp_path: Path, format: Literal["iceberg", "delta"]
) -> None:
    config = config_of(dsn, tmp_path, format)
    with Log(dsn, "orders") as log:
        log.stop_clock()
        for _ in range(2):
            log.fill(segments=6)
            log.advance(seconds=86_400)
        archive.run(task_engine, config)
        small = len(files(config))

        progress = compact_all(task_engine, dsn)

        assert (progress.replaced, progress.made) == (small, 2)
        assert [file.messages for file in files(config)] == [360, 360]
        assert archived(config) == log.messages()
        assert compact_all(task_engine, dsn).made == 0
        log.fill(segments=2)
        archive.run(task_engine, config)
        assert archived(config) == log.messages()


def test_old_snapshots_and_their_unshared_files_are_removed(
    task_engine: Engine, dsn: str, tmp_path: Path
) -> None:
    config = config_of(dsn, tmp_path)
    with Log(dsn, "orders") as log:
        log.fill(segments=6)
        archive.run(task_engine, config)
        old = [file.path for file in files(config)]
        compact_all(task_engine, dsn)
        day_ago = time.time() - 86_400
        for path in tmp_path.rglob("*"):
            if path.is_file():
                os.utime(path, (day_ago, day_ago))

        progress = compact_all(task_engine, dsn, snapshot_seconds=0, orphan_seconds=3_600)

        assert progress.expired > 0
        assert not any(os.path.exists(path) for path in old)
        assert archived(config) == log.messages()
        log.fill(segments=1)
        archive.run(task_engine, config)
        assert archived(config) == log.messages()


def test_compaction_beside_an_archive_loses_and_repeats_no_message(
    task_engine: Engine, dsn: str, tmp_path: Path
) -> None:
    config = config_of(dsn, tmp_path)
    with Log(dsn, "orders") as log:
        log.fill(segments=4)
        archive.run(task_engine, config)
        log.fill(segments=16)
        is_over = threading.Event()
        failures: list[Exception] = []
        compacted: list[int] = []

        def compact_on() -> None:
            try:
                while not is_over.is_set():
                    compacted.append(compact_all(task_engine, dsn, snapshot_seconds=0).made)
            except Exception as error:
                failures.append(error)

        thread = threading.Thread(target=compact_on)
        thread.start()
        archive.run(task_engine, config)
        is_over.set()
        thread.join()

        assert failures == []
        assert sum(compacted) > 0
        with IcebergLake(dsn, "orders", config.location) as lake:
            assert lake.last() is not None
        assert sorted(set(archived(config))) == archived(config) == log.messages()


def test_a_missing_archive_is_not_compacted(task_engine: Engine, dsn: str) -> None:
    with pytest.raises(errors.NotFound):
        compact_all(task_engine, dsn)


def test_neighbouring_files_of_a_day_are_merged_up_to_the_target_size() -> None:
    day = date(2026, 11, 15)
    sizes = [30, 30, 30, 30, 90, 10, 20, 60, 5]

    groups = compact.bins([_file(day, at, size) for at, size in enumerate(sizes)], 100, 1_000)

    assert [[file.bytes for file in group] for group in groups] == [[30, 30, 30], [10, 20]]


def test_files_of_two_days_are_never_merged() -> None:
    day = date(2026, 11, 15)
    found = [_file(day + timedelta(days=at % 2), at, 10) for at in range(6)]

    groups = compact.bins(found, 100, 1_000)

    assert [[file.path for file in group] for group in groups] == [["0", "2", "4"], ["1", "3", "5"]]


def test_the_number_of_files_replaced_at_a_time_is_bounded() -> None:
    day = date(2026, 11, 15)
    found = [_file(day, at, 30) for at in range(9)]

    assert [len(group) for group in compact.bins(found, 100, 6)] == [3, 3]
    assert [len(group) for group in compact.bins(found, 100, 2)] == [2]


def _file(day: date, number: int, size: int) -> DataFile:
    return DataFile(str(number), day, 1, size)
