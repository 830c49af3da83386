"""Messages that other databases forward to this one."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from queen import errors
from queen.engine.caches.catalogue import Queue
from queen.engine.core import Core
from queen.engine.push.items import ItemChecks
from queen.engine.push.producers import Producer, digest_of
from queen.engine.push.pusher import Pusher, failed_item
from queen.wire.messages import PushItem


class Arrivals:
    """
    Stores numbered batches of the outboxes of other databases, each exactly once.

    Their messages were accepted when they were enqueued, so the size of the queue, its schema and
    the size of payloads are not checked. They never go to the file buffer, because another process
    could overtake it.
    """

    def __init__(self, core: Core, pusher: Pusher) -> None:
        self._store = core.store
        self._catalogue = core.catalogue
        self._items = ItemChecks(core.settings, has_dedup=core.store.queues.dedup_seconds > 0)
        self._pusher = pusher
        self._most_delay = timedelta(seconds=core.settings.max_delay_seconds)

    async def check(
        self, items: Sequence[PushItem], chosen: Sequence[int], *, is_rolled_back_on_duplicate: bool
    ) -> None:
        """
        Raise for the first of the chosen items that a transaction of another database can't send.

        They are stored after that transaction, so it can't depend on what is in the queue then.
        """
        queues = await self._queues({items[at].queue for at in chosen})
        for at in chosen:
            item = items[at]
            if item.available_at is not None:
                self._check_due(item.available_at, at)
            if reason := _hindrance(item, queues.get(item.queue), is_rolled_back_on_duplicate):
                raise errors.CrossShard(
                    f"Queue {item.queue} is reached through the outbox, and {reason}",
                    failed=("item", at),
                )
        _, refused = await self._items.sort(items, queues, chosen=chosen)
        if refused:
            raise failed_item(refused)

    def _check_due(self, due: datetime, at: int) -> None:
        """Raise if PostgreSQL would reject the time on arrival, after the transaction."""
        most = self._most_delay
        if due.astimezone(UTC) - datetime.now(UTC) > most:
            raise errors.InvalidItem(
                f"availableAt is more than {most.total_seconds():.0f} s ahead", failed=("item", at)
            )

    async def _queues(self, names: set[str]) -> dict[str, Queue]:
        """The options of queues that exist. If the database is unavailable, those last known."""
        try:
            found = await self._catalogue.queues(names)
            if missing := names - found.keys():
                for name in await self._store.queues.moved(missing):
                    raise errors.SlotMoved(f"queue {name} is in another database now")
        except (errors.DatabaseUnavailable, errors.OutcomeUnknown) as error:
            found = self._catalogue.remembered(names)
            if names - found.keys():
                raise errors.DatabaseUnavailable(f"the options of a queue: {error}") from error
        return found

    async def store(self, items: Sequence[PushItem], producer: Producer) -> dict[int, str]:
        """
        Store a batch, unless it is stored. Returns the reasons for items that can't be stored.

        If there are any, no item of the batch is stored by this call, but an earlier one may have
        stored it. Raises SequenceReused if the batch was abandoned.
        """
        parts, refused = await self._pusher.prepare(items, is_admitted=True, producer=producer)
        if not refused:
            await self._pusher.store_numbered(
                parts, producer._replace(digest=digest_of(items)), items
            )
        return {at: each.error or each.code or "" for at, each in refused.items()}

    async def abandon(self, queue: str, producer: Producer) -> bool:
        """Make sure that a batch is not stored later. Returns False if it is stored."""
        return await self._store.forwards.abandon(queue, producer.key, producer.sequence)


def _hindrance(
    item: PushItem, queue: Queue | None, is_rolled_back_on_duplicate: bool
) -> str | None:
    """Why a transaction of another database can't send an item here."""
    if item.transaction_id is not None and is_rolled_back_on_duplicate:
        return 'onDuplicate "rollback" can\'t compare a transactionId in another database.'
    if queue is not None and queue.max_size:
        return "its maxSize can't be checked together with the acknowledgments."
    if queue is not None and queue.is_encrypted:
        return "it is encrypted, but the outbox is not."
    return None
