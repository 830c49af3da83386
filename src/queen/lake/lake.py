"""
The interface of a lake, and how it commits exactly once.

A commit adds files together with the number and token of their batch, in one step that fails if
the table changed. A retry, after a crash or a lost response, first reads the number, and then
commits on top of the same state in which it read the number.
"""

# pyright: basic
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final, Self

import msgspec
import pyarrow as pa

from queen import errors
from queen.arrow.json_schema import Type
from queen.lake.day_files import SCHEMA
from queen.lake.reading import Reader, TimeRange
from queen.lake.records import Batch, DataFile
from queen.lake.storage import Storage
from queen.lake.typed_columns import TypedColumns, fit, has_columns, wanted_columns

MAX_SNAPSHOTS: Final = 100
"""Default number of snapshots of a table. A commit copies the description of each."""
_ATTEMPTS: Final = 30
_LEAST_WAIT_SECONDS: Final = 0.05
_MOST_WAIT_SECONDS: Final = 2.0


class CommitConflict(Exception):
    """Another process committed first. This commit was not applied."""


class CommitUnknown(Exception):
    """The response was lost. The commit may have been applied."""


class Snapshot(msgspec.Struct, frozen=True):
    """One state of a table: its files, and how to read and rewrite them."""

    files: list[DataFile]
    reader: Reader
    schema: pa.Schema
    """The columns of the table, for files that replace others."""

    def files_in(self, during: TimeRange) -> list[DataFile]:
        """Return the files that can have messages of a time range, in order."""
        return [file for file in self.files if during.overlaps(file)]


class Lake(ABC):
    """A table of files. One archive writes it, and any tool can read it."""

    def __init__(self, name: str, storage: Storage) -> None:
        self.name = name
        self.storage = storage

    @property
    @abstractmethod
    def folder(self) -> str:
        """The directory for tasks' files, which are invisible until they are committed."""

    @abstractmethod
    def load_once(self) -> Any:  # noqa: ANN401 - as the format has it
        """Return the current state of the table. Raises CommitUnknown."""

    @abstractmethod
    def last_in(self, table: Any) -> Batch | None:  # noqa: ANN401
        """Return the last batch that was committed up to that state."""

    @abstractmethod
    def files_in(self, table: Any) -> list[DataFile]:  # noqa: ANN401
        """Return all files of that state, in the order in which they were archived."""

    def snapshot(self, table: Any = None) -> Snapshot:  # noqa: ANN401
        """Return the files of a state, or of the current one, in order, with their reader."""
        state = self.load() if table is None else table
        schema = self.schema_in(state)
        reader = Reader(self.storage.options, None if schema is SCHEMA else schema)
        return Snapshot(self.files_in(state), reader, schema)

    @abstractmethod
    def schema_in(self, table: Any) -> pa.Schema:  # noqa: ANN401
        """Return the columns of new files: those of a message, and typed ones."""

    @abstractmethod
    def add_columns(self, table: Any, wanted: pa.Schema) -> None:  # noqa: ANN401
        """Add missing columns and fields. Raises CommitConflict and CommitUnknown."""

    @abstractmethod
    def append(self, table: Any, batch: Batch, files: Sequence[DataFile]) -> None:  # noqa: ANN401
        """Add files and store the batch, in one step. Raises CommitConflict and CommitUnknown."""

    @abstractmethod
    def rewrite_files(
        self,
        table: Any,  # noqa: ANN401
        old: Sequence[DataFile],
        new: Sequence[DataFile],
    ) -> None:
        """Replace files by others, in one step. Raises CommitConflict and CommitUnknown."""

    @abstractmethod
    def expire(self, seconds: float) -> int:
        """Expire older states. Returns their number. Raises CommitConflict and CommitUnknown."""

    @abstractmethod
    def remove_orphans(self, seconds: float, snapshot_seconds: float = 0) -> int:
        """
        Delete older files that no state of the table needs. Returns their number.

        Files of states that are younger than ``snapshot_seconds`` are needed.
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:  # noqa: B027 - most hold nothing open
        """Close connections."""

    def load(self) -> Any:  # noqa: ANN401
        """Return the current state of the table, with retries."""
        failure: Exception | None = None
        for wait_seconds in backoff():
            try:
                return self.load_once()
            except CommitUnknown as error:
                failure = error
                time.sleep(wait_seconds)
        raise errors.DatabaseUnavailable(f"the lake can't be read: {failure}") from failure

    def last(self) -> Batch | None:
        """Return the last batch that was committed."""
        return self.last_in(self.load())

    def files(self) -> list[DataFile]:
        """Return all files of the table, in the order in which they were archived."""
        return self.files_in(self.load())

    def evolve(self, type_: Type) -> TypedColumns:
        """Add the columns that payloads of this type need, before their files are written."""
        failure: Exception | None = None
        for wait_seconds in backoff():
            table = self.load()
            schema = self.schema_in(table)
            fitted = fit(type_, schema, self.storage.location)
            wanted = wanted_columns(fitted)
            if has_columns(schema, wanted):
                return TypedColumns(fitted, schema)
            try:
                self.add_columns(table, wanted)
            except (CommitConflict, CommitUnknown) as error:
                failure = error
                time.sleep(wait_seconds)
        raise errors.DatabaseUnavailable(
            f"columns could not be added to the lake: {failure}"
        ) from failure

    def commit(self, batch: Batch, files: Sequence[DataFile]) -> Batch:
        """Commit a batch exactly once. Returns the batch in the lake. Raises LakeDiverged."""
        is_attempted = False
        failure: Exception | None = None
        for wait_seconds in backoff():
            table = self.load()
            if there := self.find(batch.batch, batch.token, table):
                # After a failed attempt, the lake may have these files: a store that repeats a
                # request by itself reports its own first attempt as a conflict.
                if not is_attempted:
                    self.storage.delete(file.path for file in files)
                return there
            try:
                self.append(table, batch, files)
                return batch
            except (CommitConflict, CommitUnknown) as error:
                failure = error
                is_attempted = True
            time.sleep(wait_seconds)
        raise errors.DatabaseUnavailable(
            f"batch {batch.batch} could not be committed to the lake: {failure}"
        ) from failure

    def find(self, batch: int, token: int, table: Any = None) -> Batch | None:  # noqa: ANN401
        """Return this batch, or None if the lake has the previous one. Raises LakeDiverged."""
        last = self.last_in(self.load() if table is None else table)
        number = last.batch if last else 0
        if last and number == batch and last.token == token:
            return last
        if number == batch - 1:
            return None
        raise errors.LakeDiverged(
            f"the lake {self.storage.location} has batch {number} of archive {self.name}, but the"
            f" ledger is at batch {batch}: one was restored or recreated without the other"
        )

    def replace(self, old: Sequence[DataFile], new: Sequence[DataFile]) -> bool:
        """Replace files by others. Returns False if another process has removed one of them."""
        failure: Exception | None = None
        for wait_seconds in backoff():
            try:
                table = self.load()
                present = {file.path: file.deletes for file in self.files_in(table)}
                if new and present.keys() >= {file.path for file in new}:
                    return True
                # Rows that were deleted after the new files were written would come back.
                if any(present.get(file.path) != file.deletes for file in old):
                    self.storage.delete(file.path for file in new)
                    return False
                self.rewrite_files(table, old, new)
                return True
            except (CommitConflict, CommitUnknown) as error:
                failure = error
                time.sleep(wait_seconds)
        raise errors.DatabaseUnavailable(
            f"files of the lake could not be replaced: {failure}"
        ) from failure


def backoff() -> Sequence[float]:
    """Return the pauses between attempts: a minute in total, enough for a PostgreSQL restart."""
    return [min(_LEAST_WAIT_SECONDS * 2**n, _MOST_WAIT_SECONDS) for n in range(_ATTEMPTS)]
