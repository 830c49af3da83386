"""Long work in steps, so that the other tasks of a process wait for milliseconds only."""

import asyncio
from typing import Final

_STEP_BYTES: Final = 2**20
_ITEM_BYTES: Final = 2**10
"""An item costs its own overhead: a step ends after a thousand items, however small."""


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
        """Count an item; True when the step is over."""
        self._left -= size_bytes + _ITEM_BYTES
        return self._left < 0

    async def rest(self) -> None:
        """Let other tasks run, and begin the next step."""
        self._left = _STEP_BYTES
        await asyncio.sleep(0)
