"""A cluster with the calls of an engine, for tests that know one database."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

from queen.cluster.cluster import Cluster
from queen.cluster.lookups import slot_of_lease
from queen.engine.pop.delivery import Delivery
from queen.engine.push.batches import PushResult
from queen.store.connection.database import Record
from queen.wire.messages import Acknowledged, Acknowledgment, Extended, PopRequest, PushItem

T = TypeVar("T")


class Facade:
    """Sends each call to the database of its slot, as the routes of a server do."""

    def __init__(self, cluster: Cluster, settled: Callable[[], Awaitable[None]]) -> None:
        """``settled``: waits for the end of a move."""
        self._cluster = cluster
        self._settled = settled
        self.queues = self
        self.dead_letters = self

    async def _follow(self, slots: Iterable[int], call: Callable[[], Awaitable[T]]) -> T:
        return await self._cluster.following.follow(slots, call)

    async def _on_queue(self, queue: str, call: Callable[[], Awaitable[T]]) -> T:
        slot = await self._cluster.slot_of_queue(queue)
        return await self._follow([] if slot is None else [slot], call)

    async def configure(
        self, queue: str, options: dict[str, Any], *, namespace: str | None = None
    ) -> Record:
        async def call() -> Record:
            engine = await self._cluster.of_new_queue(queue, namespace)
            return await engine.queues.configure(queue, options, namespace=namespace)

        return await self._on_queue(queue, call)

    async def seek(self, queue: str, group: str | None, **where: Any) -> Any:  # noqa: ANN401
        async def call() -> Any:  # noqa: ANN401
            return await (await self._cluster.of_queue(queue)).queues.seek(queue, group, **where)

        return await self._on_queue(queue, call)

    async def redrive(self, ids: list[int]) -> list[int]:
        """Redrive letters of one queue. Their ids don't name their slot."""
        await self._settled()
        found: list[int] = []
        for engine in self._cluster.engines.values():
            found += await engine.dead_letters.redrive(ids)
        return found

    async def push(self, items: Sequence[PushItem], **options: Any) -> PushResult:  # noqa: ANN401
        return await self._cluster.push(items, **options)

    async def pop(self, request: PopRequest) -> list[Delivery]:
        return (await self._cluster.pop(request)).deliveries

    async def pop_and_acknowledge(
        self, request: PopRequest, acknowledgments: Sequence[Acknowledgment]
    ) -> tuple[list[Acknowledged], list[Delivery]]:
        results, popped = await self._cluster.pop_and_acknowledge(request, acknowledgments)
        return results, popped.deliveries

    async def acknowledge(self, acknowledgments: Sequence[Acknowledgment]) -> list[Acknowledged]:
        return await self._cluster.acknowledge(acknowledgments)

    async def ack(self, lease_id: str, offsets: list[int] | None = None) -> int:
        if offsets is None:
            return await self._cluster.ack(lease_id)
        return await self._follow(
            _slots([lease_id]), lambda: self._cluster.of_lease(lease_id).ack(lease_id, offsets)
        )

    async def release(self, lease_id: str) -> None:
        await self._cluster.release(lease_id)

    async def extend_many(
        self, lease_ids: Sequence[str], *, seconds: float | None = None
    ) -> list[Extended]:
        return await self._cluster.extend_many(lease_ids, seconds=seconds)

    async def transact(
        self,
        *,
        acknowledgments: Sequence[Acknowledgment] = (),
        items: Sequence[PushItem] = (),
        required_leases: Sequence[str] = (),
        **options: Any,  # noqa: ANN401
    ) -> PushResult | None:
        what: dict[str, Any] = {
            "acknowledgments": acknowledgments,
            "items": items,
            "required_leases": required_leases,
        }

        async def call() -> Any:  # noqa: ANN401
            engine = await self._cluster.of_transaction(**what)
            return await engine.transact(**what, **options)

        leases = [*required_leases, *(each.lease_id or "" for each in acknowledgments)]
        return await self._follow(_slots(leases), call)


def _slots(leases: Iterable[str]) -> set[int]:
    return {slot for each in leases if (slot := slot_of_lease(each)) is not None}
