"""The audit log: append, search, and prove that nothing in it was changed."""

import hashlib
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from queen import errors
from queen.store.database import Database, Record

_STEP: Final = 1_000
_BEFORE_THE_FIRST: Final = hashlib.sha256(b"").digest()


class Checked(NamedTuple):
    """How far the chain was followed: the newest record and its hash, to be kept elsewhere."""

    records: int
    hash: str


class Audit:
    """The audit log of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def append(self, *, actor: str, action: str, queue: str | None, record: str) -> int:
        """Add a record, JSON, to the end of the chain; answers its number."""
        rows = await self._database.fetch("audit", actor, action, queue, record)
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
        """Follow the chain from its beginning; raises DatabaseUnsafe where it is broken."""
        number, before = 0, _BEFORE_THE_FIRST
        while rows := await self._database.fetch("audit_chain", number, _STEP):
            number, before = follow(rows, number, before)
        (end,) = await self._database.fetch("audit_end")
        if end["id"] > number:
            # What was appended since is there by now; what was cut off is not.
            while rows := await self._database.fetch("audit_chain", number, _STEP):
                number, before = follow(rows, number, before)
        if end["id"] > number or (end["id"] == number and end["hash"] != before):
            raise errors.DatabaseUnsafe(
                f"the audit log ends at record {number}, its end says {end['id']}"
            )
        return Checked(number, before.hex())


def follow(rows: Sequence[Record], number: int, before: bytes) -> tuple[int, bytes]:
    """The number and hash of the last of these records, each checked against the one before."""
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
