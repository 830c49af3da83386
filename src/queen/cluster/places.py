"""The database of a queue or an id."""

import asyncio
import contextlib
import hashlib
from collections.abc import Iterable, Mapping
from typing import Final

from queen import errors
from queen.bounded import BoundedDict
from queen.codec.ids import NUMBER_BITS
from queen.store.cluster.homes import Homes

_NEWS_SECONDS: Final = 1.0
"""How often waiting pops check whether their queue was created."""
_HASHED: Final = 959
_KNOWN: Final = 1_000_000
"""Queues whose slots a process remembers. They never change."""


def hashed(name: str) -> int:
    """The slot of a new queue without a namespace. `queen.home_slot` is the same in SQL."""
    digits = hashlib.sha256(name.encode()).hexdigest()[:15]
    return 1 + int(digits, 16) % _HASHED


class Places:
    """
    The slot of each queue, and the database of each slot.

    The first database decides both. A process reads the slot of a queue once, and the owners of all
    slots when it starts and when a database rejects a call because a slot has moved.
    """

    def __init__(self, homes: Mapping[str, Homes]) -> None:
        """``homes``: those of each database by name, the first database first."""
        self._homes = dict(homes)
        self._first = next(iter(homes))
        self._slots = BoundedDict[str, int](_KNOWN)
        self._claimed = BoundedDict[str, int](_KNOWN)
        """Queues whose slot their own database knows too, so they can be created there."""
        self._owners: dict[int, str] = {}
        self._loading: asyncio.Task[None] | None = None
        self._awaited: dict[str, int] = {}
        """Queues that pops wait for although they don't exist, and how many pops."""
        self._looking: asyncio.Task[None] | None = None

    async def load(self) -> None:
        """Read the owners of all slots. Callers at the same time share one query."""
        if self._loading is None or self._loading.done():
            self._loading = asyncio.create_task(self._load())
        await asyncio.shield(self._loading)

    async def _load(self) -> None:
        self._owners = await self._homes[self._first].owners()
        self._claimed.clear()  # Another database may need its copy now.

    def of_slot(self, slot: int) -> str:
        return self._owners.get(slot, self._first)

    def of_id(self, id_: int) -> str:
        """The database of a partition or delivery."""
        return self.of_slot(id_ >> NUMBER_BITS)

    def known(self, queue: str) -> str | None:
        """The database of a queue, if this process knows it."""
        slot = self._slots.get(queue)
        return None if slot is None else self.of_slot(slot)

    async def of_queues(self, names: Iterable[str]) -> dict[str, str]:
        """The databases of queues, without those that never existed."""
        wanted = set(names)
        slots = {name: slot for name in wanted if (slot := self._slots.get(name)) is not None}
        if missing := wanted - slots.keys():
            found = await self._homes[self._first].find([*missing])
            self._keep(found)
            slots |= found
        return {name: self.of_slot(slot) for name, slot in slots.items()}

    async def expected(self, names: Iterable[str]) -> dict[str, str]:
        """The databases of queues, also of those that a push may create. This decides nothing."""
        wanted = set(names)
        known = await self.of_queues(wanted)
        return known | {name: self.of_slot(hashed(name)) for name in wanted - known.keys()}

    async def of_new_queues(self, namespaces: Mapping[str, str]) -> dict[str, str]:
        """
        The databases of queues that are created now, if they don't exist.

        ``namespaces``: the namespace of each queue, or an empty text.
        """
        slots = {name: slot for name in namespaces if (slot := self._claimed.get(name)) is not None}
        if missing := {name: space for name, space in namespaces.items() if name not in slots}:
            found = await self._homes[self._first].claim(missing)
            await self._copy(found)
            self._keep(found)
            for name, slot in found.items():
                self._claimed[name] = slot
            slots |= found
        return {name: self.of_slot(slot) for name, slot in slots.items()}

    async def _copy(self, slots: Mapping[str, int]) -> None:
        """Store the slots in the databases that own them."""
        by_owner: dict[str, dict[str, int]] = {}
        for name, slot in slots.items():
            by_owner.setdefault(self.of_slot(slot), {})[name] = slot
        by_owner.pop(self._first, None)
        await asyncio.gather(
            *(self._homes[owner].copy(theirs) for owner, theirs in by_owner.items())
        )

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
            with contextlib.suppress(TimeoutError, errors.ServiceError):
                await asyncio.wait_for(looking, seconds)
        finally:
            self._awaited[name] -= 1
            if not self._awaited[name]:
                del self._awaited[name]

    async def _look(self) -> None:
        await asyncio.sleep(_NEWS_SECONDS)
        if self._awaited:
            self._keep(await self._homes[self._first].find([*self._awaited]))
