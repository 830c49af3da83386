"""A process that listens for notifications and records them."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator

from queen.store.connection.connection import Connection
from queen.store.connection.notifications import News, Notifications
from tests.engine.helpers import until


class _Shy(Notifications):
    """Listens without a sign of that, until it may send one."""

    def __init__(self, listener: "Listener", dsn: str) -> None:
        super().__init__(dsn, debounce_seconds=0.001, heard=listener.news.append)
        self._may_show = listener.may_show

    async def _check(self, connection: Connection) -> None:
        await self._may_show.wait()
        await super()._check(connection)


class Listener:
    """A `Notifications` instance and the notifications it received."""

    def __init__(self, dsn: str, *, is_shy: bool = False, check_seconds: float = 0.3) -> None:
        self.news: list[News | None] = []
        self.may_show = asyncio.Event()
        self.notifications = (
            _Shy(self, dsn)
            if is_shy
            else Notifications(
                dsn, debounce_seconds=0.001, heard=self.news.append, check_seconds=check_seconds
            )
        )

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls, dsn: str, *, is_shy: bool = False, check_seconds: float = 0.3
    ) -> "AsyncGenerator[Listener]":
        listener = cls(dsn, is_shy=is_shy, check_seconds=check_seconds)
        listener.notifications.start()
        try:
            await listener.connects(1)
            yield listener
        finally:
            await listener.notifications.close()

    @property
    def words(self) -> list[News]:
        """The notifications, without the sign that it must check everything."""
        return [each for each in self.news if each is not None]

    async def connects(self, times: int) -> None:
        async def is_connected() -> bool:
            return self.news.count(None) >= times

        await until(is_connected)

    async def hears(self, queue_id: int) -> None:
        async def is_heard() -> bool:
            return any(queue_id in each.queue_ids for each in self.words)

        await until(is_heard)

    async def hears_everything(self) -> None:
        async def is_heard() -> bool:
            return any(each.is_everything for each in self.words)

        await until(is_heard)

    async def hears_of(self, queue_id: int) -> None:
        """Wait for a notification of this queue or of everything."""

        async def is_heard() -> bool:
            return any(queue_id in each.queue_ids or each.is_everything for each in self.words)

        await until(is_heard)
