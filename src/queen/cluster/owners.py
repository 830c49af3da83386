"""The database of each slot."""

import asyncio
import contextlib
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from queen import errors
from queen.cluster.results import grouped
from queen.codec.slots import hashed
from queen.store.cluster.definitions import Definitions
from queen.store.cluster.homes import Homes
from queen.store.connection.database import Record

SLOTS: Final = 1024
_READ_SECONDS: Final = 2.0
"""A database that takes longer to return its slots counts as unavailable."""
_FRESH_SECONDS: Final = 5.0
_LEAST_PAUSE_SECONDS: Final = 0.005
_MOST_PAUSE_SECONDS: Final = 0.1
_FAILURES: Final = (errors.ServiceError, errors.OutcomeUnknown)


class Owners:
    """
    The map of slots to databases.

    Each database records which slots it owns. A slot without an owner is leaving a database, and
    calls wait until it has arrived in another. The map can be old, because a database rejects calls
    for slots that it does not own. It also rejects to create a partition in a slot that a pin
    has replaced.
    """

    def __init__(self, homes: Mapping[str, Homes], definitions: Definitions) -> None:
        """``homes``: those of each database, the first one first. ``definitions``: of the first."""
        self._homes = dict(homes)
        self._first = next(iter(homes))
        self._definitions = definitions
        self.pins: dict[tuple[str, str], int] = {}
        """The slots of pinned partitions, by queue and partition."""
        self._owners: dict[int, str] = {}
        self.former: dict[int, str] = {}
        """The previous database of slots that have moved, or got a pinned partition from there,
        while this process runs."""
        self.moves = 0
        """How often an owner has changed while this process runs."""
        self._leaving: dict[int, asyncio.Future[None]] = {}
        """Slots without an owner. Each future is done when the slot has one."""
        self._loading: asyncio.Task[None] | None = None
        self._read_at = 0.0
        self._watching: asyncio.Task[None] | None = None
        self._next: asyncio.Future[None] | None = None
        """Done when the map has been read the next time."""
        self._waiters = 0

    def of_slot(self, slot: int) -> str:
        """The owner of a slot. While the slot is leaving, its last known owner."""
        return self._owners.get(slot, self._first)

    def all(self) -> dict[int, str]:
        """The owner of each slot."""
        return {slot: self.of_slot(slot) for slot in range(SLOTS)}

    def is_leaving(self, slot: int) -> bool:
        return slot in self._leaving

    def knows(self, slot: int) -> bool:
        """Whether this server is connected to the owner of a slot."""
        return self.of_slot(slot) in self._homes

    async def load(self) -> None:
        """Read the owners of all slots. Callers at the same time share one query per database."""
        await asyncio.shield(self._load())

    def refresh(self) -> None:
        """Start to read the map again if it is older than a few seconds."""
        if time.monotonic() - self._read_at > _FRESH_SECONDS:
            self._load()

    def _load(self) -> asyncio.Task[None]:
        if self._loading is None or self._loading.done():
            self._loading = asyncio.create_task(self._read())
            self._loading.add_done_callback(_retrieve)
        return self._loading

    async def _read(self) -> None:
        self._read_at = time.monotonic()
        owned = await asyncio.gather(*map(self._owned, self._homes))
        found = dict(zip(self._homes, owned, strict=True))
        moved: dict[int, str] = {}
        pins: list[Record] | None = None
        if found[self._first] is not None:
            with contextlib.suppress(*_FAILURES):
                moved = await self._homes[self._first].elsewhere()
                pins = await self._definitions.pins()
        elif not self._owners or not any(found.values()):
            raise errors.DatabaseUnavailable("the databases of the slots are unavailable")
        self._learn(found, moved)
        if pins is not None:
            self._learn_pins(pins)

    async def _owned(self, name: str) -> list[tuple[int, int]] | None:
        """The slots of a database with their epochs, or None if it is unavailable."""
        with contextlib.suppress(*_FAILURES, TimeoutError):
            async with asyncio.timeout(_READ_SECONDS):
                return await self._homes[name].owned()
        return None

    def _learn(
        self, owned: Mapping[str, list[tuple[int, int]] | None], moved: Mapping[int, str]
    ) -> None:
        """``moved``: the destinations that the first database knows, if it is available."""
        newest: dict[int, tuple[int, str]] = {}
        for name, slots in owned.items():
            for slot, epoch in slots or ():
                if slot not in newest or newest[slot][0] < epoch:
                    newest[slot] = (epoch, name)
        available = {name for name, slots in owned.items() if slots is not None}
        leaving: set[int] = set()
        for slot in range(SLOTS):
            old = self._owners.get(slot)
            if slot in newest:
                owner = newest[slot][1]
            else:
                # A database that did not respond may own it.
                likely = (moved.get(slot), old)
                absent = [each for each in likely if each is not None and each not in available]
                owner = absent[0] if absent else old or moved.get(slot, self._first)
                if not absent:
                    leaving.add(slot)
            self._owners[slot] = owner
            if old is not None and old != owner:
                self.former[slot] = old
                self.moves += 1
        self._announce(leaving)

    def _learn_pins(self, rows: Iterable[Record]) -> None:
        """``rows``: of the first database."""
        pins = {(row["queue"], row["partition"]): row["slot"] for row in rows if row["is_ready"]}
        for name in pins.keys() ^ self.pins.keys():
            earlier = self.of_slot(self.slot_of(*name))
            slot = pins.get(name) or hashed(name[1])
            if self.of_slot(slot) != earlier:
                self.former[slot] = earlier
        self.pins = pins

    def slot_of(self, queue: str, partition: str) -> int:
        """The slot of a partition in a spread queue."""
        return self.pins.get((queue, partition)) or hashed(partition)

    def _announce(self, leaving: Collection[int]) -> None:
        for slot in self._leaving.keys() - leaving:
            self._leaving.pop(slot).set_result(None)
        for slot in leaving - self._leaving.keys():
            self._leaving[slot] = asyncio.get_running_loop().create_future()
        if self._next is not None:
            self._next.set_result(None)
            self._next = None

    async def settled(self, slots: Iterable[int], seconds: float, *, needs_all: bool) -> None:
        """Wait until one or all of these leaving slots have an owner, at most this long."""
        when = asyncio.ALL_COMPLETED if needs_all else asyncio.FIRST_COMPLETED
        await self._wait([self._leaving[slot] for slot in slots], seconds, when)

    async def news(self, seconds: float) -> None:
        """Wait until the map has been read the next time, at most this long."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        await self._wait([self._next], seconds)

    async def _wait(
        self,
        futures: Collection["asyncio.Future[None]"],
        seconds: float,
        when: str = asyncio.ALL_COMPLETED,
    ) -> None:
        """Wait while one task reads the map for all waiting requests."""
        self._waiters += 1
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch())
        try:
            await asyncio.wait(futures, timeout=seconds, return_when=when)
        finally:
            self._waiters -= 1

    async def _watch(self) -> None:
        pause = _LEAST_PAUSE_SECONDS
        while self._waiters:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MOST_PAUSE_SECONDS)
            with contextlib.suppress(*_FAILURES):
                await self.load()

    async def have_moved(self, earlier: Mapping[int, str]) -> bool:
        """
        Whether one of these slots is not in the database where it was earlier.

        If the map does not show it, this asks only those databases.
        """
        if any(self.of_slot(slot) != owner for slot, owner in earlier.items()):
            return True
        by_owner = grouped(earlier, earlier.__getitem__)
        for owner, some in by_owner.items():
            if owner in self._homes and await self._homes[owner].has_left(some):
                return True
        return False


def _retrieve(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()
