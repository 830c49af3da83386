"""Commits stay cheap, compaction keeps readers alive, and foreign changes stop nothing."""

# pyright: basic
import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.types import StringType

from benchmarks.lake import TARGET, Clock, Cost, compare
from queen.arrow.columns import COLUMNS
from queen.lake import Batch, Lake, open_lake
from queen.lake.day_files import DayFiles
from queen.lake.delta import _bound
from queen.lake.iceberg import IcebergLake
from queen.lake.lake import CommitConflict
from queen.pipelines.compact import bins
from tests.spark.lakes.deletes import delete_by_position
from tests.spark.lakes.test_lakes import BEGIN, archive, offsets

MANY = 10**9


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Iterator[IcebergLake]:
    with IcebergLake(dsn, "orders", str(tmp_path / "lake"), make=True, max_snapshots=10) as lake:
        yield lake


def compact(lake: Lake) -> bool:
    """Merge all files of a day, as the pipeline does in its tasks."""
    table = lake.snapshot()
    groups = bins(table.files, MANY, 1_000)
    new = []
    for number, group in enumerate(groups):
        with DayFiles(lake.folder, f"{number:010d}-00000", schema=table.schema) as files:
            for file in group:
                for batch in table.reader.read(file, table.schema.names, 1_000):
                    files.write(batch)
        new += files.closed
    return lake.replace([file for group in groups for file in group], new)


def read(lake: Lake, *columns: str) -> pa.Table:
    """Read the table as a replay does."""
    table = lake.snapshot()
    batches = [batch for file in table.files for batch in table.reader.read(file, columns, 1_000)]
    return pa.Table.from_batches(batches)


def metadata_files(lake: Lake) -> int:
    return len(os.listdir(f"{lake.storage.location}/metadata"))


def test_a_commit_expires_old_snapshots_and_their_metadata(lake: IcebergLake) -> None:
    for number in range(1, 16):
        archive(lake, number, count=2)
    early_files, early_bytes = metadata_files(lake), len(_metadata(lake))
    for number in range(16, 61):
        archive(lake, number, count=2)

    assert len(lake.load().snapshots()) == 10
    assert len(_metadata(lake)) < early_bytes * 1.1
    # Manifests are merged when there are 40, so their number varies.
    assert metadata_files(lake) <= early_files + 40
    assert sorted(offsets(lake.files())) == list(range(120))
    assert lake.load().scan().to_arrow().num_rows == 120


def _metadata(lake: IcebergLake) -> bytes:
    return Path(lake.load().metadata_location.removeprefix("file://")).read_bytes()


def test_every_remaining_snapshot_is_readable(lake: IcebergLake) -> None:
    for number in range(1, 50):
        archive(lake, number, count=2)
    table = lake.load()

    counts = [
        table.scan(snapshot_id=each.snapshot_id).to_arrow().num_rows for each in table.snapshots()
    ]

    assert counts == [2 * number for number in range(50 - len(counts), 50)]


def test_a_table_with_too_many_snapshots_recovers(dsn: str, tmp_path: Path) -> None:
    """A table of an earlier release."""
    with IcebergLake(dsn, "orders", str(tmp_path), make=True, max_snapshots=MANY) as old:
        for number in range(1, 31):
            archive(old, number, count=2)
        assert len(old.load().snapshots()) == 30
    with IcebergLake(dsn, "orders", str(tmp_path), max_snapshots=5) as lake:
        archive(lake, 31, count=2)

        assert len(lake.load().snapshots()) == 5
        assert sorted(offsets(lake.files())) == list(range(62))


def test_a_tag_keeps_its_snapshot(lake: IcebergLake) -> None:
    archive(lake, 1, count=2)
    table = lake.load()
    first = table.current_snapshot()
    assert first is not None
    table.manage_snapshots().create_tag(first.snapshot_id, "audit").commit()
    for number in range(2, 30):
        archive(lake, number, count=2)

    assert lake.load().scan(snapshot_id=first.snapshot_id).to_arrow().num_rows == 2


def test_a_rolled_back_table_keeps_the_manifests_that_it_needs(lake: IcebergLake) -> None:
    """
    Manifests are merged after the first snapshots. A rollback makes the unmerged ones needed again.
    """
    for number in range(1, 8):
        archive(lake, number, count=2)
    table = lake.load()
    oldest = min(table.snapshots(), key=lambda each: each.sequence_number or 0)
    assert compact(lake)
    table = lake.load()
    table.manage_snapshots().rollback_to_snapshot(oldest.snapshot_id).commit()
    for number in range(8, 40):
        archive(lake, number, count=2)

    assert len(lake.load().snapshots()) == 10
    assert lake.load().scan().to_arrow().num_rows == 2 + 2 * 32


@pytest.mark.nightly
def test_what_a_commit_reads_and_writes_does_not_grow(dsn: str, tmp_path: Path) -> None:
    """The CPU time is compared by the next test, and by ``python -m benchmarks.lake``."""
    late, first = _compare(dsn, tmp_path, commits=160, block=40, max_snapshots=20)

    assert (first.snapshots, late.snapshots) == (20, 20)
    assert late.metadata_bytes <= 1.1 * first.metadata_bytes
    # Manifests are merged when there are 40, so their number varies.
    assert late.metadata_files <= first.metadata_files + 40


@pytest.mark.nightly
@pytest.mark.timeout(7_200)
def test_ten_thousand_commits_cost_as_much_as_the_first(dsn: str, tmp_path: Path) -> None:
    late, first = _compare(dsn, tmp_path, commits=10_000, block=100, max_snapshots=100)

    assert late.cpu_ms <= TARGET * first.cpu_ms
    assert late.metadata_bytes <= 1.1 * first.metadata_bytes


def _compare(
    dsn: str, folder: Path, *, commits: int, block: int, max_snapshots: int
) -> tuple[Cost, Cost]:
    """Commit many times, and then in turn with a new table."""
    limit = {"make": True, "max_snapshots": max_snapshots}
    with (
        IcebergLake(dsn, "old", str(folder / "old"), **limit) as old,
        IcebergLake(dsn, "new", str(folder / "new"), **limit) as new,
    ):
        clock = Clock(old)
        for _ in range(commits - block):
            clock.commit()
        return compare(clock, Clock(new), block)


def test_only_the_archive_itself_is_not_repeated_after_a_conflict(lake: IcebergLake) -> None:
    """Earlier releases turned off the retries of all writers, with a property of the table."""
    with lake.load().transaction() as transaction:
        transaction.set_properties({"commit.retry.num-retries": "0"})
    archive(lake, 1, count=2)
    assert "commit.retry.num-retries" not in lake.load().properties

    stale = lake.load()
    archive(lake, 2, count=2)
    with pytest.raises(CommitConflict):
        lake.append(stale, Batch.of(2, 7, []), [])

    assert len(lake.load().snapshots()) == 2


def test_compaction_is_a_replace_that_streaming_readers_skip(lake: IcebergLake) -> None:
    for number in (1, 2, 3):
        archive(lake, number)
    before = lake.load().scan().to_arrow().sort_by("offset")

    assert compact(lake)

    snapshot = lake.load().current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary.operation == Operation.REPLACE
    assert snapshot.summary["total-records"] == "300"
    assert snapshot.summary["deleted-data-files"] == "6"
    assert len(lake.files()) == 2
    assert lake.load().scan().to_arrow().sort_by("offset").equals(before)


def test_a_manifest_named_outside_the_table_is_not_deleted(
    lake: IcebergLake, tmp_path: Path
) -> None:
    """A client of the catalog can set the summary of a snapshot."""
    victim = tmp_path / "lake" / "data" / "victim"
    for number in range(1, 4):
        archive(lake, number, count=2)
    victim.write_text("needed")
    table = lake.load()
    with table.transaction() as transaction:
        names = {"queen.dropped-manifests": "../data/victim ../../lake/data/victim"}
        with transaction.update_snapshot(snapshot_properties=names).fast_append():
            pass
    for number in range(4, 30):
        archive(lake, number, count=2)

    assert victim.exists()


def test_deleted_rows_stop_neither_compaction_nor_replay(lake: IcebergLake) -> None:
    for number in (1, 2):
        archive(lake, number)
    path = lake.files()[0].path
    first = offsets(lake.files()[:1])
    delete_by_position(lake.load(), path, [0, 2])
    expected = sorted(set(range(200)) - {first[0], first[2]})

    assert sorted(read(lake, "offset").column("offset").to_pylist()) == expected
    assert compact(lake)

    assert not any(file.deletes for file in lake.files())
    assert sorted(offsets(lake.files())) == expected
    assert lake.load().scan().to_arrow().num_rows == 198
    archive(lake, 3)
    assert lake.load().scan().to_arrow().num_rows == 298


def test_a_file_whose_rows_are_all_deleted_is_removed(lake: IcebergLake) -> None:
    archive(lake, 1)
    for file in lake.files():
        delete_by_position(lake.load(), file.path, list(range(file.messages)))

    assert compact(lake)

    assert lake.files() == []


def test_rows_deleted_during_a_compaction_do_not_come_back(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2):
        archive(lake, number)
    path = lake.files()[0].path
    replace = lake.replace

    def overtaken(*arguments: Any) -> bool:  # noqa: ANN401
        delete_by_position(lake.load(), path, [0])
        return replace(*arguments)

    monkeypatch.setattr(lake, "replace", overtaken)
    assert not compact(lake)

    assert lake.load().scan().to_arrow().num_rows == 199
    monkeypatch.setattr(lake, "replace", replace)
    assert compact(lake)
    assert lake.load().scan().to_arrow().num_rows == 199


def _add(table: Table) -> None:
    table.update_schema().add_column("region", StringType()).commit()


def _rename(table: Table) -> None:
    table.update_schema().rename_column("payload", "body").commit()


def _drop(table: Table) -> None:
    table.update_schema().delete_column("headers").commit()


@pytest.mark.parametrize("change", [_add, _rename], ids=["added", "renamed"])
def test_an_evolved_table_is_compacted_and_replayed(
    lake: IcebergLake, change: Callable[[Table], None]
) -> None:
    archive(lake, 1)
    archive(lake, 2)
    change(lake.load())
    names = lake.load().schema().column_names
    before = lake.load().scan().to_arrow().sort_by("offset")

    assert read(lake, *COLUMNS).sort_by("offset").column("payload").to_pylist() == [
        f'{{"n":{number}}}' for number in range(200)
    ]
    assert compact(lake)

    after = lake.load().scan().to_arrow().sort_by("offset")
    assert after.column_names == list(names)
    assert after.to_pylist() == before.to_pylist()
    assert len(lake.files()) == 2


def test_values_of_an_added_column_survive_compaction(lake: IcebergLake) -> None:
    archive(lake, 1, count=10)
    _add(lake.load())
    old = lake.snapshot()
    with DayFiles(lake.folder, "0000000001-00000", schema=old.schema) as files:
        rows = pa.Table.from_batches(
            [batch for file in old.files for batch in old.reader.read(file, COLUMNS, 100)]
        )
        filled = rows.append_column("region", pa.array(["eu"] * 10))
        files.write(filled.combine_chunks().to_batches()[0])
    assert lake.replace(old.files, files.closed)
    archive(lake, 2, count=10)

    assert compact(lake)

    found = lake.load().scan().to_arrow().sort_by("offset")
    assert found.column("region").to_pylist() == ["eu"] * 10 + [None] * 10


def test_a_dropped_column_is_replayed_as_null(lake: IcebergLake) -> None:
    archive(lake, 1, count=10)
    _drop(lake.load())

    assert read(lake, *COLUMNS).column("headers").to_pylist() == [None] * 10


def test_delta_readers_skip_files_by_their_bounds(dsn: str, tmp_path: Path) -> None:
    with open_lake(dsn, name="orders", format="delta", location=str(tmp_path), make=True) as lake:
        archive(lake, 1)
        archive(lake, 2)
        actions = pa.table(lake.load().get_add_actions(flatten=True)).to_pylist()

    bounds = sorted((each["min.offset"], each["max.offset"]) for each in actions)
    assert bounds == [(0, 59), (60, 99), (100, 159), (160, 199)]
    assert {each["min.partition"] for each in actions} == {"a"}
    assert min(each["min.createdAt"] for each in actions) == BEGIN
    assert all(each["num_records"] in (60, 40) for each in actions)


def test_a_delta_bound_is_never_rounded_inwards() -> None:
    at = datetime(2026, 11, 14, 10, 0, 0, 123_456, tzinfo=UTC)

    assert _bound(at) == "2026-11-14T10:00:00.123Z"
    assert _bound(at, is_upper=True) == "2026-11-14T10:00:00.124Z"


def test_replaced_delta_files_stay_as_long_as_their_states(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    day = 86_400
    with open_lake(dsn, name="orders", format="delta", location=str(tmp_path), make=True) as lake:
        archive(lake, 1)
        archive(lake, 2)
        old = [file.path for file in lake.files()]
        five_days_ago = time.time() - 5 * day
        monkeypatch.setattr("queen.lake.delta.time.time", lambda: five_days_ago)
        assert compact(lake)
        monkeypatch.undo()
        for path in old:
            os.utime(path, (five_days_ago, five_days_ago))

        lake.remove_orphans(3 * day, 7 * day)
        assert all(os.path.exists(path) for path in old)

        lake.remove_orphans(3 * day, 4 * day)
        assert not any(os.path.exists(path) for path in old)
        assert sorted(offsets(lake.files())) == list(range(200))
