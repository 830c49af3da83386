"""Sequence numbers of pushes: a push repeated after a lost response is stored once."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final
from uuid import uuid4

import msgspec

_MOST: Final = 32
"""Concurrent pushes of one client. Further pushes wait."""


class Producer(msgspec.Struct, eq=False):
    """An id with a rising sequence number. It has one push in progress at a time."""

    id: str = msgspec.field(default_factory=lambda: f"sdk-{uuid4().hex}")
    sequence: int = 0


class Producers:
    """A few producers per event loop, each lent to one push at a time."""

    def __init__(self) -> None:
        self._idle: deque[Producer] = deque()
        self._room = asyncio.Semaphore(_MOST)

    @asynccontextmanager
    async def lend(self) -> AsyncGenerator[Producer]:
        """Lend an idle producer with its next sequence number."""
        async with self._room:
            producer = self._idle.pop() if self._idle else Producer()
            producer.sequence += 1
            try:
                yield producer
            finally:
                # The next number is higher, whether this one was used or not.
                self._idle.append(producer)
