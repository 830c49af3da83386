"""Long work in steps, so that other tasks of the process wait only milliseconds."""

import asyncio
from typing import Final

_STEP_BYTES: Final = 2**20
_ITEM_BYTES: Final = 2**10
"""Each item has overhead: a step ends after a thousand items, even if they are small."""


class Pace:
    """
    Counts work, and lets other tasks run after each step.

    Usage::

        pace = Pace()
        for item in items:
            if pace.is_due(len(item.payload)):
                await pace.rest()
    """

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = _STEP_BYTES

    def is_due(self, size_bytes: int) -> bool:
        """Count an item. Returns True at the end of a step."""
        self._left -= size_bytes + _ITEM_BYTES
        return self._left < 0

    async def rest(self) -> None:
        """Let other tasks run and start the next step."""
        self._left = _STEP_BYTES
        await asyncio.sleep(0)
