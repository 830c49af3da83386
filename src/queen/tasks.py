"""Stop background tasks."""

import asyncio
import contextlib


async def stop(*tasks: asyncio.Task[None] | None) -> None:
    """Cancel these tasks, and wait until they have ended. None: it has not started."""
    running = [task for task in tasks if task is not None]
    for task in running:
        task.cancel()
    for task in running:
        with contextlib.suppress(asyncio.CancelledError):
            await task
