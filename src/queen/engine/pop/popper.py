"""Serves many waiting pops with one claim that creates several deliveries."""

import asyncio
import contextlib
import random
import time
from collections.abc import Collection, Coroutine, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, TypeVar
from uuid import UUID

from msgspec import structs

from queen import errors
from queen.bounded import BoundedDict
from queen.codec.names import QUEUE_MODE, check_name, check_queue_name
from queen.engine.core import Core
from queen.engine.pop.answer_size import AnswerSizer
from queen.engine.pop.body_reader import BodyReader
from queen.engine.pop.claims import Claims, Send
from queen.engine.pop.damage import Damage
from queen.engine.pop.delivery import Copy, Delivery
from queen.engine.pop.waiters import PendingPop, Target, TargetName, Waiters
from queen.engine.runtime.combiner import MOST_COMBINED, FollowingPop
from queen.engine.runtime.moved_slots import without_moved
from queen.meters import Histogram
from queen.store import messages as rows
from queen.wire.messages import PopRequest

T = TypeVar("T")
_REQUESTS_PER_CALL: Final = 256
_MOST_REQUESTS: Final = 1_000
_MOVE_ATTEMPTS: Final = 3
"""Searches of a namespace while its queues move to another database."""
_MOST_FOLLOWING: Final = 8
"""Targets that are searched in the transaction of a push, while it locks its partitions."""


class Popper:
    """Claims messages for pops, with one call at a time per target."""

    def __init__(self, core: Core) -> None:
        self._store = core.store
        self._counters = core.counters
        self._catalogue = core.catalogue
        self._signals = core.signals
        self.flush_seconds = Histogram()
        self.flushed = Histogram()
        """Messages per claim."""
        self._settings = settings = core.settings
        self._bodies = BodyReader(core)
        self._portions = AnswerSizer(core)
        self._damage = Damage(core)
        self.waiters = Waiters(self._start, most=settings.catalogue_entries)
        self.waiters.subscribe(core.signals)
        self.claims = Claims(core, self.waiters)
        core.signals.on_database_returned.subscribe(self.waiters.wake_all)
        core.combiner.follow_push = self._follow_push
        self._requests = BoundedDict[PopRequest, tuple[PopRequest, TargetName]](_MOST_REQUESTS)
        """Requests within the limits, by the request that was received."""
        self._claim_slots = asyncio.Semaphore(settings.pop_lanes)
        self._tasks: set[asyncio.Task[Any]] = set()
        self.waiting = 0
        """The number of unfinished pops."""
        self._is_closed = False

    async def close(self) -> None:
        """Finish all waiting pops and the running calls."""
        self._is_closed = True
        self.waiters.sent_home += 1
        for unit in self.waiters.all_units():
            if not unit.hurry():
                unit.finish([])
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def pop(self, request: PopRequest) -> list[Delivery]:
        """
        Deliveries for one consumer. Empty if no message arrived before the timeout.

        Cancelled while messages are being acknowledged automatically, it raises OutcomeUnknown.
        """
        if self._is_closed:
            raise errors.Draining("this process is stopping")
        if request.wait and self.waiting >= self._settings.max_waiters:
            raise errors.TooManyWaiters(f"{self.waiting} pops are waiting; try again later")
        request, name = self._checked(request)
        target = self.waiters.target(name)
        unit = PendingPop(request, target)
        if request.wait:
            loop = asyncio.get_running_loop()
            unit.timer = loop.call_later(request.timeout_seconds, self._time_out, target, unit)
        self.waiting += 1
        if not (request.wait and target.is_dry):
            self.waiters.wake(target, is_new=request.wait)
        try:
            return await unit.answer
        except asyncio.CancelledError:
            if self._abandon(unit) and request.auto_ack:
                raise errors.OutcomeUnknown(
                    "This pop ended during a search, which may have acknowledged its messages."
                ) from None
            raise
        finally:
            self.waiting -= 1
            if unit.timer is not None:
                unit.timer.cancel()

    def is_dry(self, request: PopRequest) -> bool:
        """Whether such pops wait, because the last search found nothing for them."""
        return self.waiters.is_dry(self._checked(request)[1])

    async def claim_with(self, request: PopRequest, send: Send) -> list[Delivery]:
        """
        Deliveries for one consumer by one search of its own, without waiting.

        ``send`` makes the call of the search, with other changes in its transaction. If no queue
        matches, this returns without calling it.
        """
        if self._is_closed:
            raise errors.Draining("this process is stopping")
        request, name = self._checked(request)
        request = structs.replace(request, wait=False)
        # No other pop shares it, so no other search serves this one.
        target = Target(name)
        target.is_running = True
        unit = PendingPop(request, target)
        try:
            await self._search(target, [unit], send)
            return unit.answer.result() if unit.answer.done() and not target.is_missing else []
        finally:
            self.waiters.forget(target)

    def _abandon(self, unit: PendingPop) -> bool:
        """
        The caller was cancelled: return its deliveries and remove the unit.

        Returns whether messages were or are being claimed for it.
        """
        if unit.answer.cancelled():
            unit.target.answered += 1
            if unit.target.is_running:
                return True
            self._sweep(unit.target)
        elif unit.answer.exception() is None and (deliveries := unit.answer.result()):
            self.spawn(self.give_back(deliveries))
            return True
        return False

    def _checked(self, request: PopRequest) -> tuple[PopRequest, TargetName]:
        """A request within the limits, and its target. Consumers repeat the same request."""
        checked = self._requests.get(request)
        if checked is None:
            bounded = self._bounded(request)
            checked = self._requests[request] = bounded, TargetName.of(bounded)
        return checked

    def _bounded(self, request: PopRequest) -> PopRequest:
        settings = self._settings
        if not (request.queue or request.namespace is not None or request.task is not None):
            raise errors.BadRequest("a pop needs a queue, a namespace or a task")
        names = (request.queue, request.namespace, request.task, request.partition)
        for name in names:
            if name:
                check_name("name", name, settings.max_partition_bytes)
        if request.consumer_group not in (None, QUEUE_MODE):
            check_queue_name("consumerGroup", request.consumer_group or "", settings.max_name_bytes)
        if request.batch < 1 or request.partitions < 1:
            raise errors.BadRequest("batch and partitions must be at least 1")
        if request.lease_seconds is not None and not (
            0 < request.lease_seconds <= settings.max_lease_seconds
        ):
            raise errors.BadRequest(
                f"leaseSeconds must be above 0 and at most {settings.max_lease_seconds}"
            )
        if (
            request.batch <= settings.max_batch
            and request.partitions <= settings.max_pop_partitions
            and (request.timeout_seconds > 0 or not request.wait)
        ):
            return request
        return structs.replace(
            request,
            batch=min(request.batch, settings.max_batch),
            partitions=min(request.partitions, settings.max_pop_partitions),
            # A timeout of zero means one search without waiting.
            wait=request.wait and request.timeout_seconds > 0,
        )

    def _time_out(self, target: Target, unit: PendingPop) -> None:
        if unit.hurry():
            return
        if target.is_missing and target.name.queue is not None:
            unit.fail(errors.QueueNotFound(f"queue {target.name.queue} does not exist"))
        elif unit.finish([]):
            self._counters.count_empty(target.group_ids)
        if not target.is_running:
            self._sweep(target)

    def _start(self, target: Target) -> None:
        target.is_running = True
        self.spawn(self._serve(target))

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a task that `close` waits for."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _follow_push(self, queue_ids: Collection[int], messages: int) -> list[FollowingPop]:
        """Pops of idle targets, for messages that are about to be stored."""
        # Each pop takes at least one of them. The pop after the last one finds the target dry.
        most = min(messages + 1, MOST_COMBINED)
        following: list[FollowingPop] = []
        for target in () if self._is_closed else self.waiters.idle(queue_ids):
            if len(following) >= _MOST_FOLLOWING:
                break  # The push wakes the others after its transaction.
            units = list(islice(target.asking(), most))
            if units and (pop := self.claims.follow_push(target, units)) is not None:
                found: asyncio.Future[list[rows.Record]] = (
                    asyncio.get_running_loop().create_future()
                )
                target.is_running = True
                self.spawn(self._serve(target, (units, found)))
                following.append(FollowingPop(pop, found, partial(_skip, target)))
        return following

    async def _serve(
        self,
        target: Target,
        following: tuple[list[PendingPop], asyncio.Future[list[rows.Record]]] | None = None,
    ) -> None:
        """
        Search while that finds messages for pops, and then let the others wait.

        ``following``: pops that a search in the transaction of a push serves first.
        """
        try:
            if following is not None:
                await self._follow(target, *following)
                target.sweep()
            while target.is_hot and target.units:
                # Consumers that were just served may pop again. One turn of the loop lets them
                # join.
                await asyncio.sleep(0)
                target.is_hot = False
                if units := list(islice(target.asking(), _REQUESTS_PER_CALL)):
                    await self._search(target, units)
                # Serve pops that don't wait first, independent of the number of waiters.
                while units := list(islice(target.asking_now(), _REQUESTS_PER_CALL)):
                    await self._search(target, units)
                target.sweep()
        except (errors.DatabaseUnavailable, errors.OutcomeUnknown) as error:
            # Waiters keep waiting, because unread claims are redelivered when their lease ends.
            # With auto-ack the claim also acknowledges, so the waiters must get the error.
            is_told = self._is_closed or (target.name.is_auto and error.applied is None)
            for unit in list(target.asking()):
                if is_told or not unit.waits:
                    unit.fail(error)
            target.is_hot = False
            self.waiters.sleep(target, random.uniform(0.25, 1.0))
        except Exception as error:
            for unit in list(target.asking()):
                unit.fail(error)
        finally:
            target.is_running = False
            self._sweep(target)
            if target.is_hot and target.units:
                self._start(target)

    async def _follow(
        self,
        target: Target,
        units: list[PendingPop],
        found: asyncio.Future[list[rows.Record]],
    ) -> None:
        try:
            claimed = await self.claims.received(found)
        except errors.SlotMoved:
            target.is_hot = True  # The next search finds out whether the target has other queues.
            return
        await self._share_out(target, units, claimed)

    def _sweep(self, target: Target) -> None:
        """Remove finished units, and the target after its last unit."""
        target.sweep()
        if not target.units:
            self.waiters.forget(target)

    async def _search(
        self, target: Target, units: list[PendingPop], send: Send | None = None
    ) -> None:
        claimed: list[rows.Record] | None = None
        for attempt in range(_MOVE_ATTEMPTS):
            try:
                claimed = await self._claim(target, units, send)
                break
            except errors.SlotMoved:
                # The next lookup of a namespace leaves out the queues that have moved.
                if target.name.queue is not None or send or attempt == _MOVE_ATTEMPTS - 1:
                    raise
        await self._share_out(target, units, claimed)

    async def _claim(
        self, target: Target, units: list[PendingPop], send: Send | None
    ) -> list[rows.Record] | None:
        """The claimed messages, or None if no queue matches."""
        # Subscribing may wait for locks, so it runs outside the slots for claims.
        if await self.claims.subscribe(target):
            target.is_lent = target.name.is_auto and (
                self._portions.is_lent(units) or await self._may_be_sealed(target)
            )
            async with self._claim_slots:
                started_at = time.perf_counter()
                claimed = await self.claims.claim(target, units, send=send)
                self.flush_seconds.observe(time.perf_counter() - started_at)
                return claimed
        return None

    async def _share_out(
        self, target: Target, units: list[PendingPop], claimed: list[rows.Record] | None
    ) -> None:
        """Give the claimed messages to the pops. None: the queue is missing."""
        served: list[list[Delivery]] = [[] for _ in units]
        wait_seconds: float | None = None
        is_gone = False
        target.is_missing = claimed is None
        if claimed is not None:
            gone, wait_seconds = self.claims.learn(target, claimed)
            served = await self._hand_out(target, claimed, units)
            self.flushed.observe(
                sum(row["end_offset"] - row["first_offset"] for row in claimed if row["request"])
            )
            is_gone = bool(gone)
            if gone:
                # Deleted and maybe created again: search once more under the new id.
                self.claims.forget(target, gone)
                target.is_hot = True
        elif target.name.queue is not None:
            error = errors.QueueNotFound(f"queue {target.name.queue} does not exist")
            for unit in units:
                if not unit.waits:
                    unit.fail(error)
        unwanted: list[Delivery] = []
        is_dry = False
        for unit, deliveries in zip(units, served, strict=True):
            if deliveries:
                if unit.finish(deliveries):
                    self._count(deliveries, target.group)
                else:
                    unwanted.extend(deliveries)
                continue
            is_dry = True
            if not unit.waits or self._is_closed:
                # If the group was deleted, keep the pop: the next search uses the new id.
                if not is_gone and unit.finish([]):
                    self._counters.count_empty(target.group_ids)
            elif wait_seconds is not None:
                self.waiters.sleep(target, wait_seconds)
                wait_seconds = None
        if unwanted:
            await self.give_back(unwanted)
            target.is_hot = True
        if not is_dry and target.answered < len(target.units):
            target.is_hot = True
        # Unless a notification arrived meanwhile.
        target.is_dry = is_dry and not target.is_hot

    def _count(self, deliveries: Sequence[Delivery], group: str) -> None:
        for delivery in deliveries:
            tally = self._counters.group(delivery.group_id, delivery.queue, group)
            sizes = ((run.created_at, run.end_offset - run.first_offset) for run in delivery.runs)
            count = self._counters.count_popped(tally, sizes)
            if delivery.lease is None:
                tally.acked += count
            if isinstance(delivery.runs[0].source, Copy):
                tally.redrives += count
            elif delivery.attempt > 1:
                tally.retries += count

    async def _hand_out(
        self, target: Target, claimed: Sequence[rows.Record], units: Sequence[PendingPop]
    ) -> list[list[Delivery]]:
        """The deliveries of each request. If the messages cannot be read, all are returned."""
        try:
            served = await self._bodies.deliveries(target, claimed, len(units))
            if served.problems:
                await self._refuse(claimed, units, served.problems)
            if served.damaged:
                is_served = [bool(each) for each in served.deliveries]
                await self._damage.set_aside(target, units, served.damaged, is_served)
            return await self._portions.fit(units, served.deliveries, is_lent=target.is_lent)
        except Exception as error:
            leases = {(row["delivery_id"], row["token"]) for row in claimed if row["delivery_id"]}
            try:
                await self._release(sorted(leases))
            except (errors.ServiceError, errors.OutcomeUnknown):
                raise errors.OutcomeUnknown(
                    f"the messages were claimed but not read: {error}"
                ) from error
            if not isinstance(error, errors.ServiceError | errors.OutcomeUnknown):
                raise  # A bug: each caller gets the error, and the server logs it.
            if target.name.is_auto:
                raise errors.OutcomeUnknown(
                    f"the messages were acked but not read: {error}"
                ) from error
            raise errors.DatabaseUnavailable(f"the messages were not read: {error}") from error

    async def _refuse(
        self,
        claimed: Sequence[rows.Record],
        units: Sequence[PendingPop],
        problems: Mapping[int, errors.EncryptionUnavailable],
    ) -> None:
        """Return messages that cannot be decrypted, and fail their requests."""
        theirs = [row for row in claimed if row["request"] and row["request"] - 1 in problems]
        leases = {(row["delivery_id"], row["token"]) for row in theirs if row["delivery_id"]}
        await self._release(sorted(leases))
        for request, error in problems.items():
            units[request].fail(error)

    async def give_back(self, deliveries: Sequence[Delivery]) -> None:
        """Return deliveries of a cancelled consumer now, without counting an attempt."""
        leases = [(each.lease.delivery_id, each.lease.token) for each in deliveries if each.lease]
        if leases:
            # Deliveries that cannot be returned now are redelivered when their lease ends.
            with contextlib.suppress(errors.ServiceError, errors.OutcomeUnknown):
                await self._release(leases)
                self._signals.groups_ready({each.group_id for each in deliveries})

    async def _release(self, leases: Sequence[tuple[int, UUID]]) -> None:
        """End these leases, except those in slots that have moved."""
        if leases:
            await without_moved(leases, lambda lease: lease[0], self._store.messages.release)

    async def _may_be_sealed(self, target: Target) -> bool:
        """A claim must not acknowledge messages that cannot be decrypted."""
        try:
            queues = await self._catalogue.queues(target.queues.values())
        except errors.RequestError:
            return True  # This release does not know one of their options, so assume encryption.
        return any(queue.may_be_sealed for queue in queues.values())


def _skip(target: Target) -> None:
    target.skips += 1
