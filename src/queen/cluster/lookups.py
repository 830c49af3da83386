"""Where objects are: a lease, a message, a queue. The slot of an object never changes."""

from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from typing import TypeVar
from uuid import UUID

from queen import errors
from queen.cluster.following import Following, Where
from queen.cluster.places import Places
from queen.cluster.results import grouped
from queen.codec.ids import NUMBER_BITS, Lease, id_of, place_of
from queen.engine.caches.catalogue import Queue
from queen.engine.engine import Engine
from queen.store.cluster.homes import SPREAD
from queen.wire.messages import Acknowledgment

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def slot_of_id(id_: int) -> int:
    """The slot of a partition or delivery."""
    return id_ >> NUMBER_BITS


def slot_of_lease(lease_id: str) -> int | None:
    """The slot of a lease; None if it is invalid. Each engine rejects that."""
    try:
        return slot_of_id(Lease.parse(lease_id).delivery_id)
    except errors.LeaseLost:
        return None


def slot_of_message(message_id: str) -> int | None:
    """The slot of a message; None if this is not the id of one."""
    place = place_of(message_id)
    return None if place is None else slot_of_id(place.partition_id)


def is_searched(each: Acknowledgment) -> bool:
    """Whether an acknowledgment names only a transactionId, so that its slot is not known."""
    return (
        each.lease_id is None
        and each.partition_id is None
        and slot_of_message(each.id or each.transaction_id or "") is None
    )


class Lookups:
    """Finds the slots of objects, and reads which queues objects belong to."""

    def __init__(self, engines: Sequence[Engine], places: Places, following: Following) -> None:
        self._engines = engines
        self._places = places
        self._following = following

    async def of_acknowledgment(self, each: Acknowledgment, group: str | None) -> Where:
        """
        Where a message is, or None if no database has it.

        With only a transactionId, all databases are searched. Raises AmbiguousMessage if several
        have such a message.
        """
        if each.lease_id is not None:
            return slot_of_lease(each.lease_id)
        if each.partition_id is not None:
            id_ = id_of(each.partition_id)
            return None if id_ is None else slot_of_id(id_)
        slot = slot_of_message(each.id or each.transaction_id or "")
        return slot if slot is not None else await self._search(each, group)

    async def _search(self, each: Acknowledgment, group: str | None) -> Where:
        found: set[int | Engine] = set()
        failure: errors.DatabaseUnavailable | None = None
        for engine in self._engines:
            try:
                delivery_id = await engine.delivery_of(each, consumer_group=group)
            except errors.DatabaseUnavailable as error:
                failure = error
            else:
                if delivery_id is not None:
                    # While a slot moves, two databases have the delivery, with the same id.
                    found.add(slot_of_id(delivery_id) if delivery_id else engine)
        if len(found) > 1:
            raise errors.AmbiguousMessage(
                f"several messages match {each.transaction_id!r}; name the partition"
            )
        if not found and failure is not None:
            raise failure
        return found.pop() if found else None

    async def queues(self, names: Iterable[str]) -> dict[str, Queue]:
        """Queues that exist, by name."""
        slots = await self._places.of_queues(names)
        spread = [name for name, slot in slots.items() if slot == SPREAD]
        home = [name for name in slots if slots[name] != SPREAD]
        return await self._spread(spread) | await self._read(
            home, slots.__getitem__, lambda engine, some: engine.catalogue.queues(some)
        )

    async def _spread(self, names: Sequence[str]) -> dict[str, Queue]:
        """Spread queues, from the first database that is available. All have them."""
        failure: errors.DatabaseUnavailable | None = None
        for engine in self._engines if names else ():
            try:
                return await engine.catalogue.queues(names)
            except errors.DatabaseUnavailable as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return {}

    async def queues_of_partitions(self, ids: Iterable[int]) -> dict[int, str]:
        """The names of the queues of those partitions that exist."""
        return await self._read(
            ids, slot_of_id, lambda engine, some: engine.queue_lookup.of_partitions(some)
        )

    async def queues_of_leases(
        self, leases: Iterable[tuple[int, UUID]]
    ) -> dict[tuple[int, UUID], str]:
        """The names of the queues of current and recent leases."""
        return await self._read(
            leases,
            lambda lease: slot_of_id(lease[0]),
            lambda engine, some: engine.queue_lookup.of_leases(some),
        )

    async def _read(
        self,
        keys: Iterable[K],
        slot_of: Callable[[K], int],
        read: Callable[[Engine, Sequence[K]], Awaitable[dict[K, V]]],
    ) -> dict[K, V]:
        """Read from each database. What one lacks is searched again if its slot has moved."""
        following = self._following
        found: dict[K, V] = {}
        wanted = [*keys]
        while wanted:
            owners = {key: following.owners.of_slot(slot_of(key)) for key in wanted}
            by_engine = grouped(wanted, lambda key: following.engine(slot_of(key)))
            for engine, some in by_engine.items():
                found |= await read(engine, some)
            wanted = [key for key in wanted if key not in found]
            earlier = {slot_of(key): owners[key] for key in wanted}
            if not wanted or not await following.have_moved(earlier):
                break
            await following.owners.load()
            if all(following.owners.of_slot(slot) == owner for slot, owner in earlier.items()):
                break  # They are leaving, and until they have left, their database has them.
        return found
