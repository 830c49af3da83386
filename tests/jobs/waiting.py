"""Wait for a worker's progress, for a bounded time."""

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], object], *, seconds: float = 15) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - other processes and tasks change it
            await asyncio.sleep(0.01)
