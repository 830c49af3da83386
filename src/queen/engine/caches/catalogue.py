"""A bounded, short-lived cache of queues and partitions."""

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from queen import errors
from queen.codec.schemas import PayloadSchema
from queen.settings import Settings
from queen.store.connection.database import Record
from queen.store.store import Store

_REFRESH_SHARE: Final = 0.2
"""The last part of the time for which options are valid. A use in it refreshes them."""
_CHANGED: Final = -math.inf
"""The expiry of options that may have changed. They are used only in an outage."""
PartitionName = tuple[str, str, int]
"""Queue, partition, level."""


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a queue that are enforced before the database is queried."""

    id: int
    name: str
    namespace: str
    task: str
    is_ordered: bool
    is_paused: bool
    lease_seconds: float
    retry_limit: int
    max_payload_bytes: int | None
    max_size: int
    dedup_seconds: float
    schema: PayloadSchema | None
    is_encrypted: bool
    may_be_sealed: bool
    """It is or was encrypted, so some payloads may be."""
    is_spread: bool
    """With several databases, each of its partitions is in one of them."""
    is_plain: bool
    """No option delays or limits its deliveries, so pops of new messages are short."""

    @property
    def has_dedup(self) -> bool:
        """It remembers transactionIds."""
        return self.dedup_seconds > 0


class Partition(NamedTuple):
    """A partition, or the part of it for one priority."""

    queue_id: int
    partition_id: int


Reading = asyncio.Task[dict[str, Queue | errors.QueenError]]
"""A running query, and the queues that it returns by name."""


class Catalogue:
    """Maps names to ids. The database rejects a stale id, which is then dropped and read again."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._refresh_seconds = settings.catalogue_seconds * _REFRESH_SHARE
        self._partitions: OrderedDict[PartitionName, Partition] = OrderedDict()
        self._partition_names: dict[int, PartitionName] = {}
        """The same by partition id."""
        self._queues: dict[str, tuple[float, Queue]] = {}
        """The options of each queue, and until when they are valid."""
        self._reading: dict[str, Reading] = {}
        self._tasks: set[Reading] = set()

    def partition(self, name: PartitionName) -> Partition | None:
        return self._partitions.get(name)

    async def partitions(
        self, names: Sequence[PartitionName], *, creates_queues: bool = True
    ) -> dict[PartitionName, Partition]:
        """The partitions of these names, created if missing. New queues need auto_create."""
        partitions: dict[PartitionName, Partition] = {}
        missing: list[PartitionName] = []
        for name in dict.fromkeys(names):
            if (partition := self._partitions.get(name)) is not None:
                partitions[name] = partition
                self._partitions.move_to_end(name)
            else:
                missing.append(name)
        if not missing:
            return partitions
        found = await self._store.queues.partition_ids(
            missing, creates_queues=creates_queues and self._settings.auto_create
        )
        for name, (queue_id, partition_id) in zip(missing, found, strict=True):
            if queue_id is not None and partition_id is not None:
                # Another call may have cached an earlier partition of this name meanwhile.
                if (old := self._partitions.get(name)) is not None:
                    self._partition_names.pop(old.partition_id, None)
                partitions[name] = self._partitions[name] = Partition(queue_id, partition_id)
                self._partition_names[partition_id] = name
        while len(self._partitions) > self._settings.catalogue_entries:
            _, partition = self._partitions.popitem(last=False)
            self._partition_names.pop(partition.partition_id, None)
        return partitions

    async def queues(self, names: Iterable[str]) -> dict[str, Queue]:
        """Queues that exist, by name. Callers that miss the same queue share one statement."""
        wanted = set(names)
        known = {name: queue for name in wanted if (queue := self.known(name)) is not None}
        missing = wanted - known.keys()
        joined = missing & self._reading.keys()
        known |= await self._read(missing)
        # A query that started before this call may have missed a queue that was created meanwhile.
        if unseen := joined - known.keys():
            known |= await self._read(unseen)
        return known

    async def latest(self, names: Iterable[str]) -> dict[str, Queue]:
        """Queues from the cache, even if expired. Waits only for those that were never read."""
        known: dict[str, Queue] = {}
        old: list[str] = []
        soon = time.monotonic() + self._refresh_seconds
        for name in names:
            entry = self._queues.get(name)
            if entry is not None and entry[0] > _CHANGED:
                known[name] = entry[1]
            if entry is None or entry[0] < soon:
                old.append(name)
        if old:
            self._begin(old)
            known |= await self._read([name for name in old if name not in known])
        return known

    def known(self, name: str) -> Queue | None:
        """A queue whose options are still valid. Near their expiry, this starts a refresh."""
        entry = self._queues.get(name)
        if entry is None:
            return None
        left = entry[0] - time.monotonic()
        if left <= 0:
            return None
        if left < self._refresh_seconds:
            self._begin([name])
        return entry[1]

    def refresh(self, names: Iterable[str]) -> None:
        """Start to read the queues whose options have expired."""
        if expired := [name for name in names if self.known(name) is None]:
            self._begin(expired)

    def _begin(self, names: Collection[str]) -> None:
        """Read queues that are not being read yet, in one statement."""
        if new := [name for name in names if name not in self._reading]:
            reading = asyncio.get_running_loop().create_task(self._fetch(new))
            self._reading.update(dict.fromkeys(new, reading))
            self._tasks.add(reading)
            reading.add_done_callback(self._end)

    def _end(self, reading: Reading) -> None:
        self._tasks.discard(reading)
        for name in [name for name, each in self._reading.items() if each is reading]:
            del self._reading[name]
        if not reading.cancelled():
            reading.exception()  # Each waiting caller gets it, but there may be none.

    async def _read(self, names: Collection[str]) -> dict[str, Queue]:
        self._begin(names)
        found: dict[str, Queue | errors.QueenError] = {}
        for reading in {self._reading[name] for name in names}:
            # A cancelled caller must not end the query of the others.
            found |= await asyncio.shield(reading)
        queues: dict[str, Queue] = {}
        for name in names:
            queue = found.get(name)
            if isinstance(queue, errors.QueenError):
                raise queue
            if queue is not None:
                queues[name] = queue
        return queues

    async def _fetch(self, names: Sequence[str]) -> dict[str, Queue | errors.QueenError]:
        expires = time.monotonic() + self._settings.catalogue_seconds
        found: dict[str, Queue | errors.QueenError] = {}
        for row in await self._store.queues.named(names):
            name = row["name"]
            try:
                found[name] = queue = _queue(row)
            except errors.QueenError as error:
                found[name] = error  # The other queues are not affected.
                continue
            if self._reading.get(name) is asyncio.current_task():
                self._queues[name] = (expires, queue)
            elif name not in self._queues:
                # Its options may have changed since the query started, but others are not known.
                self._queues[name] = (_CHANGED, queue)
        for name in names:
            if name not in found and self._reading.get(name) is asyncio.current_task():
                self._queues.pop(name, None)
        while len(self._queues) > self._settings.catalogue_entries:
            self._queues.pop(next(iter(self._queues)))
        return found

    def remembered(self, names: Iterable[str]) -> dict[str, Queue]:
        """
        Queues from the cache, of any age, even if their options may have changed.

        For use while the database is unavailable: a push to an encrypted queue must not be buffered
        as plain text because its options were just dropped.
        """
        return {name: entry[1] for name in names if (entry := self._queues.get(name))}

    async def queue(self, name: str) -> Queue:
        found = await self.queues([name])
        if name not in found:
            raise errors.QueueNotFound(f"queue {name} does not exist")
        return found[name]

    def forget_partitions(self, partition_ids: Iterable[int]) -> None:
        """Drop removed partitions."""
        for partition_id in partition_ids:
            if (name := self._partition_names.pop(partition_id, None)) is not None:
                del self._partitions[name]

    def forget_options(self, queue_ids: Iterable[int] | None = None) -> None:
        """Read the options of these queues again, or of all if None."""
        self._reading.clear()  # Running queries may return the old options.
        changed = None if queue_ids is None else set(queue_ids)
        for name, (_, queue) in self._queues.items():
            if changed is None or queue.id in changed:
                self._queues[name] = (_CHANGED, queue)

    def forget(self) -> None:
        """Drop everything, because this may be another database."""
        self.forget_options()
        self._partitions.clear()
        self._partition_names.clear()


def _queue(row: Record) -> Queue:
    return Queue(
        id=row["id"],
        name=row["name"],
        namespace=row["namespace"],
        task=row["task"],
        is_ordered=row["ordered"],
        is_paused=row["paused"],
        lease_seconds=row["lease_seconds"],
        retry_limit=row["retry_limit"],
        max_payload_bytes=row["max_payload_bytes"],
        max_size=row["max_size"],
        dedup_seconds=row["dedup_seconds"],
        schema=None if row["schema"] is None else PayloadSchema(row["schema"]),
        is_encrypted=row["encrypted"],
        may_be_sealed=row["encrypted"] or row["has_data_keys"],
        is_spread=row["slot"] is None,
        is_plain=row["rate_per"] is None
        and not (row["concurrency_limit"] or row["delay_seconds"] or row["window_seconds"])
        and not row["max_wait_seconds"],
    )
