"""Notifications between processes about queues with work, on a dedicated connection."""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

import asyncpg
import msgspec

from queen import sql, tasks
from queen.store.connection.connection import Connection
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
_FORGET_AFTER: Final = 3
"""Checks that another process can miss before it counts as stopped."""

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

    The probes also show the other processes that this one listens, at the latest every
    ``check_seconds``. While no other process listens, notifications of messages are withheld. If
    one appears after that, it is asked to check everything, so it misses no message.
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
        self._is_withholding = False
        """Notifications were withheld that a process may need that starts to listen now."""
        self._others_until = 0.0
        """Until then, other processes count as listening."""
        self._waker: asyncio.Future[None] | None = None
        self._is_alive = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._own_pid = 0
        self.is_listening = False
        self.sent = 0

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep())

    async def close(self) -> None:
        await tasks.stop(self._task)

    @property
    def has_listeners(self) -> bool:
        """Whether other processes may listen. Without a connection, that is unknown."""
        return not self.is_listening or time.monotonic() < self._others_until

    def tell(
        self,
        *,
        queue_ids: Collection[int] = (),
        group_ids: Collection[int] = (),
        changed_queue_ids: Collection[int] = (),
        is_modes: bool = False,
        is_schedules: bool = False,
        is_workflows: bool = False,
    ) -> None:
        """Notify soon. Costs nothing if the same words were sent a moment ago."""
        words = self._words
        if (queue_ids or group_ids) and not self.has_listeners:
            self._is_withholding = True
            queue_ids = group_ids = ()
        if (queue_ids or group_ids or changed_queue_ids) and len(words) <= _MOST_WORDS:
            words.update(map(str, queue_ids))
            words.update([f"{_OF_GROUP}{each}" for each in group_ids])
            words.update([f"{_OF_OPTIONS}{each}" for each in changed_queue_ids])
        if is_modes:
            words.add(_MODES)
        if is_schedules:
            words.add(_SCHEDULES)
        if is_workflows:
            words.add(_WORKFLOWS)
        if words:
            self._wake()

    async def _keep(self) -> None:
        """Keep a connection open, and reconnect after errors."""
        pause = 0.1
        while True:
            connection: Connection | None = None
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

    async def _listen(self, connection: Connection) -> None:
        connection.add_termination_listener(lambda _: self._wake())
        self._own_pid = connection.get_server_pid()
        async with asyncio.timeout(self._check_seconds):
            await connection.add_listener(_CHANNEL, self._hear)
        # Others may listen, and need up to one check to show it.
        self._expect_listeners()
        self.is_listening = True
        # Listen first and check afterwards, so that no notification is missed.
        self._heard(None)
        # Others that withhold notifications send them from now on.
        await self._check(connection)
        while not connection.is_closed():
            await self._until_woken()
            if connection.is_closed():
                return
            if self._words:
                await self._send(connection)
                await asyncio.sleep(self._debounce_seconds)
            else:
                await self._check(connection)

    async def _until_woken(self) -> None:
        """Wait for a word to send, the end of the connection, or the time of the next check."""
        if self._words:
            return
        loop = asyncio.get_running_loop()
        self._waker = loop.create_future()
        timer = loop.call_later(self._check_seconds, self._wake)
        try:
            await self._waker
        finally:
            timer.cancel()
            self._waker = None

    def _wake(self) -> None:
        if self._waker is not None and not self._waker.done():
            self._waker.set_result(None)

    async def _send(self, connection: Connection) -> None:
        words, self._words = self._words, set()
        text = _EVERYTHING if len(words) > _MOST_WORDS else ",".join(words)
        self.sent += 1
        try:
            await connection.fetch(sql.CALLS["notify"], text, timeout=self._check_seconds)
        except BaseException:
            # The next connection sends them.
            self._words |= words
            raise

    async def _check(self, connection: Connection) -> None:
        """Receive an own notification, which proves that the connection works and listens."""
        self._is_alive.clear()
        async with asyncio.timeout(self._check_seconds):
            await connection.fetch(sql.CALLS["notify"], _ALIVE)
            await self._is_alive.wait()

    def _hear(self, connection: "AnyConnection", pid: int, channel: str, payload: object) -> None:
        del connection, channel
        if pid == self._own_pid:
            self._is_alive.set()
            return
        if payload != _OUTBOX:  # An application sends this, and it doesn't listen.
            self._expect_listeners()
        if payload != _ALIVE:
            self._heard(News.parse(str(payload)))

    def _expect_listeners(self) -> None:
        """Another process listens. It may need notifications that were withheld."""
        self._others_until = time.monotonic() + _FORGET_AFTER * self._check_seconds
        if self._is_withholding:
            self._is_withholding = False
            self._words.add(_EVERYTHING)
            self._wake()
