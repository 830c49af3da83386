"""Notifications between processes about queues with work, on a dedicated connection."""

import asyncio
import logging
import random
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import asyncpg
import msgspec

from queen import sql, tasks
from queen.store.connection.primary import CONNECTION_ERRORS, OF_SOCKETS, Hosts

_LOG: Final = logging.getLogger("queen.store")
_CHANNEL: Final = "queen"
_MOST_WORDS: Final = 350
"""Keeps a notification below its limit of 8,000 bytes."""
_EVERYTHING: Final = "*"
_OF_GROUP: Final = "g"
_OF_OPTIONS: Final = "c"
_OUTBOX: Final = "outbox"
_MODES: Final = "modes"
_SCHEDULES: Final = "schedules"
_WORKFLOWS: Final = "workflows"
_ALIVE: Final = "?"

if TYPE_CHECKING:
    AnyConnection = (
        asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]
    )


class News(msgspec.Struct, kw_only=True):
    """The contents of a notification: queues and groups with work, and changed queues."""

    queue_ids: list[int] = msgspec.field(default_factory=list[int])
    group_ids: list[int] = msgspec.field(default_factory=list[int])
    changed_queue_ids: list[int] = msgspec.field(default_factory=list[int])
    is_outbox: bool = False
    """An application enqueued a message."""
    is_modes: bool = False
    """Maintenance was turned on or off, or a message was redacted."""
    is_schedules: bool = False
    """A schedule was created or changed."""
    is_workflows: bool = False
    """A workflow has ended."""
    is_everything: bool = False
    """Too many to list: it may concern any queue."""

    @classmethod
    def parse(cls, text: str) -> "News":
        news = cls()
        for word in text.split(","):
            if word == _EVERYTHING:
                news.is_everything = True
            elif word == _OUTBOX:
                news.is_outbox = True
            elif word == _MODES:
                news.is_modes = True
            elif word == _SCHEDULES:
                news.is_schedules = True
            elif word == _WORKFLOWS:
                news.is_workflows = True
            elif word.startswith(_OF_GROUP):
                news.group_ids.append(int(word[1:]))
            elif word.startswith(_OF_OPTIONS):
                news.changed_queue_ids.append(int(word[1:]))
            elif word.isdigit():
                news.queue_ids.append(int(word))
            # A word of a later release. The slow poll finds its work.
        return news


class Notifications:
    """
    LISTEN and a debounced NOTIFY.

    NOTIFY is never part of a push's transaction, because it serialises commits. After a lost
    connection, listeners receive None and must check everything. The connection is probed when it
    is idle, so a dead one is detected after twice ``check_seconds``.
    """

    def __init__(
        self,
        dsn: str,
        *,
        debounce_seconds: float,
        heard: Callable[[News | None], None],
        application_name: str = "queen",
        check_seconds: float = 4.0,
    ) -> None:
        self._hosts = Hosts(dsn)
        self._debounce_seconds = debounce_seconds
        self._heard = heard
        self._application_name = application_name
        self._check_seconds = check_seconds
        self._words: set[str] = set()
        self._is_pending = asyncio.Event()
        self._is_alive = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._own_pid = 0
        self.is_listening = False
        self.sent = 0

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep())

    async def close(self) -> None:
        await tasks.stop(self._task)

    def tell(
        self,
        *,
        queue_ids: Iterable[int] = (),
        group_ids: Iterable[int] = (),
        changed_queue_ids: Iterable[int] = (),
        is_modes: bool = False,
        is_schedules: bool = False,
        is_workflows: bool = False,
    ) -> None:
        """Notify soon. Costs nothing if the same words were sent a moment ago."""
        if len(self._words) <= _MOST_WORDS:
            self._words.update(map(str, queue_ids))
            self._words.update([f"{_OF_GROUP}{each}" for each in group_ids])
            self._words.update([f"{_OF_OPTIONS}{each}" for each in changed_queue_ids])
        if is_modes:
            self._words.add(_MODES)
        if is_schedules:
            self._words.add(_SCHEDULES)
        if is_workflows:
            self._words.add(_WORKFLOWS)
        if self._words:
            self._is_pending.set()

    async def _keep(self) -> None:
        """Keep a connection open, and reconnect after errors."""
        pause = 0.1
        while True:
            connection: asyncpg.Connection[asyncpg.Record] | None = None
            try:
                connection = await self._hosts.connect(
                    server_settings={
                        **OF_SOCKETS,
                        "application_name": f"{self._application_name} notifications",
                        # A crash disconnects the listeners anyway.
                        "synchronous_commit": "off",
                    },
                )
                pause = 0.1
                await self._listen(connection)
            except CONNECTION_ERRORS:
                pass
            except Exception:
                _LOG.exception("the connection for notifications ended; reconnecting")
            finally:
                self.is_listening = False
                if connection is not None:
                    connection.terminate()
            # Random, so that many processes don't reconnect at the same time.
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(pause * 2, 5)

    async def _listen(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def end(_: object) -> None:
            if not lost.done():
                lost.set_result(None)

        connection.add_termination_listener(end)
        self._own_pid = connection.get_server_pid()
        async with asyncio.timeout(self._check_seconds):
            await connection.add_listener(_CHANNEL, self._hear)
        self.is_listening = True
        # Listen first and check afterwards, so that no notification is missed.
        self._heard(None)
        while not connection.is_closed():
            waiting = asyncio.ensure_future(self._is_pending.wait())
            try:
                await asyncio.wait(
                    {waiting, lost},
                    timeout=self._check_seconds,
                    return_when=asyncio.FIRST_COMPLETED,
                )
            finally:
                waiting.cancel()
            if lost.done():
                return
            if self._is_pending.is_set():
                await self._send(connection)
                await asyncio.sleep(self._debounce_seconds)
            else:
                await self._check(connection)

    async def _send(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        self._is_pending.clear()
        words, self._words = self._words, set()
        text = _EVERYTHING if len(words) > _MOST_WORDS else ",".join(words)
        self.sent += 1
        try:
            await connection.fetch(sql.CALLS["notify"], text, timeout=self._check_seconds)
        except BaseException:
            # The next connection sends them.
            self._words |= words
            self._is_pending.set()
            raise

    async def _check(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        """Receive an own notification, which proves that the connection works and listens."""
        self._is_alive.clear()
        async with asyncio.timeout(self._check_seconds):
            await connection.fetch(sql.CALLS["notify"], _ALIVE)
            await self._is_alive.wait()

    def _hear(self, connection: "AnyConnection", pid: int, channel: str, payload: object) -> None:
        del connection, channel
        if pid == self._own_pid:
            self._is_alive.set()
        elif payload != _ALIVE:
            self._heard(News.parse(str(payload)))
