"""The engine: creates its parts, and has one method per operation."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any, Self

from queen import errors, telemetry
from queen.codec.ids import Lease, id_of
from queen.codec.names import check_name
from queen.engine.buffer.fallback import PushFallback
from queen.engine.buffer.file_buffer import FileBuffer
from queen.engine.buffer.replayer import Replayer
from queen.engine.buffer.retry_window import RetryWindow
from queen.engine.caches.queue_lookup import QueueLookup
from queen.engine.core import Core
from queen.engine.encryption.rotation import keyring_of
from queen.engine.inspect.redact import forget_redacted, redact
from queen.engine.pop.delivery import Delivery
from queen.engine.pop.popper import Popper
from queen.engine.pop.safety_poll import SafetyPoll
from queen.engine.push.arrivals import Arrivals
from queen.engine.push.batches import PushResult
from queen.engine.push.producers import SHARED, Producer, digest_of
from queen.engine.push.pusher import Pusher
from queen.engine.queues import Queues
from queen.engine.runtime.periodic import PeriodicTask
from queen.engine.settle.ack_and_pop import AckAndPop
from queen.engine.settle.acknowledgments import Acknowledger
from queen.engine.settle.dead_letters import DeadLetters
from queen.engine.settle.outcome_waiters import MessageWaiters
from queen.engine.settle.results import Results
from queen.engine.settle.settler import Settler
from queen.engine.sources.forwarder import Forwarder
from queen.engine.sources.outbox import OutboxMover
from queen.engine.sources.schedules import Schedules
from queen.engine.sources.workflows import Workflows
from queen.engine.transactions import Transactions
from queen.meters import Snapshot
from queen.settings import Settings
from queen.store.connection.options import Connecting
from queen.store.messages import Settlement
from queen.store.store import Store
from queen.wire.messages import Acknowledged, Acknowledgment, Extended, PopRequest, PushItem
from queen.wire.transactions import AdvanceOperation


class Engine:
    """
    All operations of one process on one database.

    Usage::

        async with await Engine.open(dsn) as engine:
            await engine.push([PushItem(queue="orders", payload=b'{"n":1}')])
            (delivery,) = await engine.pop(PopRequest(queue="orders", wait=True))
            await engine.ack(delivery.lease_id)
    """

    def __init__(self, store: Store, settings: Settings, buffer: FileBuffer | None = None) -> None:
        self.core = core = Core.of(store, settings)
        self.store, self.settings, self.buffer = store, settings, buffer
        self.signals, self.counters = core.signals, core.counters
        self.catalogue, self.segments, self.sealer = core.catalogue, core.segments, core.sealer
        self.queue_lookup = QueueLookup(store, settings)
        self.results = Results(core, self.queue_lookup)
        self.message_waiters = MessageWaiters(core, self.results)
        self.workflows = Workflows(core, self.results)
        self.queues = Queues(core, self.queue_lookup)
        self.dead_letters = DeadLetters(core)
        self._popper = Popper(core)
        self._safety_poll = SafetyPoll(core, self._popper)
        self._settler = Settler(core)
        self._pusher = Pusher(core)
        self.arrivals = Arrivals(core, self._pusher)
        self.forwarder = Forwarder(core)
        self.outbox_mover = OutboxMover(core, self._pusher, self.forwarder)
        self.schedules = Schedules(core, self._pusher)
        acknowledger = self._acknowledger = Acknowledger(core, self._settler, self.results)
        self._ack_and_pop = AckAndPop(acknowledger, self._settler, self._popper)
        self._transactions = Transactions(core, self._pusher, acknowledger, self.workflows)
        retry_window = RetryWindow(store, settings)
        self.push_fallback = PushFallback(self._pusher, buffer, retry_window)
        self.replayer = Replayer(core, buffer, self._pusher, retry_window) if buffer else None

    @classmethod
    async def open(
        cls,
        dsn: str,
        *,
        settings: Settings | None = None,
        connections: int | None = None,
        is_pooled: bool | None = None,
        defaults: dict[str, Any] | None = None,
        buffer: FileBuffer | None = None,
        is_away: bool = False,
        is_warmed: bool = False,
    ) -> Self:
        """
        Connect to a migrated database and start to listen for notifications.

        ``is_warmed``: plan the hot statements on each new connection, as a server needs.

        ``buffer``: the buffer for pushes in an outage, instead of the one in the settings.
        """
        settings = settings or Settings()
        keyring_of(settings)  # Raise for a malformed key before any resource is opened.
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
            store = await Store.open(dsn, connecting=connecting, defaults=defaults, is_away=is_away)
            opened.push_async_callback(store.close)
            if buffer is None and (buffer := FileBuffer.open(settings)) is not None:
                opened.push_async_callback(buffer.close)
            engine = cls(store, settings, buffer)
            engine.start()
            opened.pop_all()  # From here on `close` closes them.
        return engine

    def start(self) -> None:
        """Start to listen for other processes, and start the background tasks."""
        self.signals.start()
        for task in self._tasks:
            task.start()

    async def close(self) -> None:
        """Finish waiting pops and accepted work, and disconnect from the database."""
        # Closed in reverse order, and each of them even if another fails.
        async with contextlib.AsyncExitStack() as stack:
            if self.buffer is not None:
                stack.push_async_callback(self.buffer.close)
            parts = (self.store, self.signals, self._settler, self._pusher, self.forwarder)
            for part in (*parts, *self._tasks):
                stack.push_async_callback(part.close)
            stack.push_async_callback(self.stop_waiting)

    async def stop_waiting(self) -> None:
        """Finish waiting pops and accept no more. Call this before `close`."""
        self.workflows.waiters.release()
        try:
            await self.message_waiters.close()
        finally:
            await self._popper.close()

    @property
    def _tasks(self) -> list[PeriodicTask]:
        """The background tasks, closed in reverse order."""
        tasks = [self._safety_poll, self.workflows.waiters, self.message_waiters, self.schedules]
        return [*tasks, self.outbox_mover, *([self.replayer] if self.replayer else [])]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def waiting(self) -> int:
        """The number of waiting pops."""
        return self._popper.waiting

    async def learn_clock(self) -> None:
        """Measure the offset of the database's clock before it is used for counts."""
        (row,) = await self.store.database.fetch("now")
        self.counters.stored(row["now"])

    async def store_counters(self) -> bool:
        """Store the counts since the last call. Returns False if there were none."""
        found = self.counters.rows()
        if found is None:
            return False
        (row,) = await self.store.database.fetch("count", self.counters.process, *found)
        self.counters.stored(row["now"])
        return True

    async def snapshot(self) -> Snapshot:
        """All metrics of this process about its engine and its database."""
        if nameless := self.counters.nameless:
            with contextlib.suppress(errors.ServiceError, errors.OutcomeUnknown):
                named = await self.store.database.fetch("group_names", nameless)
                self.counters.name(nameless, named)
        snapshot = Snapshot()
        self.counters.fill(snapshot)
        for pair, count in self._popper.waiters.waiting(self.settings.metrics_max_queues).items():
            snapshot.add(telemetry.WAITERS, count, *pair)
        for kind, part in (("push", self._pusher), ("pop", self._popper), ("ack", self._settler)):
            snapshot.add_histogram(telemetry.FLUSH_SECONDS, part.flush_seconds, kind)
            snapshot.add_histogram(telemetry.FLUSH_MESSAGES, part.flushed, kind)
        snapshot.add(telemetry.CACHE_BYTES, self.segments.size_bytes)
        snapshot.add(telemetry.CACHE_HITS, self.segments.hits)
        snapshot.add(telemetry.CACHE_MISSES, self.segments.misses)
        self.core.combiner.fill(snapshot)
        self.store.database.fill(snapshot)
        self.push_fallback.fill(snapshot)
        return snapshot

    async def push(
        self,
        items: Sequence[PushItem],
        *,
        producer_id: str | None = None,
        sequence: int | None = None,
        scope: str = SHARED,
        digest: bytes | None = None,
        slot: int | None = None,
        is_json: bool = False,
    ) -> PushResult:
        """
        Store messages durably. Returns one result per item. With a producer id: all or none, once.

        ``scope``: which callers share the producer. ``digest``: the digest of the request, if the
        items differ from those sent. ``slot``: where all partitions must be.

        While the database is unavailable, they go to the file buffer, if there is one. ``is_json``:
        the payloads are parts of one valid JSON text in UTF-8.
        """
        producer = None
        if producer_id is not None or sequence is not None:
            producer = self._producer(producer_id, sequence, scope)
            if producer is not None:
                producer = producer._replace(digest=digest or digest_of(items), slot=slot)
        return await self.push_fallback.push(items, producer=producer, is_json=is_json)

    async def check_push(self, items: Sequence[PushItem]) -> None:
        """Raise the reasons for which a push would reject some of the items."""
        await self._pusher.check(items)

    async def repeat_push(
        self,
        items: Sequence[PushItem],
        *,
        producer_id: str,
        sequence: int | None,
        scope: str,
        digest: bytes | None,
    ) -> PushResult | None:
        """The first outcome of a numbered push that was stored, or None."""
        producer = self._producer(producer_id, sequence, scope)
        if producer is not None:
            producer = producer._replace(digest=digest or digest_of(items))
        return await self._pusher.repeat(producer, items)

    async def pop(self, request: PopRequest) -> list[Delivery]:
        """Claim messages, and wait for them if requested."""
        return await self._popper.pop(request)

    def is_dry(self, request: PopRequest) -> bool:
        """Whether such pops wait, because the last search found nothing for them."""
        return self._popper.is_dry(request)

    async def pop_and_acknowledge(
        self,
        request: PopRequest,
        acknowledgments: Sequence[Acknowledgment],
        *,
        consumer_group: str | None = None,
        results: "asyncio.Future[list[Acknowledged]] | None" = None,
    ) -> tuple[list[Acknowledged], list[Delivery]]:
        """
        Set the outcomes of messages and claim the next ones, in one transaction.

        ``results`` gets the results of the acknowledgments, also if this call is cancelled.
        """
        return await self._ack_and_pop.run(request, acknowledgments, consumer_group, results)

    async def give_back(self, deliveries: Sequence[Delivery]) -> None:
        """Return deliveries that were not sent to their consumer, without counting an attempt."""
        await self._popper.give_back(deliveries)

    async def ack(self, lease_id: str, offsets: Sequence[int] | None = None) -> int:
        """Acknowledge a delivery, or these offsets of it. Returns how many it settled."""
        return await self._settler.ack(Lease.parse(lease_id), offsets)

    async def acknowledge(
        self, acknowledgments: Sequence[Acknowledgment], *, consumer_group: str | None = None
    ) -> list[Acknowledged]:
        """Set the outcome of each message: completed, failed, retry or dlq."""
        return await self._acknowledger.acknowledge(acknowledgments, consumer_group)

    async def delivery_of(
        self, acknowledgment: Acknowledgment, *, consumer_group: str | None = None
    ) -> int | None:
        """The delivery that an acknowledgment names, 0 if it has ended, or None if it is absent."""
        (found,) = await self._acknowledger.resolve([acknowledgment], consumer_group)
        if isinstance(found, Settlement):
            return found.delivery_id
        return None if isinstance(found, errors.MessageNotFound) else 0

    async def extend_many(
        self, lease_ids: Sequence[str], *, seconds: float | None = None
    ) -> list[Extended]:
        """Extend several leases. Returns one result each."""
        return await self._settler.extend(lease_ids, seconds)

    async def release(self, lease_id: str) -> None:
        """Return the rest of a delivery immediately, without counting an attempt."""
        await self._settler.release(Lease.parse(lease_id))

    async def release_delivery(self, queue_id: int, ref: str) -> None:
        """Release a delivery without its token, for operators. Raises LeaseLost."""
        delivery_id, token = id_of(ref), None
        if delivery_id is not None:
            token = await self.store.queues.delivery_token(queue_id, delivery_id)
        if delivery_id is None or token is None:
            raise errors.LeaseLost(f"delivery {ref} of this queue is not leased any more")
        await self._settler.release(Lease(delivery_id, token))

    async def transact(
        self,
        *,
        acknowledgments: Sequence[Acknowledgment] = (),
        items: Sequence[PushItem] = (),
        forwarded: Sequence[int] = (),
        hindrance: errors.QueenError | None = None,
        advances: Sequence[AdvanceOperation] = (),
        required_leases: Sequence[str] = (),
        consumer_group: str | None = None,
        is_rolled_back_on_duplicate: bool = False,
        producer_id: str | None = None,
        sequence: int | None = None,
        scope: str = SHARED,
        digest: bytes | None = None,
    ) -> PushResult:
        """
        Apply acknowledgments, pushes and workflow steps together or not at all.

        ``forwarded``: the indexes of items to send to other databases, which have checked them
        (`Arrivals.check`). ``hindrance``: why they can't be sent, unless this is a repeat.
        """
        producer = self._producer(producer_id, sequence, scope)
        if producer is not None:
            told = (acknowledgments, advances, required_leases, consumer_group)
            digest = digest or digest_of(items, *told, is_rolled_back_on_duplicate)
            producer = producer._replace(digest=digest)
        try:
            result = await self._transactions.transact(
                acknowledgments=acknowledgments,
                items=items,
                forwarded=forwarded,
                hindrance=hindrance,
                advances=advances,
                required_leases=required_leases,
                consumer_group=consumer_group,
                is_rolled_back_on_duplicate=is_rolled_back_on_duplicate,
                producer=producer,
            )
        except errors.QueenError as error:
            self.counters.count_transaction("unknown" if error.applied is None else "refused")
            raise
        self.forwarder.begin({items[at].queue for at in forwarded})
        self.counters.count_transaction("replayed" if result.is_replayed else "applied")
        return result

    async def check_steps(
        self,
        acknowledgments: Sequence[Acknowledgment],
        advances: Sequence[AdvanceOperation],
        *,
        consumer_group: str | None = None,
    ) -> None:
        """Raise unless the acknowledgments of these steps' messages can be applied."""
        await self._transactions.check_steps(acknowledgments, advances, consumer_group)

    async def advance(self, advances: Sequence[AdvanceOperation]) -> set[int]:
        """Advance workflow steps whose messages are in another database. Returns stale ones."""
        return await self._transactions.advance(advances)

    async def redact(self, partition_id: int, offset: int, *, by: str) -> None:
        """Erase the payload and headers of a message in the database and in the cache."""
        await redact(self.store, self.segments, partition_id, offset, by=by)
        self.signals.modes_changed()

    async def forget_redacted(self, after: int) -> None:
        """Remove messages from the cache that other processes redacted after this redaction."""
        await forget_redacted(self.store, self.segments, after)

    def hold_pushes(self, is_held: bool) -> None:
        """Start or end push maintenance, in which pushes stay on disk."""
        if is_held == self.push_fallback.is_held:
            return
        self.push_fallback.is_held = is_held
        if self.replayer is not None:
            self.replayer.is_held = is_held
            self.replayer.wake()

    def send_home(self) -> None:
        """Finish waiting pops without messages. Their clients can pop again."""
        self._popper.waiters.sent_home += 1
        for unit in self._popper.waiters.all_units():
            unit.finish([])

    @property
    def sent_home(self) -> int:
        """How often all waiting pops were finished without messages."""
        return self._popper.waiters.sent_home

    def _producer(
        self, producer_id: str | None, sequence: int | None, scope: str
    ) -> Producer | None:
        """The producer of a request, if it has one."""
        if producer_id is None and sequence is None:
            return None
        if producer_id is None or sequence is None:
            raise errors.BadRequest("producerId and sequence belong together")
        check_name("producerId", producer_id, self.settings.max_name_bytes)
        if not 0 <= sequence < 2**63:
            raise errors.BadRequest("a sequence is a number from 0 to 2^63 - 1")
        return Producer(producer_id, sequence, scope)
