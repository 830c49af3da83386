"""The engines of all databases. Each request goes to the engine of its queue or its ids."""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any
from uuid import UUID

from queen import errors
from queen.cluster.buffers import BufferHomes
from queen.cluster.deliveries import Deliveries
from queen.cluster.following import Following
from queen.cluster.lookups import Lookups, slot_of_id, slot_of_lease
from queen.cluster.owners import Owners
from queen.cluster.places import Places
from queen.cluster.pop import Popped
from queen.cluster.pushes import Pushes
from queen.cluster.spread.limits.shares import Shares
from queen.cluster.spread.spreads import Spreads
from queen.cluster.transactions import Division, TransactionPlaces
from queen.engine.caches.catalogue import Queue
from queen.engine.engine import Engine
from queen.engine.push.batches import PushResult
from queen.engine.push.producers import SHARED
from queen.store.cluster.homes import SPREAD
from queen.wire.messages import Acknowledged, Acknowledgment, Extended, PopRequest, PushItem


class Cluster:
    """
    All databases of a server process. With one database, calls go to its engine directly.

    A queue is in one database, with all its messages, groups and dead letters. So most requests
    need one engine, and only requests about several queues are divided. Requests follow a slot that
    moves to another database.
    """

    def __init__(self, engines: Mapping[str, Engine]) -> None:
        """``engines``: by the names of their databases, the first database first."""
        self.engines = dict(engines)
        self.first = next(iter(self.engines.values()))
        self._alone = self.first if len(self.engines) == 1 else None
        every = [*self.engines.values()]
        homes = {name: each.store.homes for name, each in self.engines.items()}
        self.owners = Owners(homes, self.first.store.definitions)
        self.places = Places(homes, self.owners)
        self.following = Following(self.engines, self.owners)
        self._lookups = Lookups(every, self.places, self.following)
        self.spreads = Spreads(self.engines)
        self.shares = Shares(self.engines)
        self._pushes = Pushes(self.engines, self.places, self.following, self.spreads)
        self._transactions = TransactionPlaces(self._lookups, self.following, self._pushes)
        self._deliveries = Deliveries(
            every, self.places, self.following, self._lookups, self.spreads
        )

    @property
    def is_alone(self) -> bool:
        """There is one database."""
        return self._alone is not None

    async def start(self) -> None:
        """Read which database owns which slots. Records in file buffers follow them too."""
        if self.is_alone:
            return
        await self.owners.load()
        for engine in self.engines.values():
            if engine.replayer is not None:
                homes = BufferHomes(engine, self.places, self.following, self.spreads)
                engine.replayer.use(homes)
        self.spreads.start()
        self.shares.start()

    async def close(self) -> None:
        """Stop the background tasks. The engines are closed by themselves."""
        await self.shares.close()
        await self.spreads.close()

    # The engine of one object.

    async def of_queue(self, name: str) -> Engine:
        """
        The engine of a queue; the first one if the queue does not exist.

        Raises CrossShard if the queue is spread.
        """
        slot = None if self.is_alone else await self.slot_of_queue(name)
        if slot == SPREAD:
            raise only_home(name)
        return self.following.engine(slot)

    async def slot_of_queue(self, name: str) -> int | None:
        """The slot of a queue, or None if the queue never existed."""
        return (await self.places.of_queues([name])).get(name)

    async def is_spread(self, name: str) -> bool:
        """Whether a queue is in several databases."""
        return not self.is_alone and await self.slot_of_queue(name) == SPREAD

    async def of_partition(self, queue: str, partition: str) -> Engine:
        """The engine of a partition by name; the first one if the queue does not exist."""
        slot = None if self.is_alone else await self.slot_of_queue(queue)
        if slot is not None:
            slot = self.places.slot_in(queue, slot, partition)
        return self.following.engine(slot)

    async def check_deletable(self, queue: str) -> None:
        """
        Raise DatabaseUnavailable if a database could miss that a spread queue is deleted.

        It would accept messages for the deleted queue until it is back.
        """
        if await self.is_spread(queue):
            await self.spreads.check_all()

    async def publish(self, queue: str, queue_id: int) -> None:
        """Copy the options and groups of a queue to the other databases, if it is spread."""
        if await self.is_spread(queue):
            await self.spreads.publish(queue_id)

    async def ensure_group(self, engine: Engine, queue: str) -> None:
        """Make sure that a database has the group of queue mode, if the queue is spread."""
        if await self.is_spread(queue):
            await self.spreads.ensure_group(engine, PopRequest(queue=queue))

    async def of_new_queue(
        self, name: str, namespace: str | None = None, *, is_spread: bool = False
    ) -> Engine:
        """The engine of a queue that may be created now: the first one if the queue is spread."""
        if self._alone is not None:
            return self._alone
        spread = [name] if is_spread else []
        slots = await self.places.claim({name: namespace or ""}, spread=spread)
        return self.following.engine(slots[name])

    def reserved(self, name: str, engine: Engine) -> AbstractAsyncContextManager[None]:
        """
        Reserve a name while an object is created in one of several databases.

        Raises Overloaded if it is created in another one now.
        """
        if self.is_alone:
            return nullcontext()
        return self.places.reserved(name, self.following.name(engine))

    def of_id(self, id_: int) -> Engine:
        """The engine of a partition or delivery."""
        return self._alone or self.following.engine(slot_of_id(id_))

    def of_lease(self, lease_id: str) -> Engine:
        """The engine of a lease. The engine rejects one that is invalid."""
        return self._alone or self.following.engine(slot_of_lease(lease_id))

    # What authorization needs to know.

    async def queues(self, names: Iterable[str]) -> dict[str, Queue]:
        """Queues that exist, by name."""
        if self._alone is not None:
            return await self._alone.catalogue.queues(names)
        return await self._lookups.queues(names)

    def remembered(self, names: Iterable[str]) -> dict[str, Queue]:
        """Queues that were read before, by name, although they may have changed."""
        wanted = set(names)
        found: dict[str, Queue] = {}
        for engine in self.engines.values():
            found |= engine.catalogue.remembered(wanted)
        return found

    async def queues_of_partitions(self, ids: Iterable[int]) -> dict[int, str]:
        """The names of the queues of those partitions that exist."""
        if self._alone is not None:
            return await self._alone.queue_lookup.of_partitions(ids)
        return await self._lookups.queues_of_partitions(ids)

    async def queues_of_leases(
        self, leases: Iterable[tuple[int, UUID]]
    ) -> dict[tuple[int, UUID], str]:
        """The names of the queues of current and recent leases."""
        if self._alone is not None:
            return await self._alone.queue_lookup.of_leases(leases)
        return await self._lookups.queues_of_leases(leases)

    def refresh(self, queue: str) -> None:
        """Start to read the options of a queue if they have expired."""
        if self._alone is not None:
            self._alone.catalogue.refresh([queue])
        elif (slot := self.places.known(queue)) is not None and self.owners.knows(slot):
            self.following.engine(slot).catalogue.refresh([queue])

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
        if self._alone is None:
            return self._pushes.push(items, options)
        if producer_id is None or len(items) == 1:
            return self._alone.push(items, **options)
        return self._pushes.push_to_one(items, options)

    def acknowledge(
        self, acknowledgments: Sequence[Acknowledgment], *, consumer_group: str | None = None
    ) -> Awaitable[list[Acknowledged]]:
        """Set the outcome of each message, as `Engine.acknowledge` does."""
        if self._alone is not None:
            return self._alone.acknowledge(acknowledgments, consumer_group=consumer_group)
        return self._deliveries.acknowledge(acknowledgments, consumer_group)

    def ack(self, lease_id: str) -> Awaitable[int]:
        """Acknowledge the rest of a delivery. Returns how many messages that settled."""
        return self._alone.ack(lease_id) if self._alone else self._deliveries.ack(lease_id)

    def release(self, lease_id: str) -> Awaitable[None]:
        """Return the rest of a delivery immediately, without counting an attempt."""
        return self._alone.release(lease_id) if self._alone else self._deliveries.release(lease_id)

    def extend_many(
        self, lease_ids: Sequence[str], *, seconds: float | None = None
    ) -> Awaitable[list[Extended]]:
        """Extend several leases, as `Engine.extend_many` does."""
        if self._alone is not None:
            return self._alone.extend_many(lease_ids, seconds=seconds)
        return self._deliveries.extend_many(lease_ids, seconds)

    async def cancelled(self, jobs: Sequence[tuple[str, str]]) -> list[int]:
        """The indexes of jobs that were cancelled, of their ids and message ids."""
        if self._alone is not None:
            return await self._alone.results.cancelled(jobs)
        return await self._deliveries.cancelled(jobs)

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
        return await self._transactions.find(
            acknowledgments, required_leases, consumer_group, items, queues
        )

    async def divide_transaction(
        self,
        *,
        acknowledgments: Sequence[Acknowledgment],
        items: Sequence[PushItem],
        required_leases: Sequence[str],
        consumer_group: str | None,
        is_rolled_back_on_duplicate: bool,
    ) -> Division:
        """The engine of a transaction, and the pushes that it sends to other databases."""
        if self._alone is not None:
            return Division(self._alone)
        return await self._transactions.divide(
            acknowledgments,
            required_leases,
            consumer_group,
            items,
            is_rolled_back_on_duplicate=is_rolled_back_on_duplicate,
        )

    async def first_outcome(
        self,
        items: Sequence[PushItem],
        *,
        producer_id: str,
        sequence: int | None,
        scope: str,
        digest: bytes,
    ) -> PushResult | None:
        """The outcome of a numbered request that one of several databases has applied, or None."""
        if self.is_alone:
            return None
        numbers: dict[str, Any] = {"producer_id": producer_id, "sequence": sequence}
        return await self._pushes.numbered.first_outcome(
            items, {**numbers, "scope": scope, "digest": digest}
        )

    async def pop(self, request: PopRequest) -> Popped:
        """Claim messages of one database, and wait for them if requested."""
        if self._alone is not None:
            return Popped(self._alone, await self._alone.pop(request))
        return await self._deliveries.pop(request)

    async def give_back(self, popped: Popped) -> None:
        """Return deliveries that were not sent to their consumer."""
        if self._alone is not None:
            await self._alone.give_back(popped.deliveries)
        else:
            await self._deliveries.give_back(popped)

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
        if self._alone is None:
            return await self._deliveries.pop_and_acknowledge(
                request, acknowledgments, consumer_group, results
            )
        acknowledged, deliveries = await self._alone.pop_and_acknowledge(
            request, acknowledgments, consumer_group=consumer_group, results=results
        )
        return acknowledged, Popped(self._alone, deliveries)


def only_home(queue: str) -> errors.CrossShard:
    """The error for something that does not work with spread queues."""
    return errors.CrossShard(
        f"Queue {queue} has placement spread, and with several databases this works only for queues"
        " with placement home."
    )
