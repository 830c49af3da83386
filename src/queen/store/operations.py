"""Long operations, stored so that they can be monitored, cancelled and taken over."""

from collections.abc import Sequence
from typing import Any

from queen.store.connection.database import Database, Record


class Operations:
    """The operations of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(
        self,
        kind: str,
        *,
        queue: str | None,
        arguments: dict[str, Any],
        total: int | None,
        owner: str,
        created_by: str,
    ) -> Record:
        rows = await self._database.fetch(
            "begin_operation", kind, queue, arguments, total, owner, created_by
        )
        return rows[0]

    async def step(
        self, id_: int, owner: str, *, cursor: int | None, done: int, note: str | None
    ) -> Record | None:
        """
        Record the progress. Returns whether the operation should end (``is_cancelled``).

        ``note``: what prevents the next step. Returns None if another process runs the operation
        now.
        """
        rows = await self._database.fetch("step_operation", id_, owner, cursor, done, note)
        return rows[0] if rows else None

    async def cancel(self, id_: int) -> bool:
        """Let the process that runs an operation undo its unfinished work and end it."""
        return bool(await self._database.fetch("cancel_operation", id_))

    async def end(self, id_: int, owner: str | None, state: str, error: str | None) -> bool:
        """Returns False if it had ended, or if another process runs it."""
        return bool(await self._database.fetch("end_operation", id_, owner, state, error))

    async def adopt(self, owner: str, kinds: Sequence[str]) -> list[Record]:
        """Take over operations of these kinds whose processes have stopped."""
        return await self._database.fetch("adopt_operations", owner, kinds)

    async def page(
        self, *, before: int, limit: int, patterns: Sequence[str] | None = None
    ) -> list[Record]:
        return await self._database.fetch("list_operations", before, limit, patterns)

    async def one(self, id_: int) -> Record | None:
        rows = await self._database.fetch("operation_with_id", id_)
        return rows[0] if rows else None
