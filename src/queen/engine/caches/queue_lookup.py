"""Which queue a partition or a delivery belongs to: what ids in a request stand for."""

from collections import OrderedDict
from collections.abc import Iterable
from uuid import UUID

from queen.settings import Settings
from queen.store.store import Store


class Owners:
    """Remembers, within a bound, what never changes: neither kind of id is given out twice."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._most = settings.catalogue_entries
        self._partitions: OrderedDict[int, str] = OrderedDict()
        self._leases: OrderedDict[tuple[int, UUID], str] = OrderedDict()

    async def of_partitions(self, partition_ids: Iterable[int]) -> dict[int, str]:
        """The queues of those partitions that exist."""
        wanted = set(partition_ids)
        if missing := [each for each in wanted if each not in self._partitions]:
            for row in await self._store.queues.of_partitions(missing):
                self._partitions[row["id"]] = row["name"]
        found = {each: self._partitions[each] for each in wanted if each in self._partitions}
        while len(self._partitions) > self._most:
            self._partitions.popitem(last=False)
        return found

    async def of_leases(self, leases: Iterable[tuple[int, UUID]]) -> dict[tuple[int, UUID], str]:
        """The queues of those leases that are current or were a while ago."""
        wanted = set(leases)
        if missing := [each for each in wanted if each not in self._leases]:
            for row in await self._store.queues.of_deliveries(missing):
                self._leases[row["id"], row["token"]] = row["name"]
        found = {each: self._leases[each] for each in wanted if each in self._leases}
        while len(self._leases) > self._most:
            self._leases.popitem(last=False)
        return found

    def forget(self, queue: str) -> None:
        """The queue is gone, and its name may become another's."""
        for partition_id in [key for key, name in self._partitions.items() if name == queue]:
            del self._partitions[partition_id]
        for lease in [key for key, name in self._leases.items() if name == queue]:
            del self._leases[lease]
