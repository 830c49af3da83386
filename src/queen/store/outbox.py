"""What applications put down in transactions of their own, on its way to the log."""

from collections.abc import Sequence

from queen.store.connection.database import Database, Record
from queen.store.messages import Push


class Outbox:
    """The messages of ``queen.enqueue``, and the office of who moves them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def lead(self, holder: int, seconds: float, *, is_awake: bool) -> bool:
        """Take or keep the office; awake, it is not told of each message."""
        (row,) = await self._database.fetch("lead_appending", holder, seconds, is_awake)
        return row["is_leader"]

    async def read(self, first_xid: int, limit: int) -> list[Record]:
        """What committed transactions put down, of those with this number and later ones."""
        return await self._database.fetch("outbox", first_xid, limit)

    async def next_xid(self) -> int:
        """A number above those of all transactions that have one by now."""
        (row,) = await self._database.fetch("next_xid")
        return row["xid"]

    async def open_xid(self) -> int:
        """From which number on transactions may be open."""
        (row,) = await self._database.fetch("open_xid")
        return row["xid"]

    async def append(self, ids: Sequence[int], push: Push) -> list[Record]:
        return await self._database.fetch("append", ids, *push.columns())

    async def set_aside(self, reasons: dict[int, str]) -> None:
        await self._database.fetch("set_aside_outbox", list(reasons), list(reasons.values()))
