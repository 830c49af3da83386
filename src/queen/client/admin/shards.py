"""Databases and slots."""

from collections.abc import Sequence

from queen.client.admin.base import Calls, name_of
from queen.wire import resources as wire


class ShardCalls(Calls):
    """The databases of `queen.admin`."""

    async def shards(self) -> wire.Shards:
        """Return all databases, and the slots that have queues or are moving."""
        return await self._get("/shards", wire.Shards)

    async def cluster(self) -> wire.ClusterMap:
        """Return the slots of each database, and which server prefers which databases."""
        return await self._get("/cluster", wire.ClusterMap)

    async def move_slots(
        self,
        to: str,
        *,
        slot: int | None = None,
        queue: str | None = None,
        namespace: str | None = None,
    ) -> wire.Operation:
        """Move a slot, a queue or a namespace to another database, while it is in use."""
        body = wire.MoveRequest(to=to, slot=slot, queue=queue, namespace=namespace)
        started = await self._send("POST", "/shards/moves", body, wire.OperationStarted)
        return started.operation

    async def drain(self, database: str) -> wire.Operation:
        """Move all slots of a database evenly to the others."""
        body = wire.DrainRequest(database=database)
        started = await self._send("POST", "/shards/drain", body, wire.OperationStarted)
        return started.operation

    async def rebalance(
        self, *, dry_run: bool = False, moves: Sequence[wire.PlannedMove] | None = None
    ) -> wire.Rebalanced:
        """
        Move slots so that the load of all databases is even, or only return the plan.

        ``moves``: those of a plan, which are made as they are. Raises Conflict if one of the slots
        is in another database by then.
        """
        body = wire.RebalanceRequest(dry_run=dry_run, moves=None if moves is None else [*moves])
        return await self._send("POST", "/shards/rebalance", body, wire.Rebalanced)

    async def pins(self) -> list[wire.Pin]:
        """Return the partitions that have a slot of their own."""
        return (await self._get("/shards/pins", wire.Pins)).pins

    async def pin(self, queue: str, partition: str, database: str) -> wire.Pinned:
        """Give a partition of a spread queue, which does not exist yet, a slot in a database."""
        body = wire.PinRequest(queue=queue, partition=partition, database=database)
        return await self._send("POST", "/shards/pins", body, wire.Pinned)

    async def unpin(self, queue: str, partition: str) -> wire.Unpinned:
        """Remove the pin of a partition that does not exist."""
        body = wire.UnpinRequest(queue=queue, partition=partition)
        return await self._send("POST", "/shards/unpin", body, wire.Unpinned)

    async def remove_database(self, name: str) -> wire.ShardRemoved:
        """Remove a database that owns no slots. Its name and number are never used again."""
        return await self._send("DELETE", f"/shards/{name_of(name)}", None, wire.ShardRemoved)
