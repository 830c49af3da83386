"""Run long operations in stored steps; another process takes over if this one dies."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Literal, NamedTuple

from queen import errors, tasks
from queen.store.connection.database import Record
from queen.store.store import Store

_RETRY_SECONDS: Final = 1.0
_MOST_RETRIES: Final = 60
_REPORT_SECONDS: Final = 5.0
"""How often a process reports during a long step. After 15 seconds, another one takes over."""
_CANCELLED: Final = "is_cancelled"


class Step(NamedTuple):
    """The result of one step: the next cursor, the finished work, and whether it was the last."""

    cursor: int | None
    done: int
    is_over: bool
    pause_seconds: float = 0.0
    waits_for: str | None = None
    """What prevents the next step. The operation shows it."""
    state: Literal["done", "cancelled"] = "done"
    """The state after the last step."""


Work = Callable[[Mapping[str, Any], int | None], Awaitable[Step]]
"""A step of an operation, from its arguments and cursor. It must be safe to repeat."""
Kind = Callable[[], AbstractAsyncContextManager[Work]]
"""Opens what the steps of one operation need, until this process stops running it."""


def is_cancelled(arguments: Mapping[str, Any]) -> bool:
    """Whether an operation should undo its unfinished work and end."""
    return bool(arguments.get(_CANCELLED))


class Operations:
    """The operations that this process runs."""

    def __init__(self, store: Store, kinds: Mapping[str, Kind]) -> None:
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
            async with self._kinds[row["kind"]]() as work:
                await self._steps(id_, work, row["arguments"], row["cursor"])
        except Exception as error:
            text = str(error) or type(error).__name__
            with contextlib.suppress(errors.QueenError):
                await self._store.operations.end(id_, self.owner, "failed", text)

    async def _steps(
        self, id_: int, work: Work, arguments: Mapping[str, Any], cursor: int | None
    ) -> None:
        retries = 0
        note: str | None = None
        while True:
            try:
                # Checked before each step, so that no step follows a cancellation.
                row = await self._record(id_, cursor, note)
                if row is None:
                    return
                step = await self._reporting(
                    id_, work({**arguments, _CANCELLED: row[_CANCELLED]}, cursor), cursor, note
                )
                cursor, note = step.cursor, step.waits_for
                if await self._record(id_, cursor, note, step.done) is None:
                    return
                if step.is_over:
                    await self._store.operations.end(id_, self.owner, step.state, None)
                    return
                retries = 0
            except (errors.ServiceError, errors.OutcomeUnknown):
                # While its own database is unavailable, an operation can't even fail.
                retries += not self._store.database.is_away
                if retries > _MOST_RETRIES:
                    raise
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            await asyncio.sleep(step.pause_seconds)

    async def _record(
        self, id_: int, cursor: int | None, note: str | None, done: int = 0
    ) -> Record | None:
        return await self._store.operations.step(
            id_, self.owner, cursor=cursor, done=done, note=note
        )

    async def _reporting(
        self, id_: int, step: Awaitable[Step], cursor: int | None, note: str | None
    ) -> Step:
        """Wait for a step, and report meanwhile, so that no other process takes over."""

        async def report() -> None:
            while True:
                await asyncio.sleep(_REPORT_SECONDS)
                with contextlib.suppress(errors.ServiceError, errors.OutcomeUnknown):
                    await self._record(id_, cursor, note)

        reporting = asyncio.create_task(report())
        try:
            return await step
        finally:
            await tasks.stop(reporting)
