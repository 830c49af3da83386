"""The engines of all databases. Each request goes to the engine of its queue or its ids."""

import asyncio
import contextlib
import time
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from uuid import UUID

from msgspec import structs

from queen import errors
from queen.cluster.places import Places
from queen.cluster.pop import Popped, pop_anywhere
from queen.cluster.results import (
    ScatteredResult,
    failed_acknowledgment,
    failed_extension,
    failed_push,
    grouped,
)
from queen.codec.ids import Lease, id_of, place_of
from queen.codec.names import check_queue_name
from queen.engine.caches.catalogue import Queue
from queen.engine.engine import Engine
from queen.engine.push.batches import PushResult
from queen.engine.push.producers import SHARED
from queen.wire.messages import Acknowledged, Acknowledgment, Extended, PopRequest, Pushed, PushItem

T = TypeVar("T")
R = TypeVar("R")


class Cluster:
    """
    All databases of a server process. With one database, calls go to its engine directly.

    A queue is in one database, with all its messages, groups and dead letters. So most requests
    need one engine, and only requests about several queues are divided.
    """

    def __init__(self, engines: Mapping[str, Engine]) -> None:
        """``engines``: by the names of their databases, the first database first."""
        self.engines = dict(engines)
        self.first = next(iter(self.engines.values()))
        self._alone = self.first if len(self.engines) == 1 else None
        self.places = Places({name: each.store.homes for name, each in self.engines.items()})

    @property
    def is_alone(self) -> bool:
        """There is one database."""
        return self._alone is not None

    async def start(self) -> None:
        """Read which database owns which slots."""
        if not self.is_alone:
            await self.places.load()

    # The engine of one object.

    async def of_queue(self, name: str) -> Engine:
        """The engine of a queue; the first one if the queue does not exist."""
        if self._alone is not None:
            return self._alone
        owners = await self.places.of_queues([name])
        return self._named(owners[name]) if name in owners else self.first

    async def of_new_queue(self, name: str, namespace: str | None = None) -> Engine:
        """The engine of a queue that may be created now."""
        if self._alone is not None:
            return self._alone
        owners = await self.places.of_new_queues({name: namespace or ""})
        return self._named(owners[name])

    def of_id(self, id_: int) -> Engine:
        """The engine of a partition or delivery."""
        return self._alone or self._named(self.places.of_id(id_))

    def of_lease(self, lease_id: str) -> Engine:
        """The engine of a lease. The engine rejects one that is invalid."""
        try:
            return self.of_id(Lease.parse(lease_id).delivery_id)
        except errors.LeaseLost:
            return self.first

    def of_acknowledgment(self, acknowledgment: Acknowledgment) -> Engine | None:
        """The engine of a message; None if only a search can find it."""
        if acknowledgment.lease_id is not None:
            return self.of_lease(acknowledgment.lease_id)
        if acknowledgment.partition_id is not None:
            id_ = id_of(acknowledgment.partition_id)
            return self.first if id_ is None else self.of_id(id_)
        place = place_of(acknowledgment.id or acknowledgment.transaction_id or "")
        return None if place is None else self.of_id(place.partition_id)

    def _of_message(self, message_id: str) -> Engine:
        place = place_of(message_id)
        return self.first if place is None else self.of_id(place.partition_id)

    # What authorization needs to know.

    async def queues(self, names: Iterable[str]) -> dict[str, Queue]:
        """Queues that exist, by name."""
        if self._alone is not None:
            return await self._alone.catalogue.queues(names)
        owners = await self.places.of_queues(names)
        by_owner = grouped(owners, lambda name: owners[name])
        parts = await asyncio.gather(
            *(self._named(owner).catalogue.queues(some) for owner, some in by_owner.items())
        )
        return {name: queue for part in parts for name, queue in part.items()}

    def remembered(self, names: Iterable[str]) -> dict[str, Queue]:
        """Queues that were read before, by name, although they may have changed."""
        wanted = set(names)
        found: dict[str, Queue] = {}
        for engine in self.engines.values():
            found |= engine.catalogue.remembered(wanted)
        return found

    async def queues_of_partitions(self, ids: Iterable[int]) -> dict[int, str]:
        """The names of the queues of those partitions that exist."""
        by_engine = grouped(ids, self.of_id)
        parts = [
            await engine.queue_lookup.of_partitions(some) for engine, some in by_engine.items()
        ]
        return {id_: queue for part in parts for id_, queue in part.items()}

    async def queues_of_leases(
        self, leases: Iterable[tuple[int, UUID]]
    ) -> dict[tuple[int, UUID], str]:
        """The names of the queues of current and recent leases."""
        by_engine = grouped(leases, lambda lease: self.of_id(lease[0]))
        parts = [await engine.queue_lookup.of_leases(some) for engine, some in by_engine.items()]
        return {lease: queue for part in parts for lease, queue in part.items()}

    def refresh(self, queue: str) -> None:
        """Start to read the options of a queue if they have expired."""
        if self._alone is not None:
            self._alone.catalogue.refresh([queue])
        elif (owner := self.places.known(queue)) is not None:
            self._named(owner).catalogue.refresh([queue])

    # Calls about several objects.

    def push(
        self,
        items: Sequence[PushItem],
        *,
        producer_id: str | None = None,
        sequence: int | None = None,
        scope: str = SHARED,
        digest: bytes | None = None,
        is_json: bool = False,
    ) -> Awaitable[PushResult]:
        """
        Store messages, as `Engine.push` does.

        Without a producer, each database stores its part by itself, and items whose database fails
        are reported as failed.
        """
        options: dict[str, Any] = {
            "producer_id": producer_id,
            "sequence": sequence,
            "scope": scope,
            "digest": digest,
            "is_json": is_json,
        }
        if self._alone is not None:
            return self._alone.push(items, **options)
        return self._push(items, options)

    async def _push(self, items: Sequence[PushItem], options: dict[str, Any]) -> PushResult:
        owners = await self._expected([each.queue for each in items])
        by_engine = grouped(range(len(items)), lambda at: owners[items[at].queue])
        if len(by_engine) <= 1:
            engine = next(iter(by_engine), self.first)
            async with self._watch():
                await self._claim([each.queue for each in items])
                return await engine.push(items, **options)
        if options["producer_id"] is not None:
            raise self._apart({engine: f"queue {name}" for name, engine in owners.items()})
        is_buffered = False

        async def store(engine: Engine, some: Sequence[PushItem]) -> Sequence[Pushed]:
            nonlocal is_buffered
            await self._claim([each.queue for each in some])
            result = await engine.push(some, **options)
            is_buffered = is_buffered or result.is_buffered
            return result

        engines = [owners[each.queue] for each in items]
        answers = await self._divided(items, engines, store, failed_push)
        return ScatteredResult(answers, is_buffered=is_buffered)

    def acknowledge(
        self, acknowledgments: Sequence[Acknowledgment], *, consumer_group: str | None = None
    ) -> Awaitable[list[Acknowledged]]:
        """Set the outcome of each message, as `Engine.acknowledge` does."""
        if self._alone is not None:
            return self._alone.acknowledge(acknowledgments, consumer_group=consumer_group)
        return self._acknowledge(acknowledgments, consumer_group)

    async def _acknowledge(
        self, acknowledgments: Sequence[Acknowledgment], group: str | None
    ) -> list[Acknowledged]:
        engines: list[Engine] = []
        refused: dict[int, Acknowledged] = {}
        for at, each in enumerate(acknowledgments):
            try:
                engines.append(await self._engine_of(each, group) or self.first)
            except (errors.AmbiguousMessage, errors.DatabaseUnavailable) as error:
                engines.append(self.first)
                refused[at] = failed_acknowledgment(each, error)
        rest = [at for at in range(len(acknowledgments)) if at not in refused]
        answers: list[Acknowledged] = []
        if rest or not refused:
            answers = await self._divided(
                [acknowledgments[at] for at in rest],
                [engines[at] for at in rest],
                lambda engine, some: engine.acknowledge(some, consumer_group=group),
                failed_acknowledgment,
            )
        found = dict(zip(rest, answers, strict=True)) | refused
        return [found[at] for at in range(len(acknowledgments))]

    def extend_many(
        self, lease_ids: Sequence[str], *, seconds: float | None = None
    ) -> Awaitable[list[Extended]]:
        """Extend several leases, as `Engine.extend_many` does."""
        if self._alone is not None:
            return self._alone.extend_many(lease_ids, seconds=seconds)
        return self._divided(
            lease_ids,
            [self.of_lease(each) for each in lease_ids],
            lambda engine, some: engine.extend_many(some, seconds=seconds),
            failed_extension,
        )

    async def cancelled(self, jobs: Sequence[tuple[str, str]]) -> list[int]:
        """The indexes of jobs that were cancelled, of their ids and message ids."""
        if self._alone is not None:
            return await self._alone.results.cancelled(jobs)
        by_engine = grouped(range(len(jobs)), lambda at: self._of_message(jobs[at][1]))
        found: list[int] = []
        for engine, indexes in by_engine.items():
            some = [jobs[at] for at in indexes]
            found += [indexes[at] for at in await engine.results.cancelled(some)]
        return sorted(found)

    async def of_transaction(
        self,
        *,
        acknowledgments: Sequence[Acknowledgment] = (),
        items: Sequence[PushItem] = (),
        queues: Iterable[str] = (),
        required_leases: Sequence[str] = (),
        consumer_group: str | None = None,
    ) -> Engine:
        """The engine of everything in a transaction. Raises CrossShard if it needs several."""
        if self._alone is not None:
            return self._alone
        needed: dict[Engine, str] = {}
        for lease_id in required_leases:
            needed.setdefault(self.of_lease(lease_id), "a required lease")
        for each in acknowledgments:
            # A message that no database knows is rejected by the transaction, or was acknowledged.
            if (engine := await self._engine_of(each, consumer_group)) is not None:
                needed.setdefault(engine, "an acknowledgment")
        names = {*queues, *(each.queue for each in items)}
        for name, engine in (await self._expected(sorted(names))).items():
            needed.setdefault(engine, f"queue {name}")
        if len(needed) > 1:
            raise self._apart(needed)
        engine = next(iter(needed), self.first)
        async with self._watch():
            await self._claim(names)
        return engine

    async def pop(self, request: PopRequest) -> Popped:
        """Claim messages of one database, and wait for them if requested."""
        if self._alone is not None:
            return Popped(self._alone, await self._alone.pop(request))
        if request.queue is None:
            return await pop_anywhere([*self.engines.values()], request)
        ends_at = time.monotonic() + request.timeout_seconds
        owner = (await self.places.of_queues([request.queue])).get(request.queue)
        while owner is None:
            # The queue does not exist, so its database is not known.
            if not request.wait:
                return Popped(self.first, await self.first.pop(request))
            if time.monotonic() >= ends_at:
                return Popped(self.first, [])
            await self.places.news(request.queue, ends_at - time.monotonic())
            owner = self.places.known(request.queue)
        left = max(0.0, ends_at - time.monotonic())
        engine = self._named(owner)
        async with self._watch():
            return Popped(engine, await engine.pop(structs.replace(request, timeout_seconds=left)))

    async def pop_and_acknowledge(
        self,
        request: PopRequest,
        acknowledgments: Sequence[Acknowledgment],
        *,
        consumer_group: str | None = None,
        results: "asyncio.Future[list[Acknowledged]] | None" = None,
    ) -> tuple[list[Acknowledged], Popped]:
        """
        Set the outcomes of messages and claim the next ones, as `Engine.pop_and_acknowledge` does.

        It is one transaction if all of it is in one database. Otherwise the outcomes come first.
        """
        if self._alone is not None:
            engine: Engine | None = self._alone
        else:
            engines = {
                await self._engine_of(each, consumer_group) or self.first
                for each in acknowledgments
            }
            if request.queue is not None:
                engines.add(await self.of_queue(request.queue))
            engine = None if request.queue is None or len(engines) > 1 else engines.pop()
        if engine is not None:
            acknowledged, deliveries = await engine.pop_and_acknowledge(
                request, acknowledgments, consumer_group=consumer_group, results=results
            )
            return acknowledged, Popped(engine, deliveries)
        acknowledged = await self.acknowledge(acknowledgments, consumer_group=consumer_group)
        if results is not None and not results.done():
            results.set_result(acknowledged)
        try:
            return acknowledged, await self.pop(request)
        except errors.ServiceError:
            # The acknowledgments are applied, so their results must reach the consumer.
            return acknowledged, Popped(self.first, [])

    async def _engine_of(self, each: Acknowledgment, group: str | None) -> Engine | None:
        """
        The engine of a message, or None if no database has it.

        With only a transactionId, all databases are searched. Raises AmbiguousMessage if several
        have such a message.
        """
        if (engine := self.of_acknowledgment(each)) is not None:
            return engine
        found: list[Engine] = []
        failure: errors.DatabaseUnavailable | None = None
        for engine in self.engines.values():
            try:
                if await engine.has_delivered(each, consumer_group=group):
                    found.append(engine)
            except errors.DatabaseUnavailable as error:
                failure = error
        if len(found) > 1:
            raise errors.AmbiguousMessage(
                f"several messages match {each.transaction_id!r}; name the partition"
            )
        if not found and failure is not None:
            raise failure
        return found[0] if found else None

    async def _expected(self, queues: Iterable[str]) -> dict[str, Engine]:
        """The engine of each queue to push to, also if the push will create it."""
        engines = dict.fromkeys(queues, self.first)
        owners = await self.places.expected(self._valid(engines))
        return engines | {name: self._named(owner) for name, owner in owners.items()}

    async def _claim(self, queues: Iterable[str]) -> None:
        """Decide the slots of queues that a push may create."""
        await self.places.of_new_queues(dict.fromkeys(self._valid(queues), ""))

    def _valid(self, queues: Iterable[str]) -> list[str]:
        """Leave out invalid names, which every engine rejects."""
        valid: list[str] = []
        for name in queues:
            with contextlib.suppress(errors.InvalidName):
                check_queue_name("queue", name, self.first.settings.max_name_bytes)
                valid.append(name)
        return valid

    def _named(self, database: str) -> Engine:
        """The engine of a database. Raises SlotMoved if this server does not know it."""
        if database not in self.engines:
            raise errors.SlotMoved(
                f"The queue is in database {database}, which QUEEN_DATABASES of this server lacks."
            )
        return self.engines[database]

    def _apart(self, parts: Mapping[Engine, str]) -> errors.CrossShard:
        """The error that names the database of each part."""
        names = {engine: name for name, engine in self.engines.items()}
        where = ", ".join(f"{what} is in {names[engine]}" for engine, what in parts.items())
        return errors.CrossShard(
            f"The request needs several databases: {where}. Send one request per database, or give"
            " the queues the same namespace before their first message."
        )

    async def _divided(
        self,
        items: Sequence[T],
        engines: Sequence[Engine],
        call: Callable[[Engine, Sequence[T]], Awaitable[Sequence[R]]],
        fail: Callable[[T, errors.QueenError], R],
    ) -> list[R]:
        """
        Call each engine with its items. Returns one result per item, in their order.

        If a database fails, its items fail. If all fail, this raises the first error.
        """
        by_engine = grouped(range(len(items)), lambda at: engines[at])
        if len(by_engine) <= 1:
            async with self._watch():
                return [*await call(next(iter(by_engine), self.first), items)]

        async def one(engine: Engine, at: Sequence[int]) -> Sequence[R] | errors.QueenError:
            try:
                async with self._watch():
                    return await call(engine, [items[each] for each in at])
            except errors.QueenError as error:
                return error

        parts = await asyncio.gather(*(one(*each) for each in by_engine.items()))
        failures = [part for part in parts if isinstance(part, errors.QueenError)]
        if len(failures) == len(parts):
            raise next((each for each in failures if each.applied is None), failures[0])
        results: dict[int, R] = {}
        for at, part in zip(by_engine.values(), parts, strict=True):
            if isinstance(part, errors.QueenError):
                part = [fail(items[each], part) for each in at]
            results |= dict(zip(at, part, strict=True))
        return [results[at] for at in range(len(items))]

    @asynccontextmanager
    async def _watch(self) -> AsyncGenerator[None]:
        """Read the owners of slots again if one has moved, so that a repeat finds its database."""
        try:
            yield
        except errors.SlotMoved:
            with contextlib.suppress(errors.QueenError):
                await self.places.load()
            raise
