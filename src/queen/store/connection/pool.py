"""The open connections of a process. Taking a free one needs no lock, timer or task."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

import asyncpg

from queen import errors
from queen.store.connection.connection import Connection

NO_CONNECTION: Final = (
    OSError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
"""Errors of an attempt to connect."""


class PoolClosed(Exception):
    """No connection is lent any more."""


class Pool:
    """
    At most ``most`` connections. The one that was returned last is lent first.

    With ``warm``, only the first connection is opened by a caller that waits for it. Further ones
    are opened and warmed in the background, and meanwhile callers wait for a connection in use.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        *,
        warm: Callable[[Connection], Awaitable[None]] | None,
        most: int,
        idle_seconds: float,
        timeout_seconds: float,
    ) -> None:
        """
        ``idle_seconds``: connections above the first are closed after this time. 0: never.

        ``timeout_seconds``: the longest wait for a connection.
        """
        self._connect = connect
        self._warm = warm
        self._most = most
        self._idle_seconds = idle_seconds
        self._timeout_seconds = timeout_seconds
        self._open: set[Connection] = set()
        self._free: list[Connection] = []
        self._expired: set[Connection] = set()
        """Connections in use that are closed when they are returned."""
        self._prepared: set[Connection] = set()
        """Connections that are planned or recovered, for no caller yet."""
        self._opening = 0
        self._waiters: deque[asyncio.Future[Connection | None]] = deque()
        self._growth: asyncio.Task[None] | None = None
        self._recoveries: set[asyncio.Task[None]] = set()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._emptied: asyncio.Event | None = None
        """Set when the last connection is returned. The pool is closing if it is not None."""
        self.waiting = 0
        """Callers that wait for a connection."""

    @property
    def size(self) -> int:
        """The number of open connections."""
        return sum(not each.is_closed() for each in self._open)

    @property
    def free(self) -> int:
        """The number of open connections that are not in use."""
        return sum(not each.is_closed() for each in self._free)

    def take(self) -> Connection | None:
        """A free connection, if there is one."""
        while self._free:
            connection = self._free.pop()
            if not connection.is_closed():
                return connection
            self._drop(connection)
        return None

    async def wait(self) -> Connection:
        """A connection, new or returned by another caller. Raises TimeoutError."""
        self.waiting += 1
        try:
            async with asyncio.timeout(self._timeout_seconds):
                while True:
                    if self._emptied is not None:
                        raise PoolClosed
                    if (connection := self.take()) is not None:
                        return connection
                    if self._may_open:
                        return await self._open_one()
                    self._grow()
                    connection = await self._next()
                    if connection is not None and not connection.is_closed():
                        return connection
                    if connection is not None:
                        self._drop(connection)
        finally:
            self.waiting -= 1

    def give(self, connection: Connection) -> None:
        """Return a connection on which no statement runs."""
        if connection.is_closed() or connection in self._expired or self._emptied is not None:
            self._drop(connection)
            return
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return
        self._free.append(connection)
        if self._idle_seconds:
            loop = asyncio.get_running_loop()
            connection.free_since = loop.time()
            if self._idle_timer is None and len(self._open) > 1:
                self._idle_timer = loop.call_later(self._idle_seconds, self._close_idle, loop)

    def recover_soon(self, connection: Connection) -> None:
        """Return a connection whose call was cancelled or failed in an unknown state."""
        if connection.is_closed():
            self.give(connection)
            return
        task = asyncio.get_running_loop().create_task(self.recover(connection))
        self._recoveries.add(task)
        task.add_done_callback(self._recoveries.discard)

    async def recover(self, connection: Connection) -> None:
        """Wait until PostgreSQL has stopped a cancelled call, and return the connection."""
        is_usable = False
        self._prepared.add(connection)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                # asyncpg sends this after PostgreSQL has confirmed the cancellation.
                await connection.execute("select")
                if connection.is_in_transaction():
                    await connection.execute("rollback")
            connection.take_warning()  # The caller that it concerned is gone.
            is_usable = True
        except NO_CONNECTION:
            pass
        finally:
            self._prepared.discard(connection)
            if is_usable:
                self.give(connection)
            else:
                self._drop(connection)

    def expire(self) -> None:
        """Close the connections that no call uses now, and the others when they are returned."""
        free, self._free = self._free, []
        self._expired = self._open.difference(free)
        for connection in free:
            self._drop(connection)
        for connection in self._prepared:
            connection.terminate()  # Its task forgets it.

    async def close(self) -> None:
        """Close all connections after the running calls have ended."""
        self._emptied = asyncio.Event()
        self._stop_timer()
        self._wake_all(PoolClosed())
        if self._growth is not None:
            self._growth.cancel()
            await asyncio.wait({self._growth})
        free, self._free = self._free, []
        for connection in free:
            with contextlib.suppress(*NO_CONNECTION):
                await connection.close()
            self._drop(connection)
        if self._open:
            await self._emptied.wait()

    def terminate(self) -> None:
        """Close all connections immediately."""
        for connection in tuple(self._open):
            connection.terminate()

    @property
    def _may_open(self) -> bool:
        """Whether a caller opens a connection, rather than wait for one."""
        if self._warm is None:
            return len(self._open) + self._opening < self._most
        return not self._open and not self._opening

    async def _open_one(self) -> Connection:
        self._opening += 1
        try:
            connection = await self._connect()
        except BaseException as error:
            self._opening -= 1
            if not self._open and not self._opening and isinstance(error, Exception):
                # The others would wait in vain.
                self._wake_all(error)
            elif self._may_open:
                self._wake_one()
            raise
        self._opening -= 1
        if self._emptied is not None:
            connection.terminate()
            raise PoolClosed
        self._open.add(connection)
        return connection

    def _grow(self) -> None:
        """Open one more connection in the background, if the limit allows it."""
        if self._growth is None and len(self._open) + self._opening < self._most:
            self._growth = asyncio.get_running_loop().create_task(self._add())

    async def _add(self) -> None:
        is_added = False
        try:
            async with asyncio.timeout(self._timeout_seconds):
                connection = await self._open_one()
            self._prepared.add(connection)
            try:
                if self._warm is not None:
                    await self._warm(connection)
            finally:
                await self.recover(connection)  # Planning may have been cancelled.
            is_added = True
        except (*NO_CONNECTION, PoolClosed, errors.ServiceError):
            pass  # The next caller that needs one tries again.
        finally:
            self._growth = None
        if is_added and self._waiters:
            self._grow()

    async def _next(self) -> Connection | None:
        """The next connection that is returned. None if one may be opened instead."""
        waiter: asyncio.Future[Connection | None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                # A connection that was returned meanwhile has already passed over it.
                with contextlib.suppress(ValueError):
                    self._waiters.remove(waiter)
            elif waiter.exception() is None:
                if (connection := waiter.result()) is not None:
                    self.give(connection)
                else:
                    self._wake_one()
            raise

    def _wake_one(self) -> None:
        """Let a waiting caller open a connection."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _wake_all(self, error: Exception) -> None:
        waiters, self._waiters = self._waiters, deque()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(error)

    def _drop(self, connection: Connection) -> None:
        """Forget a connection, and close it if it is open."""
        # A closed connection too: asyncpg ends its remaining work.
        connection.terminate()
        self._open.discard(connection)
        self._expired.discard(connection)
        self._wake_one()
        if self._emptied is not None and not self._open:
            self._emptied.set()

    def _close_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close connections that were free for the idle time, except the last one."""
        self._idle_timer = None
        latest = loop.time() - self._idle_seconds
        # The one that has been free longest is first.
        while self._free and len(self._open) > 1 and self._free[0].free_since <= latest:
            self._drop(self._free.pop(0))
        if self._free and len(self._open) > 1:
            wait = max(self._free[0].free_since - latest, 0.001)
            self._idle_timer = loop.call_later(wait, self._close_idle, loop)

    def _stop_timer(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
