"""The engine: opens the parts beside it; one method a verb."""

import contextlib
import logging
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Self

from queen import errors, telemetry
from queen.codec.encryption.sealing import seal
from queen.codec.ids import Lease
from queen.codec.names import QUEUE_MODE, check_name, check_queue_name
from queen.engine.buffer.fallback import Outages
from queen.engine.buffer.file_buffer import FileBuffer
from queen.engine.buffer.replayer import Replays
from queen.engine.buffer.retry_window import Doubts
from queen.engine.caches.catalogue import Catalogue
from queen.engine.caches.queue_lookup import Owners
from queen.engine.caches.segments import SegmentCache
from queen.engine.encryption.rotation import keyring_of
from queen.engine.encryption.sealer import Seals
from queen.engine.inspect.redact import forget_redacted, redact
from queen.engine.metrics.counters import Counters
from queen.engine.pop.delivery import Delivery
from queen.engine.pop.popper import Pops
from queen.engine.pop.wakeups import Wakeups
from queen.engine.push.batches import PushResult
from queen.engine.push.producers import SHARED, Producer, digest_of
from queen.engine.push.pusher import Pushes
from queen.engine.push.queue_sizes import Backlogs
from queen.engine.settle.acknowledgments import Acknowledgments
from queen.engine.settle.outcome_waiters import MessageEndings
from queen.engine.settle.results import Results
from queen.engine.settle.settler import Acks
from queen.engine.sources.outbox import Appender
from queen.engine.sources.schedules import Schedules
from queen.engine.sources.workflows import Workflows
from queen.engine.transactions import Transactions
from queen.meters import Snapshot
from queen.settings import Settings
from queen.store.connection.database import Record
from queen.store.connection.options import Connecting
from queen.store.store import Store
from queen.wire.messages import (
    Acknowledged,
    Acknowledgment,
    AdvanceOperation,
    Extended,
    PopRequest,
    PushItem,
)

_LOG: Final = logging.getLogger("queen.engine")
_ROUNDS: Final = 10
_STEP = 1_000
"""Partitions that seek, purge and erase visit in one transaction."""


class Engine:
    """
    Everything that one process does with one database.

    Usage::

        async with await Engine.open(dsn) as engine:
            await engine.push([PushItem(queue="orders", payload=b'{"n":1}')])
            (delivery,) = await engine.pop(PopRequest(queue="orders", wait=True))
            await engine.ack(delivery.lease_id)
    """

    def __init__(self, store: Store, settings: Settings, buffer: FileBuffer | None = None) -> None:
        self.store = store
        self.settings = settings
        self.buffer = buffer
        self.catalogue = Catalogue(store, settings)
        self.owners = Owners(store, settings)
        self.cache = SegmentCache(settings.segment_cache_bytes)
        self.counters = Counters(settings.metrics_max_queues)
        self.seals = Seals(store, settings, self.catalogue)
        self._pops = Pops(
            store,
            settings,
            self.cache,
            self.counters,
            self.catalogue,
            self.seals,
            wake=lambda ids: self.wakeups.tell_groups(ids),
        )
        waiters = self._pops.waiters
        store.database.changed = self._change_server
        store.database.returned = self._return
        self.wakeups = Wakeups(
            store,
            settings,
            self.catalogue,
            waiters,
            forget=self._forget,
            append=lambda: self.appender.wake(),
            see_to_schedules=lambda: self.schedules.wake(),
            see_to_workflows=lambda: self.workflows.endings.wake(),
            search_again=self._pops.search_again,
        )
        self.results = Results(
            store,
            settings,
            self.catalogue,
            self.owners,
            self.seals,
            changed=self._take_away,
        )
        self.endings = MessageEndings(self.results, settings)
        self._acks = Acks(
            store,
            settings,
            self.counters,
            wake=self.wakeups.tell_groups,
            settled=self.endings.stir,
        )
        self._acknowledgments = Acknowledgments(store, settings, self._acks, self.results)
        self._pushes = Pushes(
            store,
            settings,
            self.catalogue,
            self.cache,
            Backlogs(store, settings),
            self.counters,
            self.seals,
            wake=self.wakeups.tell,
        )
        doubts = Doubts(store, settings)
        self.outages = Outages(self._pushes, buffer, doubts)
        self.replays: Replays | None = None
        if buffer is not None:
            self.replays = Replays(
                buffer,
                store,
                settings,
                self.catalogue,
                self.cache,
                self._pushes,
                self.seals,
                doubts,
                tell=self.wakeups.tell,
            )
        self.appender = Appender(store, settings, self._pushes, self.seals)
        self.schedules = Schedules(
            store,
            settings,
            self.catalogue,
            self._pushes,
            self.seals,
            tell_of_change=self.wakeups.change_schedules,
        )
        self.workflows = Workflows(
            store,
            settings,
            self.catalogue,
            self.results,
            tell_of_end=self.wakeups.tell_of_workflows,
        )
        self._transactions = Transactions(
            store,
            settings,
            self.catalogue,
            self.cache,
            self._pushes,
            self._acknowledgments,
            self.counters,
            self.seals,
            self.workflows,
            wake_queues=self.wakeups.tell,
            wake_groups=self.wakeups.tell_groups,
            settled=self.endings.stir,
        )

    @classmethod
    async def open(
        cls,
        dsn: str,
        *,
        settings: Settings | None = None,
        shard: int = 0,
        connections: int | None = None,
        is_pooled: bool | None = None,
        defaults: dict[str, Any] | None = None,
        buffer: FileBuffer | None = None,
        is_away: bool = False,
        is_warmed: bool = False,
    ) -> Self:
        """
        Connect, and begin to listen. The database must be migrated.

        ``is_warmed``: connections plan what is hot before they are used, as a server wants it.

        ``buffer``: where pushes go while it is away, if not the one that the settings ask for.
        """
        settings = settings or Settings()
        keyring_of(settings)  # A malformed key is told before anything is opened.
        connecting = Connecting(
            connections=connections or settings.db_pool_size,
            is_pooled=settings.db_pgbouncer if is_pooled is None else is_pooled,
            application_name=settings.app_name,
            idle_seconds=settings.db_idle_timeout_ms / 1000,
            timeout_seconds=settings.db_connection_timeout_ms / 1000,
            statement_seconds=settings.db_statement_timeout_ms / 1000,
            max_retries=settings.db_max_retries,
            is_warmed=is_warmed,
        )
        async with contextlib.AsyncExitStack() as opened:
            store = await Store.open(
                dsn, shard=shard, connecting=connecting, defaults=defaults, is_away=is_away
            )
            opened.push_async_callback(store.close)
            if buffer is None and (buffer := FileBuffer.open(settings)) is not None:
                opened.push_async_callback(buffer.close)
            engine = cls(store, settings, buffer)
            engine.start()
            opened.pop_all()  # From here on `close` closes them.
        return engine

    def start(self) -> None:
        """Begin to listen and to poll, slowly."""
        self.wakeups.start()
        self.appender.start()
        self.schedules.start()
        self.endings.start()
        self.workflows.endings.start()
        if self.replays is not None:
            self.replays.start()

    async def close(self) -> None:
        """Answer those who wait, finish what was taken, let go of the database."""
        # The last one entered is closed first; one that fails keeps none of the others open.
        async with contextlib.AsyncExitStack() as stack:
            if self.buffer is not None:
                stack.push_async_callback(self.buffer.close)
            stack.push_async_callback(self.store.close)
            for part in (self.wakeups, self._acks, self._pushes, self.workflows.endings):
                stack.push_async_callback(part.close)
            for part in (self.schedules, self.appender, self.replays):
                if part is not None:
                    stack.push_async_callback(part.close)
            stack.push_async_callback(self.stop_waiting)

    async def stop_waiting(self) -> None:
        """Answer those who wait, and let no pop begin: what comes before `close`."""
        self.workflows.endings.release()
        try:
            await self.endings.close()
        finally:
            await self._pops.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def waiting(self) -> int:
        """How many pops are asleep."""
        return self._pops.waiting

    async def learn_clock(self) -> None:
        """See how far the database's clock is from ours, before anything is counted by it."""
        (row,) = await self.store.database.fetch("now")
        self.counters.stored(row["now"])

    async def store_counters(self) -> bool:
        """Store what was counted since the last time; False when there was nothing."""
        found = self.counters.rows()
        if found is None:
            return False
        (row,) = await self.store.database.fetch("count", self.counters.process, *found)
        self.counters.stored(row["now"])
        return True

    async def snapshot(self) -> Snapshot:
        """All that this process counts of its engine and its database."""
        if nameless := self.counters.nameless:
            with contextlib.suppress(errors.ServiceError, errors.OutcomeUnknown):
                named = await self.store.database.fetch("group_names", nameless)
                self.counters.name(nameless, named)
        snapshot = Snapshot()
        self.counters.fill(snapshot)
        for pair, count in self._pops.waiters.waiting(self.settings.metrics_max_queues).items():
            snapshot.add(telemetry.WAITERS, count, *pair)
        for kind, part in (("push", self._pushes), ("pop", self._pops), ("ack", self._acks)):
            snapshot.add_histogram(telemetry.FLUSH_SECONDS, part.flush_seconds, kind)
            snapshot.add_histogram(telemetry.FLUSH_MESSAGES, part.flushed, kind)
        snapshot.add(telemetry.CACHE_BYTES, self.cache.size_bytes)
        snapshot.add(telemetry.CACHE_HITS, self.cache.hits)
        snapshot.add(telemetry.CACHE_MISSES, self.cache.misses)
        self.store.database.fill(snapshot)
        self.outages.fill(snapshot)
        return snapshot

    async def push(
        self,
        items: Sequence[PushItem],
        *,
        producer_id: str | None = None,
        sequence: int | None = None,
        scope: str = SHARED,
        digest: bytes | None = None,
        is_json: bool = False,
    ) -> PushResult:
        """
        Store messages, durably; one answer an item. With a producer id: all or nothing, once.

        ``scope``: which callers share the producer. ``digest``: of the request, if the items are
        not as they were sent.

        While the database is away they go to the file buffer, if there is one.
        ``is_json``: the payloads were parts of one JSON text that was valid, in UTF-8.
        """
        producer = None
        if producer_id is not None or sequence is not None:
            producer = self._producer(producer_id, sequence, scope)
            if producer is not None:
                producer = producer._replace(digest=digest or digest_of(items))
        return await self.outages.push(items, producer=producer, is_json=is_json)

    async def pop(self, request: PopRequest) -> list[Delivery]:
        """Claim messages, waiting for them if asked to."""
        return await self._pops.pop(request)

    async def give_back(self, deliveries: Sequence[Delivery]) -> None:
        """Release deliveries that their consumer was not sent; no attempt is counted."""
        await self._pops.give_back(deliveries)

    async def ack(self, lease_id: str, offsets: Sequence[int] | None = None) -> int:
        """Settle a delivery, or these offsets of it; answers how many messages that settled."""
        return await self._acks.ack(Lease.parse(lease_id), offsets)

    async def acknowledge(
        self, acknowledgments: Sequence[Acknowledgment], *, consumer_group: str | None = None
    ) -> list[Acknowledged]:
        """Say of each message what became of it: completed, failed, retry or dlq."""
        return await self._acknowledgments.acknowledge(acknowledgments, consumer_group)

    async def extend(self, lease_id: str, *, seconds: float | None = None) -> datetime:
        """Move the end of a lease, by default to the queue's lease time; never shortens it."""
        (result,) = await self.extend_many([lease_id], seconds=seconds)
        if result.expires_at is None:
            raise errors.LeaseLost(result.error)
        return result.expires_at

    async def extend_many(
        self, lease_ids: Sequence[str], *, seconds: float | None = None
    ) -> list[Extended]:
        """Move the ends of several leases; one answer each."""
        return await self._acks.extend(lease_ids, seconds)

    async def release(self, lease_id: str) -> None:
        """Give back what is left of a delivery, at once and uncounted."""
        await self._acks.release(Lease.parse(lease_id))

    async def release_delivery(self, queue_id: int, ref: str) -> None:
        """The same by an operator, who has no token; raises LeaseLost where nobody holds it."""
        shard, _, number = ref.partition(".")
        # As many digits as an id can have.
        is_ours = shard == str(self.store.shard) and re.fullmatch(r"[0-9]{1,18}", number)
        token = await self.store.queues.delivery_token(queue_id, int(number)) if is_ours else None
        if token is None:
            raise errors.LeaseLost(f"nobody holds delivery {ref} of this queue any more")
        await self._acks.release(Lease(self.store.shard, int(number), token))

    async def transact(
        self,
        *,
        acknowledgments: Sequence[Acknowledgment] = (),
        items: Sequence[PushItem] = (),
        advances: Sequence[AdvanceOperation] = (),
        required_leases: Sequence[str] = (),
        consumer_group: str | None = None,
        is_rolled_back_on_duplicate: bool = False,
        producer_id: str | None = None,
        sequence: int | None = None,
        scope: str = SHARED,
        digest: bytes | None = None,
    ) -> PushResult:
        """Acks, pushes and steps of workflows, all applied or none."""
        producer = self._producer(producer_id, sequence, scope)
        if producer is not None:
            told = (acknowledgments, advances, required_leases, consumer_group)
            digest = digest or digest_of(items, *told, is_rolled_back_on_duplicate)
            producer = producer._replace(digest=digest)
        try:
            result = await self._transactions.transact(
                acknowledgments=acknowledgments,
                items=items,
                advances=advances,
                required_leases=required_leases,
                consumer_group=consumer_group,
                is_rolled_back_on_duplicate=is_rolled_back_on_duplicate,
                producer=producer,
            )
        except errors.QueenError as error:
            self.counters.count_transaction("unknown" if error.applied is None else "refused")
            raise
        self.counters.count_transaction("replayed" if result.is_replayed else "applied")
        return result

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
        """Make a queue or change the options named; None stands for the default."""
        most = self.settings.max_name_bytes
        check_queue_name("queue", queue, most)
        for what, name in (("namespace", namespace), ("task", task)):
            if name:
                check_name(what, name, most)
        row = await self.store.queues.configure(
            queue,
            namespace=namespace,
            task=task,
            options=options or {},
            is_replaced=is_replaced,
            version=version,
        )
        self.wakeups.change(row["id"])
        return row

    async def queue_row(self, queue: str) -> Record:
        """A queue with its options, from the database."""
        rows = await self.store.queues.named([queue])
        if not rows:
            raise errors.QueueNotFound(f"there is no queue {queue}")
        return rows[0]

    async def configure_partition(self, queue: str, partition: str, *, priority: int) -> None:
        """Set a partition's priority inside its queue: higher first."""
        await self.store.queues.configure_partition(queue, partition, priority=priority)

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
        """Move a group: to the first message after an instant, the end, the start, or an offset."""
        if [to is not None, to_end, to_start, offset is not None].count(True) != 1:
            raise errors.BadRequest("seek needs one of: a time, the end, the start, an offset")
        if offset is not None and partition is None:
            raise errors.BadRequest("an offset belongs to a partition")
        at = to
        if to_start:
            at = datetime.min.replace(tzinfo=UTC)
        elif to_end and partition is None:
            # One instant for all steps, by the database's clock.
            at = (await self.store.database.fetch("now"))[0]["now"]
        after: int | None = None
        while True:
            after = await self.store.groups.seek(
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
        self.wakeups.tell({(await self.catalogue.queue(queue)).id})

    async def purge(
        self,
        queue: str,
        *,
        partition: str | None = None,
        is_completed: bool = False,
        before: datetime | None = None,
    ) -> int:
        """Remove messages: all, or those that every group has settled. Answers how many."""
        total = 0
        after: int | None = None
        while step := await self.store.queues.purge(
            queue,
            partition=partition,
            is_completed=is_completed,
            before=before,
            after=after,
            limit=_STEP,
        ):
            after, messages = step
            total += messages
        return total

    async def delete_queue(self, queue: str) -> None:
        """The queue is gone at once; its rows go in steps."""
        await self.drop_queue(queue)
        await self._erase()

    async def drop_queue(self, queue: str) -> None:
        """The queue is gone at once; its rows are for `erase_step` to remove."""
        # Who waits for it waits for the next queue of that name from now on.
        self.wakeups.change(await self.store.queues.delete(queue))
        self.owners.forget(queue)

    async def delete_group(self, queue: str, consumer_group: str | None) -> None:
        """The group is gone at once; the next pop makes it anew."""
        await self.drop_group(queue, consumer_group)
        await self._erase()

    async def drop_group(self, queue: str, consumer_group: str | None) -> None:
        """The group is gone at once; its rows are for `erase_step` to remove."""
        await self.store.groups.delete(queue, consumer_group or QUEUE_MODE)
        self.wakeups.tell({(await self.catalogue.queue(queue)).id})

    async def erase_step(self) -> bool:
        """Remove some rows of what was deleted; True when nothing is left."""
        return await self.store.queues.erase(_STEP)

    async def dead_letters(
        self,
        queue: str,
        *,
        consumer_group: str | None = None,
        after: int = 0,
        limit: int = 100,
    ) -> list[dict[str, Any]]:
        """Messages of a queue that gave up, oldest first."""
        found = await self.catalogue.queue(queue)
        rows = await self.store.dead_letters.of_queue(
            found.id, after=after, group=consumer_group, limit=limit
        )
        return await self.seals.open_rows(rows)

    async def redrive(self, ids: Sequence[int]) -> list[int]:
        """Deliver dead letters again, to the group that gave up; answers which were."""
        redriven = await self.store.dead_letters.redrive(ids)
        for row in redriven:
            self.counters.group(row["group_id"]).redriven += 1
        self.wakeups.tell_groups({row["group_id"] for row in redriven})
        return [row["id"] for row in redriven]

    async def redrive_to(
        self,
        ids: Sequence[int],
        payloads: Sequence[bytes],
        extras: Sequence[bytes | None],
        queue: str,
        partition: str,
    ) -> list[int]:
        """Push dead letters as new messages to a partition, which is made if need be."""
        for _ in range(_ROUNDS):
            moved = await self._redrive_to(ids, payloads, extras, queue, partition)
            if moved is not None:
                return moved
        raise errors.Overloaded(f"partition {partition} was removed again and again; try later")

    async def _redrive_to(
        self,
        ids: Sequence[int],
        payloads: Sequence[bytes],
        extras: Sequence[bytes | None],
        queue: str,
        partition: str,
    ) -> list[int] | None:
        """The same once; None when the partition was removed meanwhile."""
        await self.catalogue.queue(queue)
        name = (queue, partition, 0)
        await self.catalogue.lanes([name])
        lane = self.catalogue.lane(name)
        if lane is None:
            raise errors.QueueNotFound(f"there is no queue {queue}")
        data_keys, problems = await self.seals.keys({queue: len(ids)})
        for problem in problems.values():
            raise problem
        sealed = payloads, extras
        if (key := data_keys.get(lane.queue_id)) is not None:
            sealed = seal(key, self.store.shard, lane.partition_id, payloads, extras)
        try:
            moved = await self.store.dead_letters.redrive_to(ids, *sealed, lane.partition_id)
        except errors.EncryptionUnavailable:
            self.catalogue.forget_options([lane.queue_id])  # Encrypted since they were read.
            raise
        except errors.PartitionNotFound:
            # Removed since it was read: it is made anew, unless its queue is gone as well.
            self.catalogue.forget_lanes([lane.partition_id])
            return None
        self.wakeups.tell({lane.queue_id})
        return moved

    async def retry(self, partition_id: int, offset: int, consumer_group: str | None) -> None:
        """A message that waits for its next attempt, or is a dead letter, may be popped now."""
        group_id = await self.store.browse.retry(partition_id, offset, consumer_group or QUEUE_MODE)
        if group_id is None:
            raise errors.NotRetryable("the message neither waits for an attempt nor is it dead")
        self.wakeups.tell_groups({group_id})

    async def give_up(
        self, partition_id: int, offset: int, consumer_group: str | None, error: str | None
    ) -> None:
        """Make a message a dead letter of one group."""
        group_id: int | None = None
        while group_id is None:
            group_id = await self.store.browse.give_up(
                partition_id, offset, consumer_group or QUEUE_MODE, error
            )
        self.wakeups.tell_groups({group_id})

    async def redact(self, partition_id: int, offset: int, *, by: str) -> None:
        """Erase the payload and headers of a message, here and in the database."""
        await redact(self.store, self.cache, partition_id, offset, by=by)
        self.wakeups.tell_modes()

    async def forget_redacted(self, after: int) -> None:
        """Drop from memory what other processes have erased since this redaction."""
        await forget_redacted(self.store, self.cache, after)

    def hold_pushes(self, is_held: bool) -> None:
        """Maintenance begins or ends: pushes go to disk and stay there, or are stored again."""
        if is_held == self.outages.is_held:
            return
        self.outages.is_held = is_held
        if self.replays is not None:
            self.replays.is_held = is_held
            self.replays.wake()

    def send_home(self) -> None:
        """Answer those who wait with nothing; they may come again."""
        for unit in self._pops.waiters.all_units():
            unit.finish([])

    def _producer(
        self, producer_id: str | None, sequence: int | None, scope: str
    ) -> Producer | None:
        """The producer that a request names, if any."""
        if producer_id is None and sequence is None:
            return None
        if producer_id is None or sequence is None:
            raise errors.BadRequest("producerId and sequence belong together")
        check_name("producerId", producer_id, self.settings.max_name_bytes)
        if not 0 <= sequence < 2**63:
            raise errors.BadRequest("a sequence is a number from 0 to 2^63 - 1")
        return Producer(producer_id, sequence, scope)

    async def _erase(self) -> None:
        while not await self.erase_step():
            pass

    def _take_away(self, group_ids: Iterable[int]) -> None:
        """A message was cancelled: others have room, and somebody may wait for its end."""
        self.wakeups.tell_groups(set(group_ids))
        self.endings.stir()

    def _forget(self) -> None:
        """Whatever was remembered of the database may not be so any more."""
        self._pops.forget_marks()
        self.catalogue.forget_options()
        self.cache.clear()

    def _return(self) -> None:
        """The database is back: who waits searches, and what is on disk is stored."""
        self._pops.forget_marks()
        self._pops.waiters.wake_all()
        self.appender.wake()
        if self.replays is not None:
            self.replays.wake()

    def _change_server(self) -> None:
        """Another server, or another history: ids may mean something else there."""
        self._forget()
        self.catalogue.forget()
        self.seals.forget()
        self._pops.forget_groups()
        self._pops.waiters.wake_all()
