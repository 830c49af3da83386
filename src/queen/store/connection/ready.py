"""The connections that are ready for calls."""

import asyncio


class ReadyConnections:
    """
    Counts the connections that are open and have planned the hot calls.

    Each call takes one of them. A closed connection does not count, because the pool would replace
    it on the path of a call, which would then wait for plans too.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._free = asyncio.Semaphore(count)
        self._closed = 0
        """Closed connections that `_free` still counts."""

    @property
    def are_in_use(self) -> bool:
        return self._free.locked()

    async def take_free(self) -> bool:
        """Take a connection that is free now. Returns whether there was one."""
        while self._closed and not self._free.locked():
            self._closed -= 1
            await self._free.acquire()
        if self._free.locked():
            return False
        await self._free.acquire()
        return True

    async def take(self) -> None:
        """Wait for a connection."""
        await self._free.acquire()

    def give_back(self) -> None:
        if self._closed:
            self._closed -= 1
        else:
            self._free.release()

    def add(self) -> None:
        self.count += 1
        self._free.release()

    def remove(self, connection: object) -> None:
        """Stop counting a closed connection. One always counts, so that a call can open it."""
        del connection
        if self.count > 1:
            self.count -= 1
            self._closed += 1
