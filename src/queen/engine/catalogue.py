"""What this process remembers of queues and partitions, bounded and short-lived."""

import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from queen import errors
from queen.codec.schemas import PayloadSchema
from queen.settings import Settings
from queen.store.store import Store

LaneName = tuple[str, str, int]
"""Queue, partition, level."""


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a queue that are enforced before the database is asked."""

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
    """It is encrypted, or was: some payloads are sealed perhaps."""

    @property
    def has_dedup(self) -> bool:
        """It remembers transactionIds."""
        return self.dedup_seconds > 0


class Lane(NamedTuple):
    """A partition, or the part of it for one priority."""

    queue_id: int
    partition_id: int


class Catalogue:
    """Names to ids. A stale entry is refused by the database, forgotten here, asked for again."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._lanes: OrderedDict[LaneName, Lane] = OrderedDict()
        self._queues: dict[str, tuple[float, Queue]] = {}

    def lane(self, name: LaneName) -> Lane | None:
        return self._lanes.get(name)

    async def lanes(self, names: Sequence[LaneName]) -> dict[LaneName, Lane]:
        """The lanes of these names; those that do not exist are made, if that is allowed."""
        lanes: dict[LaneName, Lane] = {}
        missing: list[LaneName] = []
        for name in dict.fromkeys(names):
            if (lane := self._lanes.get(name)) is not None:
                lanes[name] = lane
                self._lanes.move_to_end(name)
            else:
                missing.append(name)
        if missing and not self._settings.auto_create:
            queues = await self._store.queues.named(list({queue for queue, _, _ in missing}))
            existing = {row["name"] for row in queues}
            missing = [name for name in missing if name[0] in existing]
        if not missing:
            return lanes
        found = await self._store.queues.partition_ids(missing, is_created=True)
        for name, (queue_id, partition_id) in zip(missing, found, strict=True):
            if queue_id is not None and partition_id is not None:
                lanes[name] = self._lanes[name] = Lane(queue_id, partition_id)
        while len(self._lanes) > self._settings.catalogue_entries:
            self._lanes.popitem(last=False)
        return lanes

    async def queues(self, names: Iterable[str]) -> dict[str, Queue]:
        """Queues that exist, by name."""
        now = time.monotonic()
        wanted = set(names)
        known = {
            name: entry[1]
            for name in wanted
            if (entry := self._queues.get(name)) and entry[0] > now
        }
        if missing := [name for name in wanted if name not in known]:
            expires = now + self._settings.catalogue_seconds
            for row in await self._store.queues.named(missing):
                queue = Queue(
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
                )
                known[queue.name] = queue
                self._queues[queue.name] = (expires, queue)
            while len(self._queues) > self._settings.catalogue_entries:
                self._queues.pop(next(iter(self._queues)))
        return known

    def known(self, name: str) -> Queue | None:
        """A queue whose options are still believed, without asking anybody."""
        entry = self._queues.get(name)
        return entry[1] if entry and entry[0] > time.monotonic() else None

    def remembered(self, names: Iterable[str]) -> dict[str, Queue]:
        """Queues as they last were, however long ago: for when nobody can be asked."""
        return {name: entry[1] for name in names if (entry := self._queues.get(name))}

    async def queue(self, name: str) -> Queue:
        found = await self.queues([name])
        if name not in found:
            raise errors.QueueNotFound(f"there is no queue {name}")
        return found[name]

    def forget_lanes(self, partition_ids: Iterable[int]) -> None:
        """These partitions are gone."""
        gone = set(partition_ids)
        for name in [name for name, lane in self._lanes.items() if lane.partition_id in gone]:
            del self._lanes[name]

    def forget_options(self, queue_ids: Iterable[int] | None = None) -> None:
        """Ask again what these queues are like; None: all of them."""
        if queue_ids is None:
            self._queues.clear()
            return
        changed = set(queue_ids)
        for name in [name for name, (_, queue) in self._queues.items() if queue.id in changed]:
            del self._queues[name]

    def forget(self) -> None:
        """Ask again about everything: this may be another database."""
        self._queues.clear()
        self._lanes.clear()
