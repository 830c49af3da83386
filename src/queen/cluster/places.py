"""The slots of queues."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final

from queen import errors
from queen.bounded import BoundedDict
from queen.cluster.owners import Owners
from queen.codec.slots import hashed
from queen.store.cluster.homes import SPREAD, Homes

_NEWS_SECONDS: Final = 1.0
"""How often waiting pops check whether their queue was created."""
_RESERVED_SECONDS: Final = 60.0
"""Longer than a call to a database can take."""
_KNOWN: Final = 1_000_000
"""Queues whose slots a process remembers. They never change."""


class Places:
    """The slot of each queue. The first database decides it, and a process reads it once."""

    def __init__(self, homes: Mapping[str, Homes], owners: Owners) -> None:
        """``homes``: those of each database by name, the first database first."""
        self._homes = dict(homes)
        self._first = next(iter(homes))
        self._owners = owners
        self._slots = BoundedDict[str, int](_KNOWN)
        self._claimed = BoundedDict[str, str](_KNOWN)
        """Queues whose slot this database knows too, so they can be created there."""
        self._awaited: dict[str, int] = {}
        """Queues that pops wait for although they don't exist, and how many pops."""
        self._looking: asyncio.Task[None] | None = None

    def slot_in(self, queue: str, slot: int, partition: str) -> int:
        """The slot of a partition. ``slot``: that of its queue."""
        return self._owners.slot_of(queue, partition) if slot == SPREAD else slot

    def known(self, queue: str) -> int | None:
        """The slot of a queue, if this process knows it."""
        return self._slots.get(queue)

    async def of_queues(self, names: Iterable[str]) -> dict[str, int]:
        """The slots of queues, without those that never existed."""
        wanted = set(names)
        slots = {name: slot for name in wanted if (slot := self._slots.get(name)) is not None}
        if missing := wanted - slots.keys():
            found = await self._homes[self._first].find([*missing])
            self._keep(found)
            slots |= found
        return slots

    async def expected(self, names: Iterable[str]) -> dict[str, int]:
        """The slots of queues, also of those that a push may create. This decides nothing."""
        wanted = set(names)
        known = await self.of_queues(wanted)
        return known | {name: hashed(name) for name in wanted - known.keys()}

    async def claim(
        self, namespaces: Mapping[str, str], *, spread: Collection[str] = ()
    ) -> dict[str, int]:
        """
        The slots of queues that are created now, if they don't exist. Their databases know them.

        ``namespaces``: the namespace of each queue, or an empty text. ``spread``: new queues to
        spread.
        """
        slots: dict[str, int] = {}
        missing: dict[str, str] = {}
        for name, space in namespaces.items():
            slot = self._slots.get(name)
            if slot is not None and self._claimed.get(name) == self._owners.of_slot(slot):
                slots[name] = slot
            else:
                missing[name] = space
        if missing:
            found = await self._homes[self._first].claim(missing, spread)
            self._keep(found)
            await self._copy(found)
            slots |= found
        return slots

    @asynccontextmanager
    async def reserved(self, name: str, database: str) -> AsyncGenerator[None]:
        """
        Reserve the name of an object that is created in a database meanwhile.

        Raises Overloaded if it is created in another one. If the outcome is not known, the
        reservation ends by itself, after the creation can't succeed any more.
        """
        homes = self._homes[self._first]
        until = await homes.reserve(name, database, _RESERVED_SECONDS)
        if until is None:
            raise errors.Overloaded(
                f"Another request creates {name} in another database now. Send this one again."
            )
        try:
            yield
        except BaseException as error:
            if not isinstance(error, errors.QueenError) or error.applied is None:
                raise
            await self._end_reservation(name, database, until)
            raise
        await self._end_reservation(name, database, until)

    async def _end_reservation(self, name: str, database: str, until: datetime) -> None:
        with contextlib.suppress(errors.ServiceError, errors.OutcomeUnknown):
            await self._homes[self._first].end_reservation(name, database, until)

    async def _copy(self, slots: Mapping[str, int]) -> None:
        """Store the slots in the databases that own them."""
        by_owner: dict[str, dict[str, int]] = {}
        for name, slot in slots.items():
            by_owner.setdefault(self._owners.of_slot(slot), {})[name] = slot
        await asyncio.gather(
            *(
                self._homes[owner].copy(theirs)
                for owner, theirs in by_owner.items()
                if owner in self._homes and owner != self._first
            )
        )
        for owner, theirs in by_owner.items():
            for name in theirs:
                self._claimed[name] = owner

    def _keep(self, slots: Mapping[str, int]) -> None:
        for name, slot in slots.items():
            self._slots[name] = slot

    async def news(self, name: str, seconds: float) -> None:
        """
        Wait until a queue may have been created, at most this long.

        Waiters share one query per second.
        """
        self._awaited[name] = self._awaited.get(name, 0) + 1
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        looking = asyncio.shield(self._looking)
        try:
            with contextlib.suppress(TimeoutError, errors.ServiceError, errors.OutcomeUnknown):
                await asyncio.wait_for(looking, seconds)
        finally:
            self._awaited[name] -= 1
            if not self._awaited[name]:
                del self._awaited[name]

    async def _look(self) -> None:
        await asyncio.sleep(_NEWS_SECONDS)
        if self._awaited:
            self._keep(await self._homes[self._first].find([*self._awaited]))
