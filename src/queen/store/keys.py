"""API keys, their current permissions, and one-time tickets."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from queen import errors
from queen.store.connection.database import Database, Record


class Keys:
    """The API keys of one database. It stores only digests of keys."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def is_away(self) -> bool:
        """Whether the database is known to be unavailable. A call would fail immediately."""
        return self._database.is_away

    async def find(self, ids: Sequence[str]) -> list[Record]:
        """The keys among these that are valid now."""
        return await self._database.fetch("find_keys", ids)

    async def changed(self, since: int | None, *, limit: int) -> tuple[int, list[Record]]:
        """
        Keys that changed since a snapshot, including revoked ones, and the next snapshot.

        None: the newest keys that are not revoked.
        """
        rows = await self._database.fetch("changed_keys", since, limit)
        return rows[0]["snapshot_xmin"], [row for row in rows if row["id"] is not None]

    async def make(
        self,
        id_: str,
        digest: bytes,
        *,
        name: str,
        role: str | None,
        permissions: Sequence[str] | None,
        scopes: list[dict[str, Any]] | None,
        requests_per_second: float | None,
        created_by: str,
        expires_at: datetime | None,
        managed_by: str | None = None,
    ) -> Record:
        rows = await self._database.fetch(
            "make_key",
            id_,
            digest,
            name,
            role,
            permissions,
            scopes,
            requests_per_second,
            created_by,
            expires_at,
            managed_by,
        )
        return rows[0]

    async def change(
        self,
        id_: str,
        *,
        name: str,
        role: str | None,
        permissions: Sequence[str] | None,
        scopes: list[dict[str, Any]] | None,
        requests_per_second: float | None,
        expires_at: datetime | None,
        managed_by: str | None,
    ) -> Record:
        """Change everything about a key except its secret."""
        rows = await self._database.fetch(
            "change_key",
            *(id_, name, role, permissions, scopes, requests_per_second, expires_at, managed_by),
        )
        if not rows:
            raise errors.NotFound(f"API key {id_} does not exist")
        return rows[0]

    async def list(self, *, after: str, limit: int, with_revoked: bool = False) -> list[Record]:
        return await self._database.fetch("list_keys", after, with_revoked, limit)

    async def one(self, id_: str) -> Record:
        rows = await self._database.fetch("key_with_id", id_)
        if not rows:
            raise errors.NotFound(f"API key {id_} does not exist")
        return rows[0]

    async def rotate(self, id_: str, digest: bytes, *, grace_seconds: float) -> Record:
        """Replace the secret of the key. The old one stays valid for ``grace_seconds``."""
        rows = await self._database.fetch("rotate_key", id_, digest, grace_seconds)
        if not rows:
            raise errors.NotFound(f"API key {id_} does not exist")
        return rows[0]

    async def revoke(self, id_: str) -> Record:
        rows = await self._database.fetch("revoke_key", id_)
        if not rows:
            raise errors.NotFound(f"API key {id_} does not exist")
        return rows[0]

    async def allow(self, id_: str, *, rate: float, wanted: int) -> tuple[int, float]:
        """How many requests the key may make now, or else how many seconds it must wait."""
        rows = await self._database.fetch("allow", id_, rate, wanted)
        return rows[0]["granted"], rows[0]["wait_seconds"]

    async def make_ticket(
        self, digest: bytes, caller: dict[str, Any], *, seconds: float
    ) -> datetime:
        rows = await self._database.fetch("make_ticket", digest, caller, seconds)
        return rows[0]["until"]

    async def take_ticket(self, digest: bytes) -> dict[str, Any] | None:
        """The user of the ticket. None if the ticket is used, expired or unknown."""
        rows = await self._database.fetch("take_ticket", digest)
        return rows[0]["caller"] if rows and rows[0]["is_valid"] else None
