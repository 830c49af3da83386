"""Numbers for pushes: a push that is repeated after a lost answer is stored once."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final
from uuid import uuid4

_MOST: Final = 32
"""Pushes of one client that are under way at once; more wait for one of these."""


class Producer:
    """An id with a rising number; one push of it is under way at a time."""

    __slots__ = ("id", "sequence")

    def __init__(self) -> None:
        self.id = f"sdk-{uuid4().hex}"
        self.sequence = 0


class Producers:
    """A few producers, lent one push at a time. One for each event loop that pushes."""

    def __init__(self) -> None:
        self._idle: deque[Producer] = deque()
        self._room = asyncio.Semaphore(_MOST)

    @asynccontextmanager
    async def lend(self) -> AsyncGenerator[Producer]:
        """A producer that nobody else uses, with the next number."""
        async with self._room:
            producer = self._idle.pop() if self._idle else Producer()
            producer.sequence += 1
            try:
                yield producer
            finally:
                # Whatever became of this number, the next one is higher.
                self._idle.append(producer)
