"""Tell other processes that queues have work, and hear it from them, on a connection of its own."""

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import asyncpg

from queen import sql

_CHANNEL: Final = "queen"
_MOST_IDS: Final = 500
_EVERYTHING: Final = "*"

if TYPE_CHECKING:
    AnyConnection = (
        asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]
    )


class Notifications:
    """
    LISTEN and a debounced NOTIFY.

    Never inside a push's transaction: NOTIFY serialises commits. What is lost while the connection
    is away is made up for: whoever listens is told to look everywhere as soon as it is back.
    """

    def __init__(
        self,
        dsn: str,
        *,
        debounce_seconds: float,
        heard: Callable[[list[int] | None], None],
    ) -> None:
        self._dsn = dsn
        self._debounce_seconds = debounce_seconds
        self._heard = heard
        self._queue_ids: set[int] = set()
        self._is_pending = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._own_pid = 0
        self.is_listening = False
        self.sent = 0

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def tell(self, queue_ids: set[int]) -> None:
        """Say, soon, that these queues have work. Costs nothing when it was said a moment ago."""
        if not queue_ids:
            return
        if not self._queue_ids:
            self._is_pending.set()
        if len(self._queue_ids) <= _MOST_IDS:
            self._queue_ids |= queue_ids

    async def _keep(self) -> None:
        """Hold a connection, whatever happens to it."""
        pause = 0.1
        while True:
            try:
                connection = await asyncpg.connect(
                    self._dsn,
                    timeout=10,
                    server_settings={"application_name": "queen notifications"},
                )
            except (OSError, TimeoutError, asyncpg.PostgresError):
                # Jittered, so that many processes don't come back at once.
                await asyncio.sleep(pause * random.uniform(0.5, 1.5))
                pause = min(pause * 2, 5)
                continue
            pause = 0.1
            try:
                await self._listen(connection)
            except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                pass
            finally:
                self.is_listening = False
                connection.terminate()

    async def _listen(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def end(_: object) -> None:
            if not lost.done():
                lost.set_result(None)

        connection.add_termination_listener(end)
        self._own_pid = connection.get_server_pid()
        await connection.add_listener(_CHANNEL, self._hear)
        self.is_listening = True
        # Listening first, then looking: what was said before is seen, what is said after is heard.
        self._heard(None)
        while not connection.is_closed():
            waiting = asyncio.ensure_future(self._is_pending.wait())
            try:
                await asyncio.wait({waiting, lost}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                waiting.cancel()
            if lost.done():
                return
            self._is_pending.clear()
            queue_ids, self._queue_ids = self._queue_ids, set()
            text = _EVERYTHING if len(queue_ids) > _MOST_IDS else ",".join(map(str, queue_ids))
            self.sent += 1
            await connection.fetch(sql.CALLS["notify"], text, timeout=10)
            await asyncio.sleep(self._debounce_seconds)

    def _hear(self, connection: "AnyConnection", pid: int, channel: str, payload: object) -> None:
        del connection, channel
        if pid == self._own_pid:
            return
        text = str(payload)
        self._heard(None if text == _EVERYTHING else [int(each) for each in text.split(",")])
