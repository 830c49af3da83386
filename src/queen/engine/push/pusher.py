"""Batches pushes: one segment per partition, one transaction for all."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from queen import errors
from queen.codec.names import check_queue_name
from queen.engine.caches.catalogue import Queue
from queen.engine.core import Core
from queen.engine.push.batches import PartitionBatch, PendingPush, PushResult
from queen.engine.push.first_outcomes import FirstOutcome
from queen.engine.push.items import ItemChecks, refusal
from queen.engine.push.layout import SegmentLayout
from queen.engine.push.producers import Producer, is_another, stale
from queen.engine.push.queue_sizes import QueueSizes
from queen.engine.push.writer import Writer, contended
from queen.engine.runtime.batcher import Batcher
from queen.meters import Histogram
from queen.store.connection.database import Record
from queen.store.messages import Push
from queen.wire.messages import Pushed, PushItem
from queen.wire.problems import Detail


class _Rejected(Exception):
    """The call rejected its part besides the messages."""


class _Contended(Exception):
    """Units of one flush were rejected too often, maybe because of one of them."""


class Pusher:
    """Splits requests by partition, and stores pushes in as few transactions as possible."""

    def __init__(self, core: Core) -> None:
        self._store = core.store
        self._settings = settings = core.settings
        self._catalogue = core.catalogue
        self._sealer = core.sealer
        self._combiner = core.combiner
        self._writer = Writer(core)
        self._backlogs = QueueSizes(core.store, settings)
        self.flushed = Histogram()
        """Messages per flush."""
        self._items = ItemChecks(settings, has_dedup=core.store.queues.dedup_seconds > 0)
        self._batcher = Batcher[PendingPush](
            self._flush,
            max_flushes=settings.push_lanes,
            max_units=settings.segment_max_messages,
            max_bytes=settings.flush_max_bytes,
            max_queued=settings.max_queued_requests,
            max_queued_bytes=settings.max_queued_bytes,
        )

    async def close(self) -> None:
        await self._batcher.close()

    async def push(
        self,
        items: Sequence[PushItem],
        *,
        producer: Producer | None = None,
        is_json: bool = False,
    ) -> PushResult:
        """Store the items durably before this returns."""
        if (part := self._plain(items, is_json)) is not None:
            unit = PendingPush((part,), producer=producer)
            self._batcher.submit(unit)
            await unit.done
            if producer is not None and unit.is_replayed:
                return await self.repeated(producer, items)
            return PushResult(len(items), unit.parts, {})
        parts, refused = await self.prepare(items, producer=producer)
        if producer is not None:
            if refused:
                raise all_problems(refused)
            return await self.store_numbered(parts, producer, items)
        if len(parts) == 1:
            unit = PendingPush(parts)
            self._batcher.submit(unit)
            await unit.done
        elif parts:
            refused.update(await self._push_each(parts))
        return PushResult(len(items), parts, refused)

    async def store_numbered(
        self, parts: Sequence[PartitionBatch], producer: Producer, items: Sequence[PushItem]
    ) -> PushResult:
        """Store the parts of a producer's request, all or none, once."""
        unit = PendingPush(parts, producer=producer)
        self._batcher.submit(unit)
        await unit.done
        if unit.is_replayed:
            return await self.repeated(producer, items)
        return PushResult(len(items), parts, {})

    def _plain(self, items: Sequence[PushItem], is_json: bool) -> PartitionBatch | None:
        """The part of a request that needs no sorting, if its partition is known."""
        if not items:
            return None
        first = items[0]
        name = (first.queue, first.partition, first.priority or 0)
        queue = self._catalogue.known(first.queue)
        if queue is None or queue.max_size or self._catalogue.partition(name) is None:
            return None
        if first.priority and queue.is_ordered:
            return None
        if queue.is_encrypted and not self._sealer.keyring:
            return None
        return self._items.plain(items, name, queue, is_json)

    async def repeat(
        self, producer: Producer | None, items: Sequence[PushItem]
    ) -> PushResult | None:
        """
        The first outcome, if this is the last request of the producer and it was applied.

        Raises SequenceReused if the producer's last request had the same number and other contents.
        """
        if producer is None:
            return None
        row = await self._store.messages.last_request(producer.id, producer.scope)
        if row is None or row["sequence"] != producer.sequence:
            return None
        if is_another(producer, row["digest"]):
            raise errors.SequenceReused(
                f"Producer {producer.id} used sequence {producer.sequence} for another request, "
                "so this one was not applied. Send it under a new sequence number."
            )
        return FirstOutcome(row, producer, items)

    async def repeated(self, producer: Producer, items: Sequence[PushItem]) -> PushResult:
        """The first outcome of a request that was already applied."""
        result = await self.repeat(producer, items)
        if result is None:
            raise stale(producer)  # Its producer has continued since.
        return result

    async def _push_each(self, parts: Sequence[PartitionBatch]) -> dict[int, Pushed]:
        """The parts of one request are independent: if one fails, the others are stored."""
        units = [PendingPush((part,)) for part in parts]
        self._batcher.submit(*units)
        outcomes = await asyncio.gather(*(unit.done for unit in units), return_exceptions=True)
        if failure := errors.worst(outcomes):
            raise failure
        refused: dict[int, Pushed] = {}
        for part, outcome in zip(parts, outcomes, strict=True):
            if isinstance(outcome, errors.QueenError):
                refused.update(dict.fromkeys(part.all_items, refusal(outcome)))
        return refused

    async def prepare(
        self,
        items: Sequence[PushItem],
        *,
        chosen: Sequence[int] | None = None,
        is_admitted: bool = False,
        producer: Producer | None = None,
    ) -> tuple[list[PartitionBatch], dict[int, Pushed]]:
        """
        Check the items and sort them by partition. Rejected items get their result.

        ``chosen``: the indexes of the items to store. Default: all. ``is_admitted``: they were
        accepted earlier, so the queue's size, its schema and their size are not checked.
        """
        names = {
            item.queue for item in (items if chosen is None else map(items.__getitem__, chosen))
        }
        queues = {name: queue for name in names if (queue := self._catalogue.known(name))}
        if len(queues) < len(names):
            for name in names:
                check_queue_name("queue", name, self._settings.max_name_bytes)
            queues = await self._catalogue.queues(names)
            if not self._settings.auto_create and (missing := names - queues.keys()):
                for name in await self._store.queues.moved(missing):
                    raise errors.SlotMoved(f"queue {name} is in another database now")
        parts, refused = await self._items.sort(
            items, queues, chosen=chosen, is_admitted=is_admitted, producer=producer
        )
        for queue in queues.values():
            if queue.max_size and not is_admitted:
                parts = await self._leave_out_full(queue, parts, refused)
            if queue.is_encrypted and not is_admitted:
                parts = await self._leave_out_unsealed(queue, parts, refused)
        return parts, refused

    async def check(self, items: Sequence[PushItem]) -> None:
        """Raise the reasons for which a push would reject some of the items."""
        _, refused = await self.prepare(items)
        if refused:
            raise all_problems(refused)

    async def admit(self, items: Sequence[PushItem]) -> dict[int, Pushed]:
        """
        Check items that are stored later. Rejected items get their result.

        The database is unavailable, so this uses the cached options of their queues.
        """
        queues = self._catalogue.remembered({item.queue for item in items})
        if not self._settings.auto_create and any(item.queue not in queues for item in items):
            raise errors.DatabaseUnavailable(
                "the database is unavailable, and a queue is not cached"
            )
        _, refused = await self._items.sort(items, queues)
        for index, item in enumerate(items):
            queue = queues.get(item.queue)
            if queue is not None and queue.is_encrypted and not self._sealer.keyring:
                # With a master key the whole buffer is encrypted. Without one, this item must not
                # be on disk.
                error = errors.EncryptionUnavailable(
                    "the queue is encrypted, but this server has no master key"
                )
                refused.setdefault(index, refusal(error))
        return refused

    def known_seconds(self, items: Sequence[PushItem]) -> list[float]:
        """How long the database would recognise each item by its transactionId, 0 if not at all."""
        queues = self._catalogue.remembered({item.queue for item in items})
        default = self._store.queues.dedup_seconds
        return [
            0.0
            if item.transaction_id is None
            else queues[item.queue].dedup_seconds
            if item.queue in queues
            else default
            for item in items
        ]

    async def _leave_out_full(
        self, queue: Queue, parts: list[PartitionBatch], refused: dict[int, Pushed]
    ) -> list[PartitionBatch]:
        of_queue = [part for part in parts if part.queue == queue.name]
        items = [item for part in of_queue for item in part.all_items]
        if not items or await self._backlogs.admits(queue, len(items)):
            return parts
        answer = refusal(
            errors.QueueFull(f"queue {queue.name} has its maximum of {queue.max_size} messages")
        )
        refused.update(dict.fromkeys(items, answer))
        return [part for part in parts if part.queue != queue.name]

    async def _leave_out_unsealed(
        self, queue: Queue, parts: list[PartitionBatch], refused: dict[int, Pushed]
    ) -> list[PartitionBatch]:
        """Leave out items of encrypted queues without a key: plain text must not be stored."""
        try:
            await self._sealer.check(queue.id)
        except errors.EncryptionUnavailable as error:
            items = [each for p in parts if p.queue == queue.name for each in p.all_items]
            refused.update(dict.fromkeys(items, refusal(error)))
            return [part for part in parts if part.queue != queue.name]
        except errors.QueueNotFound:
            self._catalogue.forget_options([queue.id])  # Deleted, maybe replaced.
        except errors.SlotMoved:
            pass  # The call that stores the messages fails, and names the slots that have moved.
        return parts

    async def _flush(self, units: list[PendingPush]) -> None:
        """Store the units. A rejection affects one unit. After any other error, store each half."""
        while units:
            taken, units = _one_per_producer(units)
            try:
                await self._store_units(taken)
            except Exception as error:
                if _concerns_all(error):
                    for unit in (*taken, *units):
                        unit.fail(error)
                    return
                if len(taken) == 1:
                    taken[0].fail(error)
                    continue
                # Halving finds the cause in few steps and stores the others in batches.
                left = [unit for unit in taken if not unit.done.done()]
                half = len(left) // 2
                await self._flush(left[:half])
                await self._flush(left[half:])

    async def _store_units(self, units: list[PendingPush]) -> None:
        """Store the units together. Units of a queue with a problem fail separately."""
        rows = await self._writer.write(units, self._send, leave_out=_leave_out, has_windows=True)
        if rows is None:
            left = [unit for unit in units if not unit.done.done()]
            if len(left) > 1:
                raise _Contended
            raise contended("the push")
        messages = 0
        for unit in units:
            if not unit.done.done():
                for part in unit.parts:
                    messages += len(part.items)
                unit.finish()
        self.flushed.observe(messages)

    async def _send(self, push: Push) -> list[Record]:
        return [] if push.is_empty else await self._combiner.push(push)

    async def store_with(
        self,
        parts: Sequence[PartitionBatch],
        send: Callable[[Push], Awaitable[list[Record]]],
        *,
        refusal_kind: str,
    ) -> int | None:
        """
        Store parts by a call that also makes another change, both or neither.

        Returns the number of messages, or None if the call rejected the other change, which it
        reports as a row of ``refusal_kind``.
        """

        async def retry(layout: SegmentLayout, rows: Sequence[Record]) -> list[PendingPush]:
            if rows[0]["kind"] == refusal_kind:
                raise _Rejected
            return layout.without(rows, self._catalogue)

        units = [PendingPush(parts)] if parts else []
        try:
            rows = await self._writer.write(units, send, retry=retry)
        except _Rejected:
            return None
        if rows is None:
            raise contended("the write")
        return sum(len(part.items) for part in parts)

    @property
    def flush_seconds(self) -> Histogram:
        return self._batcher.seconds


def _concerns_all(error: Exception) -> bool:
    """Whether another call with some of the units would fail too."""
    return isinstance(error, errors.ServiceError | errors.OutcomeUnknown) and not isinstance(
        error, errors.SlotMoved
    )


def _leave_out(
    units: list[PendingPush], problems: Mapping[str, errors.QueenError]
) -> list[PendingPush]:
    """Leave out the units of queues with a problem."""
    left: list[PendingPush] = []
    for unit in units:
        if lost := [part.queue for part in unit.parts if part.queue in problems]:
            unit.fail(problems[lost[0]])
        else:
            left.append(unit)
    return left


def _one_per_producer(units: list[PendingPush]) -> tuple[list[PendingPush], list[PendingPush]]:
    """Leave later requests of a producer for another call, which sees the first one."""
    taken: list[PendingPush] = []
    later: list[PendingPush] = []
    producers: set[str] = set()
    for unit in units:
        if unit.producer is not None:
            if unit.producer.key in producers:
                later.append(unit)
                continue
            producers.add(unit.producer.key)
        taken.append(unit)
    return taken, later


def all_problems(refused: dict[int, Pushed]) -> errors.QueenError:
    """The error of the first rejected item, with the reasons of all."""
    error = first_problem(refused)
    error.members["errors"] = [
        Detail(pointer=f"/items/{at}", detail=each.error or each.code or "refused")
        for at, each in sorted(refused.items())
    ]
    return error


def first_problem(refused: dict[int, Pushed]) -> errors.QueenError:
    """The error of the first rejected item, for requests that are applied as a whole."""
    first = refused[min(refused)]
    return (errors.of_code(first.code or "") or errors.InvalidItem)(first.error)


def failed_item(refused: dict[int, Pushed]) -> errors.QueenError:
    """The same error for a transaction, which names the item."""
    error = first_problem(refused)
    error.members["failed"] = ("item", min(refused))
    return error
