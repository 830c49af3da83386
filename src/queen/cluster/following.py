"""Repeats requests at the new database of a slot that has moved."""

import contextlib
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Final, TypeVar

from queen import errors
from queen.cluster.owners import Owners
from queen.engine.engine import Engine

T = TypeVar("T")


Where = int | Engine | None
"""A slot, an engine, or the first engine."""
_FINAL: Final = errors.SlotMoved()
"""The cause of an error that a repeat does not change."""
_ABSENT: Final = (errors.NotFound, errors.LeaseLost)


class Following:
    """
    The engine of each slot, and calls that follow a slot to its new database.

    `SlotMoved` means that the database applied no change, so the call is repeated at the new owner.
    While a slot is leaving, the call waits. A database that a slot has left does not have its
    queues any more. So an absent object is searched again if its slot has moved.
    """

    def __init__(self, engines: Mapping[str, Engine], owners: Owners) -> None:
        self._engines = dict(engines)
        self._first = next(iter(self._engines.values()))
        self.owners = owners
        self.patience_seconds = 5.0
        """How long a request waits for slots that are moving."""
        self.repeated = 0
        """How many calls were repeated."""

    def engine(self, where: Where) -> Engine:
        """The engine of a slot. Raises SlotMoved if this server lacks its database."""
        if not isinstance(where, int):
            return where or self._first
        database = self.owners.of_slot(where)
        if database not in self._engines:
            raise errors.SlotMoved(
                f"The queue is in database {database}, which QUEEN_DATABASES of this server lacks."
            ) from _FINAL
        return self._engines[database]

    async def follow(
        self,
        slots: Iterable[int],
        attempt: Callable[[], Awaitable[T]],
        *,
        seconds: float | None = None,
    ) -> T:
        """
        Repeat an attempt until it reaches the owner of its slots.

        ``attempt``: finds its engine by itself. ``slots``: empty if they are not known.
        """
        patience = Patience(self, seconds)
        slots = {*slots}
        while True:
            earlier = {slot: self.owners.of_slot(slot) for slot in slots}
            try:
                return await attempt()
            except errors.SlotMoved as error:
                if isinstance(error.__cause__, errors.SlotMoved):
                    raise  # It is final, or a call inside of this one has waited.
                cause = error
            except _ABSENT as error:
                if not await self.have_moved(earlier):
                    raise
                cause = errors.SlotMoved(str(error))
            await patience.wait(slots, cause, needs_all=True)

    async def have_moved(self, earlier: Mapping[int, str]) -> bool:
        """Whether slots are not where they were earlier. False if that is not known."""
        with contextlib.suppress(errors.ServiceError, errors.OutcomeUnknown):
            return await self.owners.have_moved(earlier)
        return False

    def name(self, engine: Engine) -> str:
        """The name of an engine's database."""
        return next(name for name, each in self._engines.items() if each is engine)


class Patience:
    """How long a request waits for slots that are moving. The time of its calls does not count."""

    def __init__(self, following: Following, seconds: float | None = None) -> None:
        """``seconds``: default: that of other requests."""
        self._following = following
        self._owners = following.owners
        self._left = self._seconds = following.patience_seconds if seconds is None else seconds
        self._is_first = True

    async def wait(
        self, slots: Collection[int], cause: errors.SlotMoved, *, needs_all: bool = False
    ) -> None:
        """Wait until a repeat may succeed. Raises SlotMoved if the move takes too long."""
        began_at = time.monotonic()
        if self._is_first:
            # At once: usually the slot has a new owner.
            with contextlib.suppress(errors.ServiceError, errors.OutcomeUnknown):
                await self._owners.load()
        else:
            await self._owners.news(self._left)
        self._is_first = False
        leaving = {slot for slot in slots if self._owners.is_leaving(slot)}
        if leaving and (needs_all or leaving == {*slots}):
            left = self._left - (time.monotonic() - began_at)
            await self._owners.settled(leaving, max(0.0, left), needs_all=needs_all)
        self._left -= time.monotonic() - began_at
        if self._left <= 0:
            raise errors.SlotMoved(
                f"The queue is moving to another database, and the move did not end in"
                f" {self._seconds:g} seconds. The request was not applied. Send it again. If it"
                " lasts, run `queen doctor`, and check that the databases of the move respond."
            ) from cause
        self._following.repeated += 1
