"""
Plain Parquet files, in one directory per batch.

A batch is assembled under a name that starts with `_`, which readers ignore, and renamed in one
step, which fails if the batch exists. Object stores can't rename a directory, so they are
rejected.
"""

# pyright: basic
import contextlib
import os
import shutil
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Final
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from queen import errors
from queen.lake.day_files import SCHEMA, time_bounds
from queen.lake.lake import Batch, CommitConflict, DataFile, Lake
from queen.lake.storage import Storage

_RECORD: Final = "_batch.json"
_PREFIX: Final = "batch="
_NO_EXCHANGE: Final = "plain Parquet can't replace files in one step: use format iceberg"


class ParquetLake(Lake):
    """Files at ``<location>/batch=<number>/day=<day>/<name>.parquet``."""

    def __init__(self, name: str, location: str, *, make: bool = False) -> None:
        super().__init__(name, Storage(location))
        if not self.storage.is_local:
            raise errors.InvalidOption(
                f"{self.storage.location}: plain Parquet needs a file system with atomic renames of"
                " directories; use format iceberg for an object store"
            )
        self._root = Path(self.storage.location)
        if make:
            self._root.mkdir(parents=True, exist_ok=True)
        elif not self._root.is_dir():
            raise errors.NotFound(f"directory {self.storage.location} does not exist")
        self._staged = str(self._root / f"_staged-{uuid4().hex}")

    @property
    def folder(self) -> str:
        return self._staged

    def load_once(self) -> tuple[int, ...]:
        """Return the numbers of its batches."""
        names = (path.name for path in self._root.glob(f"{_PREFIX}*"))
        return tuple(sorted(int(name.removeprefix(_PREFIX)) for name in names))

    def last_in(self, table: tuple[int, ...]) -> Batch | None:
        if not table:
            return None
        return msgspec.json.decode((self._batch(table[-1]) / _RECORD).read_bytes(), type=Batch)

    def files_in(self, table: tuple[int, ...]) -> list[DataFile]:
        return [
            _data_file(path)
            for number in table
            for path in sorted(self._batch(number).glob("day=*/*.parquet"))
        ]

    def schema_in(self, table: tuple[int, ...]) -> pa.Schema:
        return SCHEMA

    def add_columns(self, table: tuple[int, ...], wanted: pa.Schema) -> None:
        raise errors.InvalidOption(
            "typed needs format iceberg or delta, because plain Parquet has no table schema"
        )

    def append(self, table: tuple[int, ...], batch: Batch, files: Sequence[DataFile]) -> None:
        made = self._root / f"_{_PREFIX}{batch.batch}-{uuid4().hex}"
        made.mkdir()
        try:
            moved = [_link(Path(file.path), made) for file in files]
            (made / _RECORD).write_bytes(msgspec.json.encode(batch))
            self.storage.make_durable([*map(str, moved), str(made / _RECORD)])
            # A directory that is not empty is never replaced.
            os.rename(made, self._batch(batch.batch))
        except OSError as error:
            shutil.rmtree(made, ignore_errors=True)
            if self._batch(batch.batch).exists():
                raise CommitConflict(str(error)) from error
            raise
        self.storage.make_durable([str(self._batch(batch.batch) / _RECORD)])
        shutil.rmtree(self._staged, ignore_errors=True)

    def rewrite_files(
        self, table: tuple[int, ...], old: Sequence[DataFile], new: Sequence[DataFile]
    ) -> None:
        raise errors.InvalidOption(_NO_EXCHANGE)

    def expire(self, seconds: float) -> int:
        return 0

    def remove_orphans(self, seconds: float, snapshot_seconds: float = 0) -> int:
        before = time.time() - seconds
        count = 0
        for folder in self._root.glob("_*"):
            times = [entry.modified_at for entry in self.storage.entries(str(folder))]
            with contextlib.suppress(FileNotFoundError):  # It became a batch in the meantime.
                # An empty directory may be new, and get files later.
                if max(times, default=folder.stat().st_mtime) < before:
                    count += len(times)
                    shutil.rmtree(folder, ignore_errors=True)
        return count

    def _batch(self, number: int) -> Path:
        return self._root / f"{_PREFIX}{number}"


def _link(path: Path, folder: Path) -> Path:
    """Add a hard link, because an abandoned task can still write under the original name."""
    target = folder / path.parent.name / path.name
    target.parent.mkdir(exist_ok=True)
    os.link(path, target)
    return target


def _data_file(path: Path) -> DataFile:
    footer = pq.read_metadata(path)
    first_at, last_at = time_bounds(footer)
    size_bytes = path.stat().st_size
    return DataFile(
        str(path), _day(path), footer.num_rows, size_bytes, first_at=first_at, last_at=last_at
    )


def _day(path: Path) -> date:
    return date.fromisoformat(path.parent.name.removeprefix("day="))
