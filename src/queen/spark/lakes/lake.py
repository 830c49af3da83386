"""
What an archive asks of a lake, and how it commits exactly once.

A commit takes files in and carries the number and token of its batch, in one step that fails when
somebody else was faster. So whoever tries again, after a crash or an answer that never came, reads
the number first, and commits on top of the very state in which it was read.
"""

# pyright: basic
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import date
from typing import Any, Final, Self

import msgspec

from queen import errors
from queen.spark.lakes.places import Place

_ATTEMPTS: Final = 30
_LEAST_WAIT_SECONDS: Final = 0.05
_MOST_WAIT_SECONDS: Final = 2.0


class Raced(Exception):
    """Somebody else committed meanwhile: nothing was applied."""


class Unclear(Exception):
    """No answer came: perhaps applied."""


class DataFile(msgspec.Struct, frozen=True):
    """A Parquet file of messages of one day."""

    path: str
    day: date
    messages: int
    bytes: int


class Batch(msgspec.Struct, frozen=True):
    """What a lake itself says of the last batch that it has."""

    batch: int
    token: int
    files: int
    messages: int
    bytes: int

    @classmethod
    def of(cls, batch: int, token: int, files: Sequence[DataFile]) -> Self:
        messages = sum(file.messages for file in files)
        return cls(batch, token, len(files), messages, sum(file.bytes for file in files))


class Lake(ABC):
    """A table of files; one archive writes it, anybody reads it."""

    def __init__(self, name: str, place: Place) -> None:
        self.name = name
        self.place = place

    @property
    @abstractmethod
    def folder(self) -> str:
        """Where tasks may put files; nobody sees them before they are committed."""

    @abstractmethod
    def look(self) -> Any:  # noqa: ANN401 - as the format has it
        """The table as it is now. Raises Unclear."""

    @abstractmethod
    def last_in(self, table: Any) -> Batch | None:  # noqa: ANN401
        """The last batch that was committed up to that state."""

    @abstractmethod
    def files_in(self, table: Any) -> list[DataFile]:  # noqa: ANN401
        """All files of that state, in the order in which they were archived."""

    @abstractmethod
    def append(self, table: Any, batch: Batch, files: Sequence[DataFile]) -> None:  # noqa: ANN401
        """Take files in and remember the batch, in one step. Raises Raced and Unclear."""

    @abstractmethod
    def exchange(
        self,
        table: Any,  # noqa: ANN401
        old: Sequence[DataFile],
        new: Sequence[DataFile],
    ) -> None:
        """Put files in the place of others, in one step. Raises Raced and Unclear."""

    @abstractmethod
    def expire(self, seconds: float) -> int:
        """Forget states of the table that are older; how many. Raises Raced and Unclear."""

    @abstractmethod
    def remove_orphans(self, seconds: float) -> int:
        """Delete files that no state of the table knows and that are older; how many."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:  # noqa: B027 - most hold nothing open
        """Give back what it holds open."""

    def load(self) -> Any:  # noqa: ANN401
        """The table as it is now, asked for again where nobody answers."""
        for wait_seconds in waits():
            try:
                return self.look()
            except Unclear:
                time.sleep(wait_seconds)
        return self.look()

    def last(self) -> Batch | None:
        """The last batch that was committed."""
        return self.last_in(self.load())

    def files(self) -> list[DataFile]:
        """All files of the table, in the order in which they were archived."""
        return self.files_in(self.load())

    def commit(self, batch: Batch, files: Sequence[DataFile]) -> Batch:
        """Make sure that a batch is in the lake, once; what is there. Raises LakeDiverged."""
        is_unclear = False
        for wait_seconds in waits():
            table = self.load()
            if there := self.find(batch.batch, batch.token, table):
                # After an answer that never came, these may be the files that it has.
                if not is_unclear:
                    self.place.delete(file.path for file in files)
                return there
            try:
                self.append(table, batch, files)
                return batch
            except Raced:
                pass
            except Unclear:
                is_unclear = True
            time.sleep(wait_seconds)
        raise errors.DatabaseUnavailable(f"batch {batch.batch} could not be committed to the lake")

    def find(self, batch: int, token: int, table: Any = None) -> Batch | None:  # noqa: ANN401
        """This batch, or None while the lake has the one before it. Raises LakeDiverged."""
        last = self.last_in(self.load() if table is None else table)
        number = last.batch if last else 0
        if last and number == batch and last.token == token:
            return last
        if number == batch - 1:
            return None
        raise errors.LakeDiverged(
            f"the lake {self.place.location} has batch {number} of archive {self.name}, and the"
            f" ledger is at batch {batch}: one was restored, or made anew, without the other"
        )

    def replace(self, old: Sequence[DataFile], new: Sequence[DataFile]) -> bool:
        """Put files in the place of others; False when somebody else has taken one of them out."""
        paths = {file.path for file in old}
        for wait_seconds in waits():
            try:
                table = self.load()
                present = {file.path for file in self.files_in(table)}
                if present.issuperset(file.path for file in new):
                    return True
                if not present.issuperset(paths):
                    self.place.delete(file.path for file in new)
                    return False
                self.exchange(table, old, new)
                return True
            except (Raced, Unclear):
                time.sleep(wait_seconds)
        raise errors.DatabaseUnavailable("files of the lake could not be replaced")


def waits() -> Sequence[float]:
    """How long to wait after each attempt: a minute in all, a restart of PostgreSQL is in it."""
    return [min(_LEAST_WAIT_SECONDS * 2**n, _MOST_WAIT_SECONDS) for n in range(_ATTEMPTS)]
