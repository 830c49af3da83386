"""Recurring messages, and the leadership of the process that pushes them."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from queen.store.connection.database import Database, Record
from queen.store.messages import Push


class Move(NamedTuple):
    """The progress of a schedule: its former tick, the last one pushed now, and the next."""

    name: str
    tick: datetime
    last: datetime | None
    next: datetime | None


class Schedules:
    """The schedules of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(
        self,
        name: str,
        *,
        queue: str,
        partition: str,
        cron: str,
        time_zone: str,
        missed: str,
        message: bytes,
        is_paused: bool | None,
        next_at: datetime | None,
        queues: Sequence[str],
        manager: tuple[str | None] | None = None,
    ) -> Record | None:
        """
        Create or change a schedule. None if it belongs to another queue by now.

        ``manager``: the new owner, or None to keep the present one.
        """
        rows = await self._database.fetch(
            "put_schedule",
            *(name, queue, partition, cron, time_zone, missed, message, is_paused, next_at),
            list(queues),
            *(manager is not None, manager and manager[0]),
        )
        return rows[0] if rows else None

    async def page(
        self, *, after: str, queue: str | None, limit: int, patterns: Sequence[str] | None = None
    ) -> list[Record]:
        return await self._database.fetch("list_schedules", after, queue, limit, patterns)

    async def one(self, name: str) -> Record | None:
        rows = await self._database.fetch("schedule", name)
        return rows[0] if rows else None

    async def pause(self, name: str, *, is_paused: bool, next_at: datetime | None) -> Record | None:
        rows = await self._database.fetch("pause_schedule", name, is_paused, next_at)
        return rows[0] if rows else None

    async def delete(self, name: str) -> bool:
        return bool(await self._database.fetch("delete_schedule", name))

    async def due(self, holder: int, seconds: float, limit: int) -> list[Record]:
        """The due schedules if this process is the leader, or else how long to wait."""
        return await self._database.fetch("due_schedules", holder, seconds, limit)

    async def fire(self, moves: Sequence[Move], push: Push) -> list[Record]:
        return await self._database.fetch(
            "fire",
            [move.name for move in moves],
            [move.tick for move in moves],
            [move.last for move in moves],
            [move.next for move in moves],
            *push.columns(),
        )

    async def defer(self, name: str, tick: datetime, seconds: float, error: str | None) -> None:
        await self._database.fetch("defer_schedule", name, tick, seconds, error)
