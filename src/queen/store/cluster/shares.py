"""Shares: each database may use a part of a spread queue's limit."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from queen.store.connection.database import Database, Record


class Share(NamedTuple):
    """A decision about the share of one database."""

    group_id: int
    revision: int
    rate: int | None
    concurrency: int | None


class Shares:
    """The shares of one database. The first database decides them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def reports(self, group_ids: Sequence[int] | None = None) -> list[Record]:
        """The shares here, and how they are used, for these groups or all that have a limit."""
        return await self._database.fetch("share_reports", group_ids)

    async def apply(self, shares: Sequence[Share]) -> None:
        """Obey decisions, unless later ones are known."""
        await self._database.fetch(
            "apply_shares", *map(list, zip(*shares, strict=True)) if shares else ([],) * 4
        )

    async def decide(self, group_id: int, reports: Sequence[Mapping[str, Any]]) -> dict[str, Share]:
        """Decide the shares of a group. Returns those that databases do not have yet, by name."""
        rows = await self._database.fetch(
            "decide_shares", group_id, msgspec.json.encode(reports).decode()
        )
        return {
            row["database"]: Share(
                group_id, row["revision"], row["rate_share"], row["concurrency_share"]
            )
            for row in rows
        }

    async def absent(self, names: Sequence[str]) -> dict[int, Record]:
        """What databases other than these may use of the limits, by group."""
        return {row["group_id"]: row for row in await self._database.fetch("absent_shares", names)}
