"""The state of slots in one database, as a move changes it."""

import contextlib
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Self

import asyncpg

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

SET_STATE = """
update queen.slots s
set state = $2, moved_to = case when $2 <> 'owned' then 'two' end
from queen.queues q
where q.name = $1 and s.slot = q.slot
"""
WAKE = "select queen.wake_slot(q.slot) from queen.queues q where q.name = $1"
KEEP_HOME = """
insert into queen.homes (name, slot)
select q.name, q.slot from queen.queues q where q.name = $1
on conflict do nothing
"""


class Mover:
    """Moves the slot of a queue away and back. The messages stay, as in an interrupted move."""

    def __init__(self, connection: "Connection") -> None:
        self.connection = connection

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, dsn: str) -> "AsyncGenerator[Self]":
        connection = await asyncpg.connect(dsn)
        try:
            yield cls(connection)
        finally:
            await connection.close()

    async def leave(self, queue: str, *, wakes: bool = True) -> None:
        await self._set_state(queue, "leaving", wakes=wakes)

    async def give_up(self, queue: str, *, wakes: bool = True) -> None:
        await self._set_state(queue, "owned", wakes=wakes)

    async def complete(self, queue: str) -> None:
        """The slot is gone, and the queue with it. Its other rows are deleted later."""
        await self.connection.execute(KEEP_HOME, queue)
        await self._set_state(queue, "gone", wakes=False)
        await self.connection.execute("delete from queen.queues where name = $1", queue)

    async def _set_state(self, queue: str, state: str, *, wakes: bool) -> None:
        async with self.connection.transaction():
            await self.connection.execute(SET_STATE, queue, state)
            if wakes:
                await self.connection.execute(WAKE, queue)
