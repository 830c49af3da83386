"""A lake commits a batch once, for any number of writers and attempts."""

# pyright: basic
import os
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import psycopg
import pyarrow as pa
import pytest
import sqlalchemy.exc
from psycopg.conninfo import make_conninfo

from queen import errors
from queen.arrow.columns import BY_NAME
from queen.lake import Batch, DataFile, Lake, open_lake
from queen.lake.day_files import DayFiles
from queen.lake.iceberg import IcebergLake
from queen.lake.lake import CommitConflict
from queen.lake.ledger import Ledger
from queen.lake.storage import normal
from queen.store.migrations import make_roles
from tests.spark.log import Log
from tests.support.postgres import Server

FORMATS = ("iceberg", "delta", "parquet")
BEGIN = datetime(2026, 11, 14, 23, 59, tzinfo=UTC)


@pytest.fixture(params=FORMATS)
def lake(request: pytest.FixtureRequest, dsn: str, tmp_path: Path) -> Iterator[Lake]:
    with make_lake(dsn, tmp_path, request.param) as lake:
        yield lake


@pytest.fixture
def iceberg(dsn: str, tmp_path: Path) -> Iterator[IcebergLake]:
    with IcebergLake(dsn, "orders", str(tmp_path), make=True) as lake:
        yield lake


def make_lake(dsn: str, folder: Path, format: str) -> Lake:
    return open_lake(dsn, name="orders", format=format, location=str(folder), make=True)


def rows(first: int, count: int, *, begin: datetime = BEGIN) -> pa.RecordBatch:
    """Messages one second apart."""
    texts = [f"m{number}" for number in range(first, first + count)]
    columns = {
        "queue": ["orders"] * count,
        "partition": ["a"] * count,
        "offset": list(range(first, first + count)),
        "id": texts,
        "transactionId": texts,
        "payload": [f'{{"n":{number}}}' for number in range(first, first + count)],
        "headers": [None] * count,
        "traceId": [None] * count,
        "createdAt": [begin + timedelta(seconds=number) for number in range(count)],
    }
    arrays = [pa.array(columns[each.name], each.arrow) for each in BY_NAME.values()]
    return pa.RecordBatch.from_arrays(arrays, list(BY_NAME))


def write(lake: Lake, name: str, first: int, count: int, **at: datetime) -> list[DataFile]:
    with DayFiles(lake.folder, name) as files:
        files.write(rows(first, count, **at))
    return files.closed


def archive(lake: Lake, number: int, *, token: int = 7, count: int = 100) -> Batch:
    files = write(lake, f"{number:010d}-00000", (number - 1) * count, count)
    return lake.commit(Batch.of(number, token, files), files)


def offsets(files: Sequence[DataFile]) -> list[int]:
    """The offsets, read without code of Queen."""
    if not files:
        return []
    paths = [file.path for file in files]
    query = 'select "offset" from read_parquet($1, hive_partitioning = false)'
    with duckdb.connect() as connection:
        return [row[0] for row in connection.execute(query, [paths]).fetchall()]


def test_a_committed_batch_is_stored_with_its_number(lake: Lake) -> None:
    assert lake.last() is None

    batch = archive(lake, 1)

    assert lake.last() == batch
    assert (batch.messages, batch.files) == (100, 2)
    assert offsets(lake.files()) == list(range(100))


def test_each_file_has_the_messages_of_one_day(lake: Lake) -> None:
    archive(lake, 1)

    assert [(str(file.day), file.messages) for file in lake.files()] == [
        ("2026-11-14", 60),
        ("2026-11-15", 40),
    ]


def test_a_committed_batch_is_not_committed_again_and_its_new_files_are_removed(lake: Lake) -> None:
    first = archive(lake, 1)
    files = write(lake, "0000000001-00000", 0, 100)

    again = lake.commit(Batch.of(1, 7, files), files)

    assert again == first
    assert sorted(offsets(lake.files())) == list(range(100))
    assert not any(os.path.exists(file.path) for file in files)


def test_a_batch_without_messages_counts_too(lake: Lake) -> None:
    lake.commit(Batch.of(1, 7, []), [])
    archive(lake, 2)

    assert lake.find(2, 7) is not None
    assert sorted(offsets(lake.files())) == list(range(100, 200))


def test_a_lake_with_another_batch_is_not_written_to(lake: Lake) -> None:
    archive(lake, 1, token=7)
    archive(lake, 2, token=8)
    before = lake.files()

    for number, token in ((1, 7), (2, 9), (4, 7)):
        with pytest.raises(errors.LakeDiverged):
            archive(lake, number, token=token)

    assert lake.files() == before


def test_one_of_two_concurrent_commits_succeeds(lake: Lake, dsn: str) -> None:
    others = [
        open_lake(dsn, name="orders", format=_format(lake), location=lake.storage.location)
        for _ in range(4)
    ]
    barrier = threading.Barrier(len(others))
    failures: list[Exception] = []

    def race(other: Lake) -> None:
        try:
            for number in range(1, 4):
                files = write(other, f"{number:010d}-00000", number * 10, 10)
                barrier.wait(30)
                other.commit(Batch.of(number, number, files), files)
                barrier.wait(30)
        except Exception as error:
            failures.append(error)
            barrier.abort()

    threads = [threading.Thread(target=race, args=(other,)) for other in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for other in others:
        other.close()

    assert failures == []
    assert sorted(offsets(lake.files())) == list(range(10, 40))


def _format(lake: Lake) -> str:
    return type(lake).__name__.removesuffix("Lake").lower()


def test_after_a_lost_response_the_commit_is_detected_by_reading(
    iceberg: IcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_table = iceberg._catalog.commit_table
    calls: list[int] = []

    def commit(*arguments: Any) -> object:  # noqa: ANN401
        calls.append(1)
        answer = commit_table(*arguments)
        if len(calls) == 1:
            raise sqlalchemy.exc.OperationalError("update", None, psycopg.OperationalError("gone"))
        return answer

    monkeypatch.setattr(iceberg._catalog, "commit_table", commit)
    batch = archive(iceberg, 1)

    assert iceberg.last() == batch
    assert sorted(offsets(iceberg.files())) == list(range(100))
    assert len(calls) == 1


def test_files_of_a_commit_that_was_reported_as_a_conflict_stay(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An object store applied the commit, lost the response, and rejected the repetition."""
    append = lake.append

    def repeated(*arguments: Any) -> None:  # noqa: ANN401
        monkeypatch.setattr(lake, "append", append)
        append(*arguments)
        raise CommitConflict("412")

    monkeypatch.setattr(lake, "append", repeated)
    archive(lake, 1)

    assert sorted(offsets(lake.files())) == list(range(100))


@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_files_are_replaced_in_one_step_and_the_number_stays(
    dsn: str, tmp_path: Path, format: str
) -> None:
    with make_lake(dsn, tmp_path, format) as lake:
        last = [archive(lake, number) for number in (1, 2, 3)][-1]
        old = [file for file in lake.files() if str(file.day) == "2026-11-14"]
        new = write(lake, "0000000001-00000", 1_000, 180, begin=BEGIN - timedelta(hours=1))

        assert lake.replace(old, new)

        assert lake.last() == last
        kept = [file.path for file in lake.files()]
        assert not set(kept) & {file.path for file in old}
        assert set(kept) > {file.path for file in new}
        archive(lake, 4)
        assert len(lake.files()) == 3 + 1 + 2


@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_files_that_another_process_replaced_stay_unchanged(
    dsn: str, tmp_path: Path, format: str
) -> None:
    with make_lake(dsn, tmp_path, format) as lake:
        archive(lake, 1)
        old = lake.files()[:1]
        first = write(lake, "0000000001-00000", 0, 60)
        second = write(lake, "0000000001-00000", 0, 60)

        assert lake.replace(old, first)
        assert not lake.replace(old, second)

        assert sorted(offsets(lake.files())) == list(range(100))
        assert not os.path.exists(second[0].path)


@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_one_of_two_concurrent_replacements_of_the_same_files_succeeds(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    """
    A table format with automatic retries would accept both, because it finds no conflict between
    them.
    """
    with make_lake(dsn, tmp_path, format) as ours, make_lake(dsn, tmp_path, format) as theirs:
        archive(ours, 1)
        old = ours.files()[:1]
        first, second = (write(lake, "0000000001-00000", 0, 60) for lake in (theirs, ours))
        rewrite_files = ours.rewrite_files

        def overtaken(*arguments: Any) -> None:  # noqa: ANN401
            """Another process replaces the files after they were read."""
            monkeypatch.setattr(ours, "rewrite_files", rewrite_files)
            assert theirs.replace(old, first)
            rewrite_files(*arguments)

        monkeypatch.setattr(ours, "rewrite_files", overtaken)
        assert not ours.replace(old, second)

        assert sorted(offsets(ours.files())) == list(range(100))
        assert not os.path.exists(second[0].path)


@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_a_commit_applies_only_to_the_state_that_was_read(
    dsn: str, tmp_path: Path, format: str
) -> None:
    with make_lake(dsn, tmp_path, format) as lake:
        last = archive(lake, 1)
        state = lake.load()
        old = lake.files()
        assert lake.replace(old[:1], write(lake, "0000000001-00000", 0, 60))
        files = write(lake, "0000000002-00000", 100, 10)

        for late in (
            lambda: lake.append(state, Batch.of(2, 7, files), files),
            lambda: lake.rewrite_files(state, old[1:], files),
        ):
            with pytest.raises(CommitConflict):
                late()

        assert lake.last() == last
        assert sorted(offsets(lake.files())) == list(range(100))


def test_expiring_snapshots_keeps_the_number(iceberg: IcebergLake) -> None:
    batches = [archive(iceberg, number) for number in range(1, 6)]
    time.sleep(0.002)  # A snapshot's age is counted in milliseconds.

    assert iceberg.expire(0) == 4

    assert iceberg.last() == batches[-1]
    assert sorted(offsets(iceberg.files())) == list(range(500))
    archive(iceberg, 6)
    assert len(iceberg.load().snapshots()) == 2


def test_only_old_unreferenced_files_are_removed(lake: Lake) -> None:
    batch = archive(lake, 1)
    orphan = write(lake, "0000000002-00000", 0, 10)
    young = write(lake, "0000000002-00001", 0, 10)
    day_ago = time.time() - 86_400
    for path in Path(lake.storage.location).rglob("*"):
        if path.is_file() and path.name not in Path(young[0].path).name:
            os.utime(path, (day_ago, day_ago))

    # Plain Parquet removes whole driver directories, so the young file keeps the old one.
    removed = lake.remove_orphans(3_600)

    assert lake.last() == batch
    assert sorted(offsets(lake.files())) == list(range(100))
    assert os.path.exists(young[0].path)
    assert os.path.exists(orphan[0].path) is (_format(lake) == "parquet")
    assert removed == (0 if _format(lake) == "parquet" else 1)


def test_a_new_directory_is_not_old(dsn: str, tmp_path: Path) -> None:
    lake = open_lake(dsn, name="orders", format="parquet", location=str(tmp_path), make=True)
    young, old = tmp_path / "_batch=1-young", tmp_path / "_batch=1-old"
    for folder in (young, old):
        folder.mkdir()
    os.utime(old, (0, 0))

    lake.remove_orphans(3_600)

    assert (young.exists(), old.exists()) == (True, False)


def test_an_expired_snapshot_frees_its_files(iceberg: IcebergLake) -> None:
    for number in range(1, 4):
        archive(iceberg, number)
    old = iceberg.files()
    new = write(iceberg, "0000000001-00000", 0, 60) + write(
        iceberg, "0000000001-00000", 0, 60, begin=BEGIN + timedelta(days=1)
    )
    assert iceberg.replace(old, new)
    time.sleep(0.002)
    iceberg.expire(0)
    day_ago = time.time() - 86_400
    for path in Path(iceberg.storage.location).rglob("*"):
        if path.is_file():
            os.utime(path, (day_ago, day_ago))

    iceberg.remove_orphans(3_600)

    assert not any(os.path.exists(file.path) for file in old)
    assert offsets(iceberg.files()) == offsets(new)
    assert iceberg.load().scan().to_arrow().num_rows == 120


def test_other_readers_read_the_table_as_written(iceberg: IcebergLake) -> None:
    archive(iceberg, 1)
    archive(iceberg, 2)

    table = iceberg.load().scan().to_arrow().sort_by("offset")

    assert table.column("offset").to_pylist() == list(range(200))
    assert table.column("payload").to_pylist() == [f'{{"n":{number}}}' for number in range(200)]
    assert table.column("createdAt").to_pylist()[0] == BEGIN
    day = iceberg.load().scan("createdAt >= '2026-11-15T00:00:00+00:00'")
    assert len(list(day.plan_files())) == 2


async def test_the_pipeline_role_may_archive(dsn: str, postgres: Server, tmp_path: Path) -> None:
    await make_roles(dsn)
    name = f"archiver_{uuid4().hex}"
    postgres.execute(f"create role {name} login in role queen_pipeline")
    theirs = make_conninfo(dsn, user=name)
    with Log(dsn, "orders") as log:
        log.push("a", [1])

    with Ledger(theirs) as ledger:
        ledger.open("orders", "orders", "iceberg", str(tmp_path))
        plan = ledger.plan("orders", ledger.call("horizon")[0]["xid"])
        assert plan is not None
        with make_lake(theirs, tmp_path, "iceberg") as lake:
            ledger.archive("orders", archive(lake, plan.batch, token=plan.token))

        assert ledger.find("orders")["batch"] == 1


@pytest.mark.parametrize("format", FORMATS)
def test_only_an_archive_creates_a_lake(dsn: str, tmp_path: Path, format: str) -> None:
    with pytest.raises(errors.NotFound):
        open_lake(dsn, name="orders", format=format, location=str(tmp_path / "lake"))

    assert not (tmp_path / "lake").exists()


def test_plain_parquet_is_rejected_where_directories_cannot_be_renamed(dsn: str) -> None:
    with pytest.raises(errors.InvalidOption, match="format iceberg"):
        open_lake(dsn, name="orders", format="parquet", location="s3://bucket/orders")


def test_a_table_in_another_location_is_rejected(iceberg: IcebergLake, dsn: str) -> None:
    with pytest.raises(errors.InvalidOption, match="already"):
        IcebergLake(dsn, "orders", iceberg.storage.location + "-other")


def test_a_table_is_not_created_among_foreign_files(iceberg: IcebergLake, dsn: str) -> None:
    archive(iceberg, 1)

    with pytest.raises(errors.InvalidOption, match="something else"):
        IcebergLake(dsn, "others", iceberg.storage.location, make=True)


def test_a_failed_attempt_leaves_no_files(tmp_path: Path) -> None:
    def attempt() -> None:
        with DayFiles(str(tmp_path), "0-0") as files:
            files.write(rows(0, 100))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        attempt()

    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_locations_have_one_form(tmp_path: Path) -> None:
    assert normal(f"{tmp_path}/") == normal(f"file://{tmp_path}") == str(tmp_path)
    assert normal("s3://bucket/orders/") == "s3://bucket/orders"


def test_an_empty_table_of_somebody_else_is_not_dropped(dsn: str, tmp_path: Path) -> None:
    with IcebergLake(dsn, "other", str(tmp_path / "other"), make=True) as lake:
        catalog = lake._catalog
        schema = lake.load().schema()
        catalog.create_table(("queen", "orders"), schema, str(tmp_path / "elsewhere"))

    with pytest.raises(errors.InvalidOption, match="already exists at"):
        IcebergLake(dsn, "orders", str(tmp_path / "lake"), make=True)
