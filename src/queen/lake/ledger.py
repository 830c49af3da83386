"""The ledger of archives. Its statements are repeatable and retried during outages."""

from typing import Any, NamedTuple

from queen import errors
from queen.arrow.database import Database
from queen.lake.lake import Batch


class Plan(NamedTuple):
    """A planned batch: everything that a range of transactions stored."""

    batch: int
    token: int
    start_xid: int
    end_xid: int


class Ledger(Database):
    """The plans and the progress of archives in PostgreSQL."""

    def open(self, name: str, queue: str, format: str, location: str) -> int:
        """Create an archive if it is missing. Returns the id of its queue."""
        for other in self.call("archives"):
            if other["name"] != name and _overlap(other["location"], location):
                raise errors.InvalidOption(
                    f"{location} is inside the lake of archive {other['name']}, or contains it"
                )
        (row,) = self.call("open_archive", name, queue, format, location)
        if row["queue_id"] != row["archive_queue_id"]:
            raise errors.InvalidOption(
                f"archive {name} belongs to a deleted queue {queue}: choose another name for the"
                " archive of the current queue"
            )
        if (row["format"], row["location"]) != (format, location):
            raise errors.InvalidOption(
                f"archive {name} already exists as {row['format']} at {row['location']}"
            )
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

    def archive(self, name: str, batch: Batch) -> None:
        """Mark a batch as archived, because the lake has it."""
        figures = (batch.files, batch.messages, batch.bytes)
        self.call("archive_batch", name, batch.batch, batch.token, *figures)


def _overlap(one: str, other: str) -> bool:
    """Whether one directory contains the other. Cleanup would delete files of another archive."""
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")
