"""Pins: hot partitions of spread queues in slots of their own."""

import contextlib
from collections.abc import Awaitable
from typing import NamedTuple

from queen import errors
from queen.cluster.cluster import Cluster
from queen.codec.names import check_name
from queen.codec.slots import RESERVED, hashed
from queen.store.cluster.homes import SPREAD
from queen.store.connection.database import Record

_FAILURES = (errors.ServiceError, errors.OutcomeUnknown)


class Pin(NamedTuple):
    """A partition with a slot of its own."""

    queue: str
    partition: str
    slot: int
    database: str
    is_ready: bool
    """False: it was interrupted, and the partition can't be created until it is repeated."""


class _Reserved(NamedTuple):
    """A pin that is not ready, so no database creates the partition."""

    queue_id: int
    queue: str
    partition: str
    slot: int
    revision: int
    before: bool | None
    """Whether it was ready before this call. None: it did not exist."""


class Pins:
    """
    The pins of all spread queues. `functions/slots/pins.sql` describes their states.

    A partition is pinned or unpinned while it does not exist in any database. First, all databases
    learn that they must not create it. Then the owner of the slot in which it may be confirms that
    it is not there. So no two databases can have it, whatever other servers know.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._owners = cluster.owners
        self._definitions = cluster.first.store.definitions

    async def all(self) -> list[Pin]:
        """All pins, by queue and partition."""
        await self._owners.load()
        rows = await self._definitions.pins()
        return [self._pin(row["queue"], row["partition"], row) for row in rows]

    def _pin(self, queue: str, partition: str, row: Record) -> Pin:
        database = self._owners.of_slot(row["slot"])
        return Pin(queue, partition, row["slot"], database, row["is_ready"])

    async def pin(self, queue: str, partition: str, database: str) -> Pin:
        """
        Give a partition that does not exist a slot, if possible one that a database owns already.

        A partition that is pinned already keeps its slot, wherever it is.
        """
        await self._check(queue, partition)
        if database not in (listed := await self._cluster.first.store.homes.databases()):
            raise errors.NotFound(
                f"database {database} does not exist. There are {', '.join(listed)}"
            )
        if not any(each[:2] == (queue, partition) for each in await self.all()):
            queue_id = (await self._cluster.queues([queue]))[queue].id
            await self._check_absent(queue_id, queue, partition, hashed(partition))
        await self._cluster.spreads.check_all()
        slots = sorted(RESERVED, key=lambda slot: self._owners.of_slot(slot) != database)
        row = await self._definitions.reserve_pin(queue, partition, slots)
        if row is None:
            raise errors.SlotBusy(
                f"{len(RESERVED)} partitions are pinned, and each needs its own slot. Unpin one"
                " with `queen shard unpin`"
            )
        found = self._pin(queue, partition, row)
        if found.is_ready:
            return found
        before = None if row["is_new"] else False
        reserved = _Reserved(row["queue_id"], queue, partition, found.slot, row["revision"], before)
        await self._settle(reserved, hashed(partition), ends_ready=True)
        return found._replace(is_ready=True)

    async def unpin(self, queue: str, partition: str) -> None:
        """Remove the pin of a partition that does not exist."""
        await self._check(queue, partition)
        await self._owners.load()
        rows = await self._definitions.pins()
        row = next((r for r in rows if (r["queue"], r["partition"]) == (queue, partition)), None)
        if row is None:
            raise errors.NotFound(f"partition {partition} of queue {queue} is not pinned")
        await self._cluster.spreads.check_all()
        revision: int | None = row["revision"]
        if row["is_ready"]:
            await self._check_absent(row["queue_id"], queue, partition, row["slot"])
            revision = await self._definitions.change_pin(
                row["queue_id"], partition, row["revision"], is_ready=False
            )
            if revision is None:
                raise _changed(queue, partition)
        reserved = _Reserved(
            row["queue_id"], queue, partition, row["slot"], revision or 0, row["is_ready"]
        )
        await self._settle(reserved, row["slot"], ends_ready=False)

    async def _settle(self, pin: _Reserved, slot: int, *, ends_ready: bool) -> None:
        """Make a pin ready, or delete it, when the partition does not exist in a slot."""
        try:
            await self._cluster.spreads.publish_to_all(pin.queue_id)
        except BaseException:
            if pin.before is not False:
                with contextlib.suppress(*_FAILURES):
                    await self._change(pin, is_ready=pin.before)
            raise
        try:
            await self._check_absent(pin.queue_id, pin.queue, pin.partition, slot)
        except errors.Conflict:
            # The partition is in the slot where it was created, and stays there.
            await self._change(pin, is_ready=None if ends_ready else True)
            raise
        await self._change(pin, is_ready=True if ends_ready else None)

    async def _change(self, pin: _Reserved, *, is_ready: bool | None) -> None:
        revision = await self._definitions.change_pin(
            pin.queue_id, pin.partition, pin.revision, is_ready=is_ready
        )
        if revision is None:
            raise _changed(pin.queue, pin.partition)
        await self._cluster.spreads.publish(pin.queue_id)
        with contextlib.suppress(*_FAILURES):
            await self._owners.load()

    async def _check(self, queue: str, partition: str) -> None:
        if self._cluster.is_alone:
            raise errors.BadRequest(
                "this server has one database. Add others with QUEEN_DATABASES first"
            )
        most = self._cluster.first.settings.max_partition_bytes
        check_name("partition", partition, most)
        slot = await self._cluster.slot_of_queue(queue)
        if slot is None:
            raise errors.QueueNotFound(f"queue {queue} does not exist")
        if slot != SPREAD:
            raise errors.BadRequest(
                f"queue {queue} has placement home, so all its partitions are in one slot. Move it:"
                f" queen shard move --queue {queue} --to NAME"
            )
        if queue not in await self._cluster.queues([queue]):
            raise errors.QueueNotFound(f"queue {queue} does not exist")

    async def _check_absent(self, queue_id: int, queue: str, partition: str, slot: int) -> None:
        """Raise Conflict if the partition exists in a slot."""

        def search() -> Awaitable[bool]:
            engine = self._cluster.following.engine(slot)
            return engine.store.definitions.has_partition(queue_id, partition, slot)

        if await self._cluster.following.follow([slot], search):
            database = self._owners.of_slot(slot)
            raise errors.Conflict(
                f"partition {partition} of queue {queue} exists in database {database}, and its"
                " messages have ids of that slot. Pin or unpin a partition before its first"
                " message, or wait until it is empty and was deleted: see PARTITION_CLEANUP_DAYS"
            )


def _changed(queue: str, partition: str) -> errors.Conflict:
    return errors.Conflict(
        f"another request changed the pin of partition {partition} of queue {queue}. Send this one"
        " again if you still need it"
    )
