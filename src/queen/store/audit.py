"""The audit log: append, search and verify."""

import hashlib
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from queen import errors
from queen.store.connection.database import Database, Record

_STEP: Final = 1_000


class Checked(NamedTuple):
    """The end of the verified chain: the newest record and its hash. Keep both elsewhere."""

    records: int
    hash: str
    removed: int = 0
    """Records that retention removed from the start of the log."""


class Entry(NamedTuple):
    """A record as JSON, and its searchable fields."""

    actor: str
    action: str
    queue: str | None
    record: str


class Audit:
    """The audit log of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def append(self, *, actor: str, action: str, queue: str | None, record: str) -> int:
        """Append a record as JSON to the chain. Returns its number."""
        return await self.append_all([Entry(actor, action, queue, record)])

    async def append_all(self, entries: Sequence[Entry]) -> int:
        """Append records in one transaction. Returns the number of the last."""
        rows = await self._database.fetch("audit", *map(list, zip(*entries, strict=True)))
        return rows[0]["id"]

    async def list(
        self,
        *,
        before: int,
        limit: int,
        actor: str | None = None,
        action: str | None = None,
        queue: str | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
    ) -> list[Record]:
        """Records, newest first."""
        return await self._database.fetch(
            "list_audit", before, actor, action, queue, start, end, limit
        )

    async def check(self) -> Checked:
        """
        Verify the chain from the first record that is kept.

        Raises DatabaseUnsafe if it is broken.
        """
        first, before = await self._start()
        number, before = await self._follow(first, before)
        (end,) = await self._database.fetch("audit_end")
        if end["id"] > number:
            # Records that were appended since then are there by now. Removed ones are not.
            number, before = await self._follow(number, before)
        if end["id"] > number or (end["id"] == number and end["hash"] != before):
            raise errors.DatabaseUnsafe(
                f"the audit log ends at record {number}, but must end at {end['id']}"
            )
        return Checked(number, before.hex(), first)

    async def _start(self) -> tuple[int, bytes]:
        """The newest record that retention removed, and its hash."""
        (start,) = await self._database.fetch("audit_start")
        return start["id"], start["hash"]

    async def _follow(self, number: int, before: bytes) -> tuple[int, bytes]:
        """Verify from a record to the newest. Returns its number and hash."""
        while rows := await self._database.fetch("audit_chain", number, _STEP):
            if rows[0]["id"] > number + 1:
                removed, hash_ = await self._start()
                if removed > number:
                    # Retention removed them since the last step.
                    number, before = removed, hash_
                    continue
            number, before = follow(rows, number, before)
        return number, before


def follow(rows: Sequence[Record], number: int, before: bytes) -> tuple[int, bytes]:
    """Verify each record against the one before. Returns the number and hash of the last."""
    for row in rows:
        number += 1
        text = f"{row['id']}\n{row['at_micros']}\n{row['record']}"
        hashed = hashlib.sha256(before + text.encode()).digest()
        told = json.loads(row["record"])
        if (
            row["id"] != number
            or row["hash"] != hashed
            or [row["actor"], row["action"], row["queue"]]
            != [told["actor"], told["action"], told["queue"]]
        ):
            raise errors.DatabaseUnsafe(f"the audit log is broken at record {number}")
        before = hashed
    return number, before
