"""Background tasks that run periodically, or immediately when they are woken."""

import asyncio
import contextlib
import logging
import random
from abc import ABC, abstractmethod
from typing import Final

from queen import errors, tasks

_LOG: Final = logging.getLogger("queen.engine")
_RETRY_SECONDS: Final = (0.1, 1.0)


class PeriodicTask(ABC):
    """
    One task for the lifetime of the process.

    An error never ends it: the task runs again after a pause.
    """

    def __init__(
        self, *, pause_seconds: float = 0.0, retry_seconds: tuple[float, float] = _RETRY_SECONDS
    ) -> None:
        """
        ``pause_seconds``: the pause before the first run.

        ``retry_seconds``: a random pause in this range follows an error.
        """
        self._pause_seconds = pause_seconds
        self._retry_seconds = retry_seconds
        self._is_woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @abstractmethod
    async def run(self) -> float:
        """Do the work once. Returns the seconds until the next run."""

    def start(self) -> None:
        self._task = asyncio.create_task(self._run_until_closed())

    async def close(self) -> None:
        await tasks.stop(self._task)

    def wake(self) -> None:
        """Start the next run now, or when the current one ends."""
        self._is_woken.set()

    async def until_woken(self, seconds: float) -> None:
        """Sleep until the task is woken, for at most ``seconds``."""
        # Not `wait_for`, which loses a cancellation that arrives together with the event.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._is_woken.wait()
        self._is_woken.clear()

    async def _run_until_closed(self) -> None:
        while True:
            await self.until_woken(self._pause_seconds)
            try:
                self._pause_seconds = await self.run()
            except (errors.ServiceError, errors.OutcomeUnknown):
                self._pause_seconds = random.uniform(*self._retry_seconds)
            except Exception:
                # The cause may be gone at the next run.
                _LOG.exception("background task %s failed", type(self).__name__)
                self._pause_seconds = random.uniform(*self._retry_seconds)
