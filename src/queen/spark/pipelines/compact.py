"""
Small files of a lake into large ones; old states of it, and files that nothing needs, removed.

Tasks write new files from neighbours of one day; one commit puts them in the place of the old ones.
The number of the last batch is not touched, and an archive that commits meanwhile loses nothing:
whoever comes second tries again.
"""

# pyright: basic
import time
from collections.abc import Callable, Sequence
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import pyarrow.parquet as pq

from queen import errors
from queen.redacted import redacted
from queen.spark.lakes import DataFile, Lake, open_lake
from queen.spark.lakes.day_files import SCHEMA, DayFiles
from queen.spark.lakes.lake import Raced, Unclear, waits
from queen.spark.lakes.places import read_file
from queen.spark.pipelines.archive import run_tasks
from queen.spark.pipelines.ledger import Ledger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROWS: Final = 65_536
_DAY: Final = 86_400


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which archive, and how far it goes."""

    dsn: str
    name: str
    """Of the archive."""
    target_bytes: Annotated[int, msgspec.Meta(ge=1)] = 256 * 2**20
    """Of a file, about; smaller ones are put together."""
    max_files: Annotated[int, msgspec.Meta(ge=2)] = 10_000
    """That are replaced at a time."""
    snapshot_seconds: Annotated[float, msgspec.Meta(ge=0)] = 7 * _DAY
    """States of the table that are older are forgotten, but for the newest."""
    orphan_seconds: Annotated[float, msgspec.Meta(ge=3_600)] = 3 * _DAY
    """Files that no state needs are removed once they are older; a batch must not take as long."""

    def __repr__(self) -> str:
        return redacted(self)


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """What was done."""

    replaced: int = 0
    made: int = 0
    rows: int = 0
    expired: int = 0
    removed: int = 0


def run(
    spark: "SparkSession",
    config: Config,
    *,
    report: Callable[[Progress], object] | None = None,
) -> Progress:
    """Compact once, and say what came of it."""
    with Ledger(config.dsn) as ledger:
        archive = ledger.find(config.name)
    said: Callable[[Progress], object] = report or (lambda _: None)
    format, location = archive["format"], archive["location"]
    with open_lake(config.dsn, name=config.name, format=format, location=location) as lake:
        # Plain Parquet has no step that takes some files out and others in.
        progress = Progress() if format == "parquet" else _compact(spark, lake, config)
        said(progress)
        expired = _expire(lake, config.snapshot_seconds)
        removed = lake.remove_orphans(config.orphan_seconds)
    progress = msgspec.structs.replace(progress, expired=expired, removed=removed)
    said(progress)
    return progress


def _compact(spark: "SparkSession", lake: Lake, config: Config) -> Progress:
    groups = bins(lake.files(), config.target_bytes, config.max_files)
    if not groups:
        return Progress()
    folder = lake.folder
    paths = [[file.path for file in group] for group in groups]

    def write(number: int) -> list[DataFile]:
        name = "-".join(paths[number][0].rpartition("/")[2].split("-")[:2]).removesuffix(".parquet")
        with DayFiles(folder, name) as files:
            for path in paths[number]:
                with read_file(path) as stream:
                    for batch in pq.ParquetFile(stream).iter_batches(_ROWS, columns=SCHEMA.names):
                        files.write(batch)
        return files.closed

    new = run_tasks(spark, len(groups), write)
    old = [file for group in groups for file in group]
    rows = sum(file.messages for file in new)
    if rows != sum(file.messages for file in old):
        raise errors.QueenError("the new files do not have as many rows as the old ones")
    if not lake.replace(old, new):
        return Progress()  # Somebody else has just done it.
    return Progress(replaced=len(old), made=len(new), rows=rows)


def bins(files: Sequence[DataFile], target_bytes: int, max_files: int) -> list[list[DataFile]]:
    """Neighbours of one day that make a file of about that size together; at least two each."""
    made: list[list[DataFile]] = []
    by_day = groupby(sorted(files, key=lambda file: file.day), key=lambda file: file.day)
    for _, of_day in by_day:
        group: list[DataFile] = []
        room = 0
        for file in of_day:
            room -= file.bytes
            # One that is nearly as large as it shall be stays as it is.
            is_small = file.bytes < target_bytes // 2
            if room < 0 or not is_small:
                group, room = [], target_bytes - file.bytes
                made.append(group)
            if is_small:
                group.append(file)
            else:
                room = 0
    return _first([group for group in made if len(group) > 1], max_files)


def _first(groups: list[list[DataFile]], max_files: int) -> list[list[DataFile]]:
    """As many as fit; one of them always."""
    count = list(accumulate(len(group) for group in groups))
    return [group for group, total in zip(groups, count, strict=True) if total <= max_files] or [
        group[:max_files] for group in groups[:1]
    ]


def _expire(lake: Lake, seconds: float) -> int:
    for wait_seconds in waits():
        try:
            return lake.expire(seconds)
        except (Raced, Unclear):
            time.sleep(wait_seconds)
    raise errors.DatabaseUnavailable("old states of the lake could not be forgotten")
