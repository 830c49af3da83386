"""The ledger of archives. Its statements are repeatable and retried during outages."""

import contextlib
from typing import Any, NamedTuple

import psycopg

from queen import errors
from queen.arrow.database import Connection, Database, call
from queen.lake.lake import Batch


class Plan(NamedTuple):
    """A planned batch: everything that a range of transactions stored."""

    batch: int
    token: int
    start_xid: int
    end_xid: int


class Missed(NamedTuple):
    """Messages that were removed before an archive could read them."""

    messages: int
    gaps: str | None
    """Some of the removed ranges as JSON."""


class Ledger(Database):
    """The plans and the progress of archives in PostgreSQL."""

    def check(self, name: str, queue: str, format: str, location: str) -> None:
        """Raise InvalidOption or QueueNotFound if this archive can't use this lake."""
        if not self.call("pipeline_queue", queue):
            raise errors.QueueNotFound(f"queue {queue} does not exist")
        for other in self.call("archives"):
            if other["name"] == name:
                has_moved = (other["format"], other["location"]) != (format, location)
                if other["batch"] and has_moved:
                    raise _elsewhere(name, other["format"], other["location"])
            elif _overlap(other["location"], location):
                raise errors.InvalidOption(
                    f"{location} is inside the lake of archive {other['name']}, or contains it"
                )

    def open(self, name: str, queue: str, format: str, location: str) -> int:
        """
        Create an archive if it is missing. Returns the id of its queue.

        An archive without a batch moves to this lake, so that a wrong location can be corrected.
        """
        self.check(name, queue, format, location)
        (row,) = self.call("open_archive", name, queue, format, location)
        if row["queue_id"] != row["archive_queue_id"]:
            raise errors.InvalidOption(
                f"archive {name} belongs to a deleted queue {queue}: choose another name for the"
                " archive of the current queue"
            )
        if (row["format"], row["location"]) != (format, location):
            raise _elsewhere(name, row["format"], row["location"])
        return row["queue_id"]

    def find(self, name: str) -> dict[str, Any]:
        """Return the progress of an archive. Raises NotFound."""
        for row in self.call("find_archive", name):
            return row
        raise errors.NotFound(f"archive {name} does not exist")

    def plan(self, name: str, end_xid: int) -> Plan | None:
        """Plan the next batch up to here, or return the planned one. None if there is none."""
        rows = self.call("plan_archive", name, end_xid)
        return Plan(**rows[0]) if rows else None

    def missed(self, name: str, start_xid: int, end_xid: int | None = None) -> Missed:
        """Return the messages of these transactions that were removed unarchived."""
        (row,) = self.call("missed_by_archive", name, start_xid, end_xid)
        return Missed(**row)

    def archive(self, name: str, batch: Batch, gaps: str | None = None) -> None:
        """Mark a batch as archived, because the lake has it."""
        figures = (batch.files, batch.messages, batch.bytes, batch.missed)
        self.call("archive_batch", name, batch.batch, batch.token, *figures, gaps, batch.misfits)

    def hold(self, name: str) -> None:
        """Keep messages for an archive that runs, but has nothing to archive yet."""
        self.call("hold_archive", name)

    def release_first(self, name: str) -> None:
        """Drop the hold of an archive whose first batch failed. Otherwise, it expires."""
        if self._connection is not None:
            with contextlib.suppress(psycopg.Error):
                call(self._connection, "release_first_batch", name)


def archive_of(
    connection: Connection, queue: str, queue_id: int, wanted: str | None
) -> dict[str, Any] | None:
    """Return the archive of a queue, or None. Raises InvalidOption if several are possible."""
    all_ = call(connection, "archives")
    found = [row for row in all_ if row["queue_id"] == queue_id]
    names = ", ".join(row["name"] for row in found)
    wanted = wanted or (queue if len(found) > 1 else None)
    if wanted is not None:
        found = [row for row in found if row["name"] == wanted]
    if not found and wanted is not None:
        raise errors.InvalidOption(
            f"archive: queue {queue} has no archive {wanted}; it has {names or 'none'}"
        )
    return found[0] if found else None


def _elsewhere(name: str, format: str, location: str) -> errors.InvalidOption:
    return errors.InvalidOption(
        f"archive {name} has batches as {format} at {location}: use that location, or choose"
        " another name for an archive at the new one"
    )


def _overlap(one: str, other: str) -> bool:
    """Whether one directory contains the other. Cleanup would delete files of another archive."""
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")
