"""Work that is done again and again: when it is called for, and after each pause."""

import asyncio
import contextlib
from abc import ABC, abstractmethod


class Rounds(ABC):
    """One task for as long as the process lives."""

    def __init__(self, *, pause_seconds: float = 0.0) -> None:
        """``pause_seconds``: before the first round."""
        self._pause_seconds = pause_seconds
        self._is_called = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @abstractmethod
    async def round(self) -> float:
        """Do it, errors and all; answers how many seconds may pass before the next."""

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def wake(self) -> None:
        """Let the next round begin now, or when this one is over."""
        self._is_called.set()

    async def until_called(self, seconds: float) -> None:
        """Until it is called for, or for so long; whoever called is heard with that."""
        # Not wait_for, which loses a cancellation that comes with what it waits for.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._is_called.wait()
        self._is_called.clear()

    async def _run(self) -> None:
        while True:
            await self.until_called(self._pause_seconds)
            self._pause_seconds = await self.round()
