"""Pops, and the outcomes of messages, in several databases."""

import asyncio
import contextlib
import time
from collections.abc import Coroutine, Sequence
from typing import Any

from msgspec import structs

from queen import errors
from queen.cluster.divided import Divided
from queen.cluster.following import Following, Where
from queen.cluster.lookups import Lookups, slot_of_id, slot_of_lease, slot_of_message
from queen.cluster.places import Places
from queen.cluster.pop import Popped, pop_anywhere
from queen.cluster.results import failed_acknowledgment, failed_extension, grouped
from queen.cluster.spread.pop import SpreadPops
from queen.cluster.spread.spreads import Spreads
from queen.engine.engine import Engine
from queen.engine.pop.delivery import Delivery
from queen.store.cluster.homes import SPREAD
from queen.wire.messages import Acknowledged, Acknowledgment, Extended, PopRequest


class Deliveries:
    """Pops and acknowledges messages of several databases."""

    def __init__(
        self,
        engines: Sequence[Engine],
        places: Places,
        following: Following,
        lookups: Lookups,
        spreads: Spreads,
    ) -> None:
        self._engines = engines
        self._first = engines[0]
        self._places = places
        self._following = following
        self._lookups = lookups
        self._spread = SpreadPops(engines, spreads)

    async def pop(self, request: PopRequest) -> Popped:
        """Claim messages of one database, and wait for them if requested."""
        if request.queue is None:
            return await pop_anywhere(self._engines, request)
        ends_at = time.monotonic() + request.timeout_seconds
        slot = (await self._places.of_queues([request.queue])).get(request.queue)
        while slot is None:
            # The queue does not exist, so its database is not known.
            if not request.wait:
                return Popped(self._first, await self._first.pop(request))
            if time.monotonic() >= ends_at:
                return Popped(self._first, [])
            await self._places.news(request.queue, ends_at - time.monotonic())
            slot = self._places.known(request.queue)
        left = max(0.0, ends_at - time.monotonic())
        if slot == SPREAD and request.partition is None:
            return await self._spread.pop(structs.replace(request, timeout_seconds=left))
        pop_at = self._spread.pop_at if slot == SPREAD else _pop_at
        queue, slot_of_queue = request.queue, slot

        def find() -> int:
            return self._places.slot_in(queue, slot_of_queue, request.partition or "")

        async def attempt() -> Popped:
            left = max(0.0, ends_at - time.monotonic())
            engine = self._following.engine(find())
            return Popped(
                engine, await pop_at(engine, structs.replace(request, timeout_seconds=left))
            )

        left = ends_at - time.monotonic()
        is_short = request.wait and left < self._following.patience_seconds
        try:
            return await self._following.follow(
                [find()], attempt, seconds=left if is_short else None
            )
        except errors.SlotMoved:
            if not is_short:
                raise
            return Popped(self._first, [])  # No messages arrived in time.

    async def give_back(self, popped: Popped) -> None:
        """Return deliveries that were not sent to their consumer."""
        slots = {slot_of_id(each.partition_id) for each in popped.deliveries}

        async def attempt() -> None:
            earlier = {slot: self._following.owners.of_slot(slot) for slot in slots}
            by_engine = grouped(popped.deliveries, self._engine_of)
            for engine, some in by_engine.items():
                await engine.give_back(some)
            if await self._following.have_moved(earlier):
                raise errors.SlotMoved

        # Otherwise they are redelivered when their lease ends.
        with contextlib.suppress(errors.ServiceError):
            await self._following.follow(slots, attempt)

    def _engine_of(self, delivery: Delivery) -> Engine:
        return self._following.engine(slot_of_id(delivery.partition_id))

    async def acknowledge(
        self, acknowledgments: Sequence[Acknowledgment], group: str | None
    ) -> list[Acknowledged]:
        """Set the outcome of each message, as `Engine.acknowledge` does."""
        if not acknowledgments:
            return await self._first.acknowledge(acknowledgments, consumer_group=group)
        refused: dict[int, Acknowledged] = {}
        sent: list[tuple[int, Acknowledgment, Where]] = []
        for at, each in enumerate(acknowledgments):
            try:
                sent.append((at, each, await self._lookups.of_acknowledgment(each, group)))
            except (errors.AmbiguousMessage, errors.DatabaseUnavailable) as error:
                refused[at] = failed_acknowledgment(each, error)
        if not sent:
            return [refused[at] for at in range(len(acknowledgments))]
        answers = await Divided[tuple[int, Acknowledgment, Where], Acknowledged](
            self._following,
            sent,
            lambda each: each[2],
            lambda engine, some: engine.acknowledge(
                [each for _, each, _ in some], consumer_group=group
            ),
            lambda each, error: failed_acknowledgment(each[1], error),
        ).results()
        found = {at: answer for (at, _, _), answer in zip(sent, answers, strict=True)} | refused
        return [found[at] for at in range(len(acknowledgments))]

    async def extend_many(self, lease_ids: Sequence[str], seconds: float | None) -> list[Extended]:
        """Extend several leases, as `Engine.extend_many` does."""
        if not lease_ids:
            return await self._first.extend_many(lease_ids, seconds=seconds)
        found = await Divided[str, Extended](
            self._following,
            lease_ids,
            slot_of_lease,
            lambda engine, some: engine.extend_many(some, seconds=seconds),
            failed_extension,
        ).results()
        return [*found]

    async def ack(self, lease_id: str) -> int:
        """Acknowledge the rest of a delivery. Returns how many messages that settled."""
        slot = slot_of_lease(lease_id)
        return await self._following.follow(
            [] if slot is None else [slot], lambda: self._following.engine(slot).ack(lease_id)
        )

    async def release(self, lease_id: str) -> None:
        """Return the rest of a delivery immediately, without counting an attempt."""
        slot = slot_of_lease(lease_id)
        await self._following.follow(
            [] if slot is None else [slot], lambda: self._following.engine(slot).release(lease_id)
        )

    async def cancelled(self, jobs: Sequence[tuple[str, str]]) -> list[int]:
        """The indexes of jobs that were cancelled, of their ids and message ids."""
        by_slot = grouped(range(len(jobs)), lambda at: slot_of_message(jobs[at][1]))
        by_engine = grouped(by_slot, self._following.engine)
        found: list[int] = []
        failures: list[errors.QueenError] = []
        for engine, slots in by_engine.items():
            indexes = sorted(at for slot in slots for at in by_slot[slot])
            some = [jobs[at] for at in indexes]
            try:
                found += [indexes[at] for at in await engine.results.cancelled(some)]
            except (errors.ServiceError, errors.OutcomeUnknown) as error:
                failures.append(error)  # The other databases don't depend on this one.
        if failures and len(failures) == len(by_engine):
            raise failures[0]
        return sorted(found)

    async def pop_and_acknowledge(
        self,
        request: PopRequest,
        acknowledgments: Sequence[Acknowledgment],
        group: str | None,
        results: "asyncio.Future[list[Acknowledged]] | None",
    ) -> tuple[list[Acknowledged], Popped]:
        """
        Set the outcomes of messages and claim the next ones, as `Engine.pop_and_acknowledge` does.

        It is one transaction if all of it is in one database. Otherwise the outcomes come first.
        """
        ends_at = time.monotonic() + request.timeout_seconds
        results = results or asyncio.get_running_loop().create_future()
        try:
            engine = await self._common(request, acknowledgments, group)
        except errors.QueenError:
            engine = None  # Then each acknowledgment gets its own result.
        except asyncio.CancelledError:
            _begin(self.acknowledge(acknowledgments, group), results)
            raise
        if engine is not None:
            applied: asyncio.Future[list[Acknowledged]] = asyncio.get_running_loop().create_future()
            try:
                acknowledged, deliveries = await engine.pop_and_acknowledge(
                    request, acknowledgments, consumer_group=group, results=applied
                )
            except errors.SlotMoved:
                # The pop may have waited after the acknowledgments were applied.
                if applied.done() and applied.exception() is None:
                    again = self._again(acknowledgments, applied.result(), group)
                    await asyncio.shield(_begin(again, results))
            except BaseException:
                applied.add_done_callback(lambda done: _report(done, results))
                raise
            else:
                popped = Popped(engine, deliveries)
                if not _moved(acknowledged):
                    results.set_result(acknowledged)
                    return acknowledged, popped
                again = self._again(acknowledgments, acknowledged, group)
                try:
                    return await asyncio.shield(_begin(again, results)), popped
                except asyncio.CancelledError:
                    if not request.auto_ack:
                        await self.give_back(popped)
                    raise
        if not results.done():
            await asyncio.shield(_begin(self.acknowledge(acknowledgments, group), results))
        acknowledged = results.result()
        left = max(0.0, ends_at - time.monotonic())
        try:
            return acknowledged, await self.pop(structs.replace(request, timeout_seconds=left))
        except errors.ServiceError:
            # The acknowledgments are applied, so their results must reach the consumer.
            return acknowledged, Popped(self._first, [])

    async def _common(
        self, request: PopRequest, acknowledgments: Sequence[Acknowledgment], group: str | None
    ) -> Engine | None:
        """The engine of the queue and all messages; None if they need several."""
        if request.queue is None:
            return None
        slot = (await self._places.of_queues([request.queue])).get(request.queue)
        if slot == SPREAD:
            return None  # The pop may need several.
        found: list[Where] = [slot]
        found += [await self._lookups.of_acknowledgment(each, group) for each in acknowledgments]
        engines = {self._following.engine(each) for each in found}
        return engines.pop() if len(engines) == 1 else None

    async def _again(
        self,
        acknowledgments: Sequence[Acknowledgment],
        answers: list[Acknowledged],
        group: str | None,
    ) -> list[Acknowledged]:
        """Send those again that were rejected because their slot has moved."""
        if not (moved := _moved(answers)):
            return answers
        again = await self.acknowledge([acknowledgments[at] for at in moved], group)
        found = dict(enumerate(answers)) | dict(zip(moved, again, strict=True))
        return [found[at] for at in range(len(answers))]


async def _pop_at(engine: Engine, request: PopRequest) -> list[Delivery]:
    return await engine.pop(request)


def _moved(answers: Sequence[Acknowledged]) -> list[int]:
    """Those that were rejected because their slot has moved."""
    return [at for at, each in enumerate(answers) if each.code == errors.SlotMoved.code]


def _begin(
    acknowledging: Coroutine[Any, Any, list[Acknowledged]],
    results: "asyncio.Future[list[Acknowledged]]",
) -> "asyncio.Task[list[Acknowledged]]":
    """Start a task of its own, because the results are needed even if the call is cancelled."""
    task = asyncio.create_task(acknowledging)
    task.add_done_callback(lambda done: _report(done, results))
    return task


def _report(
    done: "asyncio.Future[list[Acknowledged]]", results: "asyncio.Future[list[Acknowledged]]"
) -> None:
    if results.done():
        return
    if done.cancelled():
        results.cancel()
    elif (error := done.exception()) is not None:
        results.set_exception(error)
        results.exception()  # Usually the call itself raises it.
    else:
        results.set_result(done.result())
