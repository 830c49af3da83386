"""Report that this process is running, and read the state that all processes share."""

import contextlib
import os
import secrets
import socket
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Final

from queen import errors
from queen.engine.engine import Engine
from queen.engine.runtime.periodic import PeriodicTask
from queen.settings import Settings

_SECONDS: Final = 5.0
_POOLED_SECONDS: Final = 1.0
"""Interval behind a pooler, because a pooler does not forward notifications."""


class Heartbeat(PeriodicTask):
    """
    The row of this process in the database, and the state that all processes share.

    A process that changes a mode notifies the others, and so does an application that enqueues a
    message. If a notification is lost, the next heartbeat reads the change.
    """

    def __init__(
        self, engine: Engine, settings: Settings, *, adopt: Callable[[], Awaitable[None]]
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._host = socket.gethostname()
        # Unique, because a restarted process must not own the operations of its predecessor.
        self.id = f"{settings.worker_id or self._host}-{os.getpid()}-{secrets.token_hex(3)}"
        self._adopt = adopt
        self._redaction: int | None = None
        has_notifications = engine.signals.notifications is not None
        self._seconds = seconds = _SECONDS if has_notifications else _POOLED_SECONDS
        super().__init__(pause_seconds=seconds, retry_seconds=(seconds, seconds))
        self.is_push_off = False
        self.is_pop_off = False

    async def join(self) -> None:
        """Read the modes before the first call, unless the database is unavailable."""
        try:
            await self.beat()
        except errors.DatabaseUnavailable:
            if not self._engine.store.database.is_away:
                raise
        self._engine.signals.on_modes_changed.subscribe(self.wake)
        self.start()

    async def leave(self) -> None:
        """Remove this process."""
        await self.close()
        with contextlib.suppress(errors.QueenError):
            await self._engine.store.instances.leave(self.id)

    def require_push(self) -> None:
        """Raise DatabaseUnavailable while pushes are buffered, because transactions never are."""
        if self.is_push_off or self._engine.push_fallback.is_buffering:
            raise errors.DatabaseUnavailable(
                "push maintenance is on" if self.is_push_off else "earlier pushes are still on disk"
            )

    async def beat(self) -> None:
        """Report that this process is running, and apply the shared state."""
        shared = await self._engine.store.instances.pulse(
            self.id,
            host=self._host,
            pid=os.getpid(),
            version=version("queenmq"),
            waiters=self._engine.waiting,
            address=self._settings.advertised_url,
            preferred=self._settings.preferred,
        )
        self.is_push_off = shared["is_push_off"]
        self._engine.hold_pushes(self.is_push_off)
        if shared["is_pop_off"] and not self.is_pop_off:
            self.is_pop_off = True
            self._engine.send_home()
        self.is_pop_off = shared["is_pop_off"]
        if self._redaction is not None and shared["redaction"] != self._redaction:
            await self._engine.forget_redacted(self._redaction)
        self._redaction = shared["redaction"]
        if shared["has_outbox"]:
            self._engine.outbox_mover.wake()
        if shared["has_forwards"]:
            self._engine.forwarder.wake()
        if shared["has_orphans"]:
            await self._adopt()

    async def run(self) -> float:
        # If this fails, the modes stay unchanged until the next heartbeat.
        await self.beat()
        return self._seconds
