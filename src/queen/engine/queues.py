"""Queues, their options, and the positions of their consumer groups."""

from datetime import UTC, datetime
from typing import Any, Final

from queen import errors
from queen.codec.names import QUEUE_MODE, check_name, check_queue_name
from queen.engine.caches.queue_lookup import QueueLookup
from queen.engine.core import Core
from queen.store.connection.database import Record

_STEP: Final = 1_000
"""Partitions that one transaction visits."""


class Queues:
    """Configure, seek and delete."""

    def __init__(self, core: Core, queue_lookup: QueueLookup) -> None:
        self._store = core.store
        self._settings = core.settings
        self._catalogue = core.catalogue
        self._signals = core.signals
        self._queue_lookup = queue_lookup

    async def configure(
        self,
        queue: str,
        options: dict[str, Any] | None = None,
        *,
        namespace: str | None = None,
        task: str | None = None,
        is_replaced: bool = False,
        version: int | None = None,
    ) -> Record:
        """Create a queue, or change the named options. None resets an option to its default."""
        most = self._settings.max_name_bytes
        check_queue_name("queue", queue, most)
        for what, name in (("namespace", namespace), ("task", task)):
            if name:
                check_name(what, name, most)
        row = await self._store.queues.configure(
            queue,
            namespace=namespace,
            task=task,
            options=options or {},
            is_replaced=is_replaced,
            version=version,
        )
        self._signals.queue_changed(row["id"])
        return row

    async def one(self, queue: str) -> Record:
        """A queue with its options, from the database."""
        rows = await self._store.queues.named([queue])
        if not rows:
            raise errors.QueueNotFound(f"queue {queue} does not exist")
        return rows[0]

    async def configure_partition(self, queue: str, partition: str, *, priority: int) -> None:
        """Set a partition's priority inside its queue: higher first."""
        await self._store.queues.configure_partition(queue, partition, priority=priority)

    async def seek(
        self,
        queue: str,
        consumer_group: str | None,
        *,
        to: datetime | None = None,
        to_end: bool = False,
        to_start: bool = False,
        offset: int | None = None,
        partition: str | None = None,
    ) -> None:
        """Move a group to the first message after a time, the end, the start, or an offset."""
        if [to is not None, to_end, to_start, offset is not None].count(True) != 1:
            raise errors.BadRequest("seek needs one of: a time, the end, the start, an offset")
        if offset is not None and partition is None:
            raise errors.BadRequest("a seek to an offset needs a partition")
        at = to
        if to_start:
            at = datetime.min.replace(tzinfo=UTC)
        elif to_end and partition is None:
            # The same time for all steps, by the database's clock.
            at = (await self._store.database.fetch("now"))[0]["now"]
        after: int | None = None
        while True:
            after = await self._store.groups.seek(
                queue,
                consumer_group or QUEUE_MODE,
                partition=partition,
                at=at,
                offset=offset,
                after=after,
                limit=_STEP,
            )
            if after is None:
                break
        self._signals.messages_stored({(await self._catalogue.queue(queue)).id})

    async def delete(self, queue: str) -> int:
        """
        Delete a queue. Its name is free immediately, and `erase_step` removes its rows.

        Returns its id.
        """
        queue_id = await self._store.queues.delete(queue)
        # Its waiters now wait for the next queue of that name.
        self._signals.queue_changed(queue_id)
        self._queue_lookup.forget(queue)
        return queue_id

    async def delete_group(self, queue: str, consumer_group: str | None) -> int:
        """
        Delete a group. Its name is free immediately, and `erase_step` removes its rows.

        Returns the id of the queue.
        """
        await self._store.groups.delete(queue, consumer_group or QUEUE_MODE)
        queue_id = (await self._catalogue.queue(queue)).id
        self._signals.messages_stored({queue_id})
        return queue_id

    async def erase_step(self) -> bool:
        """Remove some rows of deleted queues and groups. Returns True at the end."""
        return await self._store.queues.erase(_STEP)
