"""Finds the queue of a partition or a delivery by the ids in a request."""

from collections.abc import Iterable
from uuid import UUID

from queen.bounded import BoundedDict
from queen.settings import Settings
from queen.store.store import Store


class QueueLookup:
    """A bounded cache without expiry, because ids are never reused."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._partitions = BoundedDict[int, str](settings.catalogue_entries)
        self._leases = BoundedDict[tuple[int, UUID], str](settings.catalogue_entries)

    async def of_partitions(self, partition_ids: Iterable[int]) -> dict[int, str]:
        """The queues of those partitions that exist."""
        wanted = set(partition_ids)
        found = {each: self._partitions[each] for each in wanted if each in self._partitions}
        if missing := [each for each in wanted if each not in found]:
            for row in await self._store.queues.of_partitions(missing):
                found[row["id"]] = self._partitions[row["id"]] = row["name"]
        return found

    async def of_leases(self, leases: Iterable[tuple[int, UUID]]) -> dict[tuple[int, UUID], str]:
        """The queues of current and recent leases."""
        wanted = set(leases)
        found = {each: self._leases[each] for each in wanted if each in self._leases}
        if missing := [each for each in wanted if each not in found]:
            for row in await self._store.queues.of_deliveries(missing):
                lease = row["id"], row["token"]
                found[lease] = self._leases[lease] = row["name"]
        return found

    def forget(self, queue: str) -> None:
        """The queue was deleted, and another can take its name."""
        for partition_id in [key for key, name in self._partitions.items() if name == queue]:
            del self._partitions[partition_id]
        for lease in [key for key, name in self._leases.items() if name == queue]:
            del self._leases[lease]
