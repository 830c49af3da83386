"""Messages that applications enqueued in their transactions, on their way to the log."""

from collections.abc import Sequence

from queen.store.connection.database import Database, Record
from queen.store.messages import Push


class Outbox:
    """The messages of ``queen.enqueue``, and the leadership of the process that moves them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def lead(self, holder: int, seconds: float, *, is_awake: bool) -> bool:
        """Acquire or extend the leadership. An awake leader gets no notification per message."""
        (row,) = await self._database.fetch("lead_appending", holder, seconds, is_awake)
        return row["is_leader"]

    async def read(self, first_xid: int, limit: int) -> list[Record]:
        """Messages of committed transactions with this number or a later one."""
        return await self._database.fetch("outbox", first_xid, limit)

    async def next_xid(self) -> int:
        """A number above those of all current transactions."""
        (row,) = await self._database.fetch("next_xid")
        return row["xid"]

    async def open_xid(self) -> int:
        """The lowest number of a transaction that may be open."""
        (row,) = await self._database.fetch("open_xid")
        return row["xid"]

    async def append(self, ids: Sequence[int], push: Push) -> list[Record]:
        return await self._database.fetch("append", ids, *push.columns())

    async def set_aside(self, reasons: dict[int, str]) -> None:
        await self._database.fetch("set_aside_outbox", list(reasons), list(reasons.values()))
