"""Who waits for the end of a workflow: woken by name, or by one look for everybody."""

import asyncio
import contextlib
import logging
import random
from collections.abc import Iterable
from typing import Final

from queen import errors
from queen.engine.rounds import Rounds
from queen.store.store import Store

_LOG: Final = logging.getLogger("queen.engine")
_LOOK_SECONDS: Final = 5.0
"""The safety net behind the notification."""
_POOLED_LOOK_SECONDS: Final = 1.0
"""Where nobody is told that a workflow has ended."""
_IDLE_SECONDS: Final = 3_600.0
"""Nobody waits: the first who does wakes it."""


class Ends(Rounds):
    """
    Those who wait, by the workflow that they wait for.

    The process that ends a workflow wakes its own by name. What other processes have ended is
    found by one statement for all who wait, when they say so, and now and then.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}
        self._is_closed = False
        super().__init__(pause_seconds=_IDLE_SECONDS)

    async def wait(self, id_: str, seconds: float) -> None:
        """Come back when it has ended or is gone, or after so long."""
        if self._is_closed:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Before it is looked at: an end in between wakes it.
        waiting = self._waiting.setdefault(id_, [])
        waiting.append(future)
        try:
            if id_ in await self._store.workflows.open_of([id_]):
                if len(self._waiting) == 1 and len(waiting) == 1:
                    self.wake()  # There is somebody to look for now and then.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await future
        finally:
            waiting.remove(future)
            if not waiting and self._waiting.get(id_) is waiting:
                del self._waiting[id_]

    def tell(self, ids: Iterable[str]) -> None:
        """These have ended."""
        for id_ in ids:
            for future in self._waiting.get(id_, ()):
                if not future.done():
                    future.set_result(None)

    async def round(self) -> float:
        """Look which of those that somebody waits for have ended."""
        if not self._waiting:
            return _IDLE_SECONDS
        try:
            ids = list(self._waiting)
            still = await self._store.workflows.open_of(ids)
            self.tell(id_ for id_ in ids if id_ not in still)
        except (errors.ServiceError, errors.OutcomeUnknown):
            pass  # The database is away, or busy: later.
        except Exception:
            _LOG.exception("ends of workflows could not be looked for")
        seconds = _POOLED_LOOK_SECONDS if self._store.database.is_pooled else _LOOK_SECONDS
        return seconds * random.uniform(0.8, 1.2)

    async def close(self) -> None:
        self.release()
        await super().close()

    def release(self) -> None:
        """Answer those who wait, and let nobody wait."""
        self._is_closed = True
        self.tell(list(self._waiting))
