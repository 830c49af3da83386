"""
Merge small files of a lake into large ones, and remove old states and unneeded files.

Tasks write new files from adjacent files of one day. One commit replaces the old files by the new
ones, and keeps the number of the last batch. A concurrent commit of an archive loses no data,
because the second commit is retried.
"""

# pyright: basic
import time
from collections.abc import Callable, Sequence
from datetime import date
from itertools import accumulate, groupby
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from queen import errors
from queen.arrow.database import Connection, call
from queen.lake import CatalogOptions, DataFile, Lake, StorageOptions, open_lake
from queen.lake.day_files import DayFiles
from queen.lake.lake import CommitConflict, CommitUnknown, backoff
from queen.lake.ledger import Ledger
from queen.lake.storage import NO_OPTIONS
from queen.pipelines.report import counted
from queen.pipelines.tasks import Engine, run_tasks
from queen.redacted import redacted

_ROWS: Final = 65_536
_DAY: Final = 86_400
_NEVER: Final = date.min


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The archive to compact, and limits."""

    dsn: Annotated[str, Meta(description="URL of the database. Default: DATABASE_URL.")]
    name: Annotated[str, Meta(description="Name of the archive.")]
    target_bytes: Annotated[
        int, Meta(ge=1, description="Target size of a file. Smaller files are merged.")
    ] = 256 * 2**20
    max_files: Annotated[
        int, Meta(ge=2, description="Maximum number of files to replace in one commit.")
    ] = 10_000
    snapshot_seconds: Annotated[
        float,
        Meta(ge=0, description="Older states of the table are expired, except the newest."),
    ] = 7 * _DAY
    orphan_seconds: Annotated[
        float,
        Meta(
            ge=3_600,
            description="Older files that no state needs are deleted. "
            "A batch must take less time than this.",
        ),
    ] = 3 * _DAY
    storage: Annotated[StorageOptions, Meta(description="Object store, as in the archive.")] = (
        NO_OPTIONS
    )
    catalog: Annotated[
        CatalogOptions | None, Meta(description="Iceberg catalog, as in the archive.")
    ] = None

    def __repr__(self) -> str:
        return redacted(self)


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a run."""

    replaced: int = 0
    made: int = 0
    rows: int = 0
    expired: int = 0
    removed: int = 0

    def __str__(self) -> str:
        merged = f"merged {counted(self.replaced, 'file')} into {self.made:,}"
        snapshots, files = counted(self.expired, "snapshot"), counted(self.removed, "file")
        return f"{merged}, expired {snapshots}, removed {files}"


def check(connection: Connection, config: Config) -> None:
    """Check that the archive exists."""
    if not call(connection, "find_archive", config.name):
        raise errors.NotFound(f"archive {config.name} does not exist")


def run(
    engine: Engine,
    config: Config,
    *,
    report: Callable[[Progress], object] | None = None,
) -> Progress:
    """Compact once. Returns the counts."""
    with Ledger(config.dsn) as ledger:
        archive = ledger.find(config.name)
    report_progress: Callable[[Progress], object] = report or (lambda _: None)
    format, location = archive["format"], archive["location"]
    with open_lake(
        config.dsn,
        name=config.name,
        format=format,
        location=location,
        storage=config.storage,
        catalog=config.catalog,
    ) as lake:
        # Plain Parquet can't remove some files and add others in one step.
        progress = Progress() if format == "parquet" else _compact(engine, lake, config)
        report_progress(progress)
        expired = _expire(lake, config.snapshot_seconds)
        removed = lake.remove_orphans(config.orphan_seconds, config.snapshot_seconds)
    progress = msgspec.structs.replace(progress, expired=expired, removed=removed)
    report_progress(progress)
    return progress


def _compact(engine: Engine, lake: Lake, config: Config) -> Progress:
    table = lake.snapshot()
    groups = bins(table.files, config.target_bytes, config.max_files)
    if not groups:
        return Progress()
    folder, options = lake.folder, config.storage
    reader, schema = table.reader, table.schema

    def write(number: int) -> list[DataFile]:
        name = _name(groups[number][0])
        with DayFiles(folder, name, options=options, schema=schema) as files:
            for file in groups[number]:
                for batch in reader.read(file, schema.names, _ROWS):
                    files.write(batch)
        return files.closed

    new = run_tasks(engine, len(groups), write)
    old = [file for group in groups for file in group]
    rows, most = (sum(file.messages for file in files) for files in (new, old))
    # Deleted rows are not in the new files.
    if rows > most or (rows < most and not any(file.deletes for file in old)):
        raise errors.QueenError("the new files have another number of rows than the old ones")
    if not lake.replace(old, new):
        return Progress()  # Another process has just done it.
    return Progress(replaced=len(old), made=len(new), rows=rows)


def _name(file: DataFile) -> str:
    """Return the batch and task of a file, so that the new file takes its place in the order."""
    return "-".join(file.path.rpartition("/")[2].split("-")[:2]).removesuffix(".parquet")


def bins(files: Sequence[DataFile], target_bytes: int, max_files: int) -> list[list[DataFile]]:
    """
    Group adjacent files of one day to about the target size, at least two per group.

    Files with deleted rows are always included, so that those rows leave the disk.
    """
    made: list[list[DataFile]] = []
    known = [file for file in files if file.day is not None]
    by_day = groupby(sorted(known, key=lambda file: file.day or _NEVER), key=lambda file: file.day)
    for _, of_day in by_day:
        group: list[DataFile] = []
        room = 0
        for file in of_day:
            room -= file.bytes
            # A file that almost has the target size is kept.
            is_small = file.bytes < target_bytes // 2 or bool(file.deletes)
            if room < 0 or not is_small:
                group, room = [], target_bytes - file.bytes
                made.append(group)
            if is_small:
                group.append(file)
            else:
                room = 0
    wanted = [group for group in made if len(group) > 1 or any(file.deletes for file in group)]
    return _first(wanted, max_files)


def _first(groups: list[list[DataFile]], max_files: int) -> list[list[DataFile]]:
    """Return as many groups as fit, at least one."""
    count = list(accumulate(len(group) for group in groups))
    return [group for group, total in zip(groups, count, strict=True) if total <= max_files] or [
        group[:max_files] for group in groups[:1]
    ]


def _expire(lake: Lake, seconds: float) -> int:
    for wait_seconds in backoff():
        try:
            return lake.expire(seconds)
        except (CommitConflict, CommitUnknown):
            time.sleep(wait_seconds)
    raise errors.DatabaseUnavailable("old states of the lake could not be expired")
