"""The ledger of archives, asked again where PostgreSQL was away: all of it can be repeated."""

import contextlib
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeVar

import psycopg

from queen import errors
from queen.spark.database import Connection, call, connect
from queen.spark.lakes.lake import Batch

Answer = TypeVar("Answer")
_PATIENCE_SECONDS: Final = 60.0
_WAIT_SECONDS: Final = 0.5


class Plan(NamedTuple):
    """A batch that is to be archived: what transactions of a range have stored."""

    batch: int
    token: int
    start_xid: int
    end_xid: int


class Ledger:
    """One connection to PostgreSQL, made anew when it is lost; gives up after a minute."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._hang_up()

    @property
    def connection(self) -> Connection:
        if self._connection is None:
            self._connection = connect(self._dsn)
        return self._connection

    def ask(self, question: Callable[[Connection], Answer]) -> Answer:
        """Ask, and ask again where PostgreSQL was away: the question must be one to repeat."""
        until = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                return question(self.connection)
            except (psycopg.OperationalError, errors.DatabaseUnavailable):
                self._hang_up()
                if time.monotonic() > until:
                    raise
                time.sleep(_WAIT_SECONDS)
            except psycopg.Error as error:
                if (ours := errors.of_sqlstate(error.sqlstate or "")) is None:
                    raise
                raise ours(str(error)) from error

    def call(self, name: str, *arguments: object) -> list[dict[str, Any]]:
        """What a named statement answers."""
        return self.ask(lambda connection: call(connection, name, *arguments))

    def open(self, name: str, queue: str, format: str, location: str) -> int:
        """The id of the queue of an archive, which is made if it is not there."""
        for other in self.call("archives"):
            if other["name"] != name and _overlap(other["location"], location):
                raise errors.InvalidOption(
                    f"{location} is in the lake of archive {other['name']}, or that in it"
                )
        (row,) = self.call("open_archive", name, queue, format, location)
        if row["queue_id"] != row["archive_queue_id"]:
            raise errors.InvalidOption(
                f"archive {name} is of a queue {queue} that was deleted: give the archive of the"
                " present one another name"
            )
        if (row["format"], row["location"]) != (format, location):
            raise errors.InvalidOption(
                f"archive {name} is {row['format']} at {row['location']} already"
            )
        return row["queue_id"]

    def find(self, name: str) -> dict[str, Any]:
        """How far an archive is. Raises NotFound."""
        for row in self.call("find_archive", name):
            return row
        raise errors.NotFound(f"there is no archive {name}")

    def plan(self, name: str, end_xid: int) -> Plan | None:
        """The next batch, up to here if nobody has planned it; None when there is nothing."""
        rows = self.call("plan_archive", name, end_xid)
        return Plan(**rows[0]) if rows else None

    def archive(self, name: str, batch: Batch) -> None:
        """The lake has it."""
        figures = (batch.files, batch.messages, batch.bytes)
        self.call("archive_batch", name, batch.batch, batch.token, *figures)

    def _hang_up(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(psycopg.Error):
                self._connection.close()
            self._connection = None


def _overlap(one: str, other: str) -> bool:
    """Whether a folder is in the other: what cleans up in one must not find files of the other."""
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")
