"""Run long operations in stored steps; another process takes over if this one dies."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

from queen import errors, tasks
from queen.store.connection.database import Record
from queen.store.store import Store

_RETRY_SECONDS: Final = 1.0
_MOST_RETRIES: Final = 60


class Step(NamedTuple):
    """The result of one step: the next cursor, the finished work, and whether it was the last."""

    cursor: int | None
    done: int
    is_over: bool
    pause_seconds: float = 0.0


Work = Callable[[Mapping[str, Any], int | None], Awaitable[Step]]
"""A step of an operation, from its arguments and cursor. It must be safe to repeat."""


class Operations:
    """The operations that this process runs."""

    def __init__(self, store: Store, kinds: Mapping[str, Work]) -> None:
        self._store = store
        self._kinds = kinds
        self._tasks: set[asyncio.Task[None]] = set()
        self.owner = ""
        """The name of this process."""

    async def begin(
        self,
        kind: str,
        *,
        queue: str | None,
        arguments: dict[str, Any],
        by: str,
        total: int | None = None,
    ) -> Record:
        """Store an operation, start it, and return its row."""
        row = await self._store.operations.begin(
            kind,
            queue=queue,
            arguments=arguments,
            total=total,
            owner=self.owner,
            created_by=by,
        )
        self._start(row)
        return row

    async def adopt(self) -> None:
        """
        Continue operations of processes that have stopped reporting.

        Operations that only a newer release supports are left to its processes.
        """
        for row in await self._store.operations.adopt(self.owner, list(self._kinds)):
            self._start(row)

    async def close(self) -> None:
        """Stop after the last finished step. Another process continues."""
        await tasks.stop(*self._tasks)

    def _start(self, row: Record) -> None:
        task = asyncio.create_task(self._run(row))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, row: Record) -> None:
        id_: int = row["id"]
        try:
            await self._steps(id_, self._kinds[row["kind"]], row["arguments"], row["cursor"])
        except Exception as error:
            text = str(error) or type(error).__name__
            with contextlib.suppress(errors.QueenError):
                await self._store.operations.end(id_, self.owner, "failed", text)

    async def _steps(
        self, id_: int, work: Work, arguments: Mapping[str, Any], cursor: int | None
    ) -> None:
        operations = self._store.operations
        retries = 0
        while True:
            try:
                # Checked before each step, so that no step follows a cancellation.
                if not await operations.step(id_, self.owner, cursor=cursor, done=0):
                    return
                step = await work(arguments, cursor)
                cursor = step.cursor
                if not await operations.step(id_, self.owner, cursor=cursor, done=step.done):
                    return
                if step.is_over:
                    await operations.end(id_, self.owner, "done", None)
                    return
                retries = 0
            except (errors.ServiceError, errors.OutcomeUnknown):
                retries += 1
                if retries > _MOST_RETRIES:
                    raise
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            await asyncio.sleep(step.pause_seconds)
