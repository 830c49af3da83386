"""What every process says and hears now and then: that it lives, and what mode all are in."""

import contextlib
import logging
import os
import secrets
import socket
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Final

from queen import errors
from queen.engine.engine import Engine
from queen.engine.runtime.periodic import Rounds

_LOG: Final = logging.getLogger("queen.server")
_SECONDS: Final = 5.0
_UNTOLD_SECONDS: Final = 1.0
"""Behind a pooler nobody tells of a change."""


class Heartbeat(Rounds):
    """
    The life of this process as others see it, and the modes that all processes share.

    Who changes a mode tells the others; the beat is for what was not heard.
    """

    def __init__(
        self, engine: Engine, *, name: str | None, adopt: Callable[[], Awaitable[None]]
    ) -> None:
        self._engine = engine
        self._host = socket.gethostname()
        # Never the same twice: work of a process that died is told from work of its successor.
        self.id = f"{name or self._host}-{os.getpid()}-{secrets.token_hex(3)}"
        self._adopt = adopt
        self._redaction: int | None = None
        is_told = engine.wakeups.notifications is not None
        self._seconds = _SECONDS if is_told else _UNTOLD_SECONDS
        super().__init__(pause_seconds=self._seconds)
        self.is_push_off = False
        self.is_pop_off = False

    async def join(self) -> None:
        """Know the modes before the first call is answered, unless the database is away."""
        try:
            await self.beat()
        except errors.DatabaseUnavailable:
            if not self._engine.store.database.is_away:
                raise
        self._engine.wakeups.modes_changed = self.wake
        self.start()

    async def leave(self) -> None:
        """This process ends."""
        await self.close()
        with contextlib.suppress(errors.QueenError):
            await self._engine.store.instances.leave(self.id)

    def require_push(self) -> None:
        """Raise DatabaseUnavailable while pushes are held back: a transaction is never buffered."""
        if self.is_push_off or self._engine.outages.is_buffering:
            raise errors.DatabaseUnavailable(
                "push maintenance is on" if self.is_push_off else "earlier pushes are on disk yet"
            )

    async def beat(self) -> None:
        """Say that this process lives, and take over what the others agreed on."""
        heard = await self._engine.store.instances.pulse(
            self.id,
            host=self._host,
            pid=os.getpid(),
            version=version("queenmq"),
            waiters=self._engine.waiting,
        )
        self.is_push_off = heard["is_push_off"]
        self._engine.hold_pushes(self.is_push_off)
        if heard["is_pop_off"] and not self.is_pop_off:
            self.is_pop_off = True
            self._engine.send_home()
        self.is_pop_off = heard["is_pop_off"]
        if self._redaction is not None and heard["redaction"] != self._redaction:
            await self._engine.forget_redacted(self._redaction)
        self._redaction = heard["redaction"]
        if heard["has_orphans"]:
            await self._adopt()

    async def round(self) -> float:
        try:
            await self.beat()
        except errors.QueenError:
            pass  # The modes stay as they were while the database is away.
        except Exception:
            # Whatever it was, the next beat may find it gone.
            _LOG.exception("the pulse failed")
        return self._seconds
