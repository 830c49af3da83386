"""Dead letters: redeliver, move or create them."""

from collections.abc import Sequence
from typing import Final

from queen import errors
from queen.codec.encryption.sealing import seal
from queen.codec.names import QUEUE_MODE
from queen.engine.core import Core

_ROUNDS: Final = 10


class DeadLetters:
    """Messages that exhausted their retries, per consumer group."""

    def __init__(self, core: Core) -> None:
        self._store = core.store
        self._catalogue = core.catalogue
        self._counters = core.counters
        self._sealer = core.sealer
        self._signals = core.signals

    async def redrive(self, ids: Sequence[int]) -> list[int]:
        """Redeliver dead letters to their group. Returns the ids of those that were."""
        redriven = await self._store.dead_letters.redrive(ids)
        for row in redriven:
            self._counters.group(row["group_id"]).redriven += 1
        self._signals.groups_ready({row["group_id"] for row in redriven})
        return [row["id"] for row in redriven]

    async def redrive_to(
        self,
        ids: Sequence[int],
        payloads: Sequence[bytes],
        extras: Sequence[bytes | None],
        queue: str,
        partition: str,
    ) -> list[int]:
        """Push dead letters as new messages to a partition, which is created if it is missing."""
        for _ in range(_ROUNDS):
            moved = await self._redrive_to(ids, payloads, extras, queue, partition)
            if moved is not None:
                return moved
        raise errors.Overloaded(f"partition {partition} was removed several times; try later")

    async def _redrive_to(
        self,
        ids: Sequence[int],
        payloads: Sequence[bytes],
        extras: Sequence[bytes | None],
        queue: str,
        partition: str,
    ) -> list[int] | None:
        """Try `redrive_to` once. Returns None if the partition was removed meanwhile."""
        await self._catalogue.queue(queue)
        name = (queue, partition, 0)
        found = (await self._catalogue.partitions([name], creates_queues=False)).get(name)
        if found is None:
            raise errors.QueueNotFound(f"queue {queue} does not exist")
        data_keys, problems = await self._sealer.keys({queue: len(ids)})
        for problem in problems.values():
            raise problem
        sealed = payloads, extras
        if (key := data_keys.get(found.queue_id)) is not None:
            sealed = seal(key, found.partition_id, payloads, extras)
        try:
            moved = await self._store.dead_letters.redrive_to(ids, *sealed, found.partition_id)
        except errors.EncryptionUnavailable:
            self._catalogue.forget_options([found.queue_id])  # Encrypted since the read.
            raise
        except errors.PartitionNotFound:
            # Removed since it was read: it is created again, unless its queue was deleted too.
            self._catalogue.forget_partitions([found.partition_id])
            return None
        self._signals.messages_stored({found.queue_id})
        return moved

    async def retry(self, partition_id: int, offset: int, consumer_group: str | None) -> None:
        """Make a message available now that waits for its next attempt or is a dead letter."""
        group_id = await self._store.browse.retry(
            partition_id, offset, consumer_group or QUEUE_MODE
        )
        if group_id is None:
            raise errors.NotRetryable("the message neither waits for a retry nor is a dead letter")
        self._signals.groups_ready({group_id})

    async def give_up(
        self, partition_id: int, offset: int, consumer_group: str | None, error: str | None
    ) -> None:
        """Move a message to the dead letters of one group."""
        group_id: int | None = None
        while group_id is None:
            group_id = await self._store.browse.give_up(
                partition_id, offset, consumer_group or QUEUE_MODE, error
            )
        self._signals.groups_ready({group_id})
