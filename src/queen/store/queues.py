"""Queues and partitions: find, create, configure, purge, delete."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from queen.store.connection.database import Database, Record

_DEDUP_SECONDS: Final = 86_400.0
"""The same as in `queen.default_options`."""
_SCHEMA_BYTES: Final = 2**18
"""Stored size of the schemas on one page. Compressed, they can be as large as the largest body."""


class Queues:
    """The queues of one database. ``defaults`` are option columns of new queues."""

    def __init__(self, database: Database, *, defaults: dict[str, Any] | None = None) -> None:
        self._database = database
        self._defaults = defaults or {}
        self.dedup_seconds: float = self._defaults.get("dedup_seconds", _DEDUP_SECONDS)
        """How long a queue without own options remembers transactionIds."""

    async def partition_ids(
        self, names: Sequence[tuple[str, str, int]], *, creates_queues: bool = True
    ) -> list[tuple[int | None, int | None]]:
        """Queue id and partition id of each (queue, partition, level). None without a queue."""
        rows = await self._database.fetch(
            "partition_ids",
            [queue for queue, _, _ in names],
            [partition for _, partition, _ in names],
            [level for _, _, level in names],
            creates_queues,
            self._defaults,
        )
        return [(row["queue_id"], row["partition_id"]) for row in rows]

    async def named(self, names: Sequence[str]) -> list[Record]:
        return await self._database.fetch("queues", names)

    async def of_partitions(self, partition_ids: Sequence[int]) -> list[Record]:
        """Queue id and queue name of each partition that exists."""
        return await self._database.fetch("queues_of_partitions", partition_ids)

    async def of_deliveries(self, leases: Sequence[tuple[int, UUID]]) -> list[Record]:
        """Id, token and queue name of each current lease."""
        return await self._database.fetch(
            "queues_of_deliveries", [id_ for id_, _ in leases], [token for _, token in leases]
        )

    async def in_scope(self, namespace: str | None, task: str | None) -> list[Record]:
        return await self._database.fetch("queues_in_scope", namespace, task)

    async def configure(
        self,
        name: str,
        *,
        namespace: str | None,
        task: str | None,
        options: dict[str, Any],
        is_replaced: bool,
        version: int | None,
    ) -> Record:
        rows = await self._database.fetch(
            "configure", name, namespace, task, options, is_replaced, version, self._defaults
        )
        return rows[0]

    async def moved(self, names: Iterable[str]) -> set[str]:
        """Those of the queues whose slot another database owns."""
        rows = await self._database.fetch("moved_queues", [*names])
        return {row["name"] for row in rows}

    async def moved_slots(self, slots: Iterable[int]) -> set[int]:
        """Those of the slots that another database owns."""
        return {row["slot"] for row in await self._database.fetch("moved_slots", [*slots])}

    async def default_options(self) -> dict[str, Any]:
        """The option columns of a new queue."""
        return (await self._database.fetch("default_options", self._defaults))[0]["options"]

    async def options_page(
        self, *, after: str, limit: int, patterns: Sequence[str] | None
    ) -> tuple[list[Record], bool]:
        """Queues with their options, by name, and whether the page ended early."""
        rows = await self._database.fetch("list_options", after, limit, patterns, _SCHEMA_BYTES)
        return rows, bool(rows) and len(rows) < rows[0]["rows"]

    async def configure_partition(self, queue: str, partition: str, *, priority: int) -> None:
        await self._database.fetch("configure_partition", queue, partition, priority)

    async def purge(
        self,
        queue: str,
        *,
        partition: str | None,
        is_completed: bool,
        before: datetime | None,
        after: int | None,
        limit: int,
    ) -> tuple[int, int] | None:
        """Run one step. Returns the last partition id and the message count, None at the end."""
        rows = await self._database.fetch(
            "purge", queue, partition, is_completed, before, after, limit
        )
        return (rows[0]["partition_id"], rows[0]["messages"]) if rows else None

    async def count_purge(
        self,
        queue: str,
        *,
        partition: str | None,
        is_completed: bool,
        before: datetime | None,
        most: int,
    ) -> tuple[int, bool]:
        """How many messages a purge would remove, and whether that is the complete count."""
        rows = await self._database.fetch(
            "count_purge", queue, partition, is_completed, before, most
        )
        return rows[0]["messages"], rows[0]["is_complete"]

    async def delete(self, queue: str) -> int:
        rows = await self._database.fetch("delete_queue", queue)
        return rows[0]["id"]

    async def erase(self, limit: int) -> bool:
        """Run one step. Returns True at the end."""
        rows = await self._database.fetch("erase", limit)
        return rows[0]["is_done"]

    async def page(
        self,
        order: str,
        after: str | int | None,
        *,
        namespace: str | None,
        task: str | None,
        search: str | None,
        limit: int,
        patterns: Sequence[str] | None = None,
    ) -> list[Record]:
        """Ids and names, sorted by: name, name_down, age or age_down."""
        return await self._database.fetch(
            f"queues_by_{order}", after, namespace, task, search, limit, patterns
        )

    async def page_by_sample(
        self,
        figure: str,
        after: tuple[float, int],
        *,
        namespace: str | None,
        task: str | None,
        search: str | None,
        limit: int,
        patterns: Sequence[str] | None = None,
    ) -> list[Record]:
        """Ids and names, the largest first, by: pending, dead_letters or oldest_age_seconds."""
        return await self._database.fetch(
            "queues_by_sample", figure, *after, namespace, task, search, limit, patterns
        )

    async def worst(self, ids: Sequence[int], limit: int) -> list[int]:
        """The queues that are paused, wait longest or have most dead letters."""
        return [row["id"] for row in await self._database.fetch("worst_queues", ids, limit)]

    async def histories(self, ids: Sequence[int], minutes: int) -> dict[int, list[int | None]]:
        """Depths by minute, the current one last. None for minutes without a sample."""
        rows = await self._database.fetch("queue_histories", ids, minutes)
        return {row["queue_id"]: row["depths"] for row in rows}

    async def delivery_token(self, queue_id: int, delivery_id: int) -> UUID | None:
        """The token of a delivery, or None if it is not leased."""
        rows = await self._database.fetch("delivery_token", queue_id, delivery_id)
        return rows[0]["token"] if rows else None

    async def figures(
        self, ids: Sequence[int], most: int, *, window_seconds: float
    ) -> list[Record]:
        """Counts of queues from at most ``most`` rows per table, and recent rates."""
        return await self._database.fetch("list_queues", ids, most, window_seconds)

    async def names(self, limit: int, patterns: Sequence[str] | None) -> list[Record]:
        return await self._database.fetch("queue_names", limit, patterns)

    async def unordered(
        self, after: str, limit: int, patterns: Sequence[str] | None
    ) -> list[Record]:
        """Unordered queues, which may have jobs, by name."""
        return await self._database.fetch("unordered_queues", after, limit, patterns)

    async def namespaces(
        self, after: str, limit: int, patterns: Sequence[str] | None
    ) -> list[Record]:
        return await self._database.fetch("namespaces", after, limit, patterns)

    async def tasks(self, after: str, limit: int, patterns: Sequence[str] | None) -> list[Record]:
        return await self._database.fetch("tasks", after, limit, patterns)

    async def partitions(
        self,
        queue_id: int,
        *,
        after: tuple[str, int],
        prefix: str,
        limit: int,
        group_id: int | None = None,
    ) -> list[Record]:
        """Partitions by name and priority. With a group, also its positions."""
        return await self._database.fetch(
            "list_partitions", queue_id, *after, prefix, limit, group_id
        )

    async def deliveries(
        self,
        queue_id: int,
        *,
        group: str | None,
        after: tuple[int, int, str, int],
        limit: int,
    ) -> list[Record]:
        """Deliveries that are leased or wait for a retry."""
        return await self._database.fetch("list_deliveries", queue_id, group, *after, limit)

    async def signature(self) -> tuple[int, int]:
        """Two numbers that change when a queue is created, deleted or configured."""
        rows = await self._database.fetch("queues_signature")
        return rows[0]["queues"], rows[0]["versions"]

    async def backlog(self, queue_id: int, most: int) -> int:
        rows = await self._database.fetch("backlog", queue_id, most)
        return rows[0]["messages"]
