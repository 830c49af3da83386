"""Consumer groups: subscribe, fill, seek, delete."""

from collections.abc import Sequence
from datetime import datetime

from queen.store.connection.database import Database, Record


class Groups:
    """The groups of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def subscribe(
        self, queue: str, group: str, *, mode: str | None, start_at: datetime | None
    ) -> Record | None:
        """Queue id, group id and whether it is filled. None if the queue does not exist."""
        rows = await self._database.fetch("subscribe", queue, group, mode, start_at)
        return rows[0] if rows else None

    async def find(
        self, queues: Sequence[str], group: str, *, mode: str | None, start_at: datetime | None
    ) -> list[Record]:
        """
        The same for each queue that exists.

        The group id is None if the queue has no such group with the requested start, if any.
        """
        return await self._database.fetch("find_groups", queues, group, mode, start_at)

    async def ids(self, names: Sequence[tuple[str, str]]) -> list[int]:
        """The ids of those groups that exist, by their queues and names."""
        rows = await self._database.fetch(
            "group_ids", [queue for queue, _ in names], [group for _, group in names]
        )
        return [row["id"] for row in rows]

    async def fill(self, group_id: int, limit: int) -> bool:
        rows = await self._database.fetch("fill", group_id, limit)
        return rows[0]["is_filled"]

    async def seek(
        self,
        queue: str,
        group: str,
        *,
        partition: str | None,
        at: datetime | None,
        offset: int | None,
        after: int | None,
        limit: int,
    ) -> int | None:
        """Run one step. Returns the last partition id that moved, or None at the end."""
        rows = await self._database.fetch("seek", queue, group, partition, at, offset, after, limit)
        return rows[0]["partition_id"]

    async def delete(self, queue: str, group: str) -> int:
        rows = await self._database.fetch("delete_group", queue, group)
        return rows[0]["id"]

    async def ready(self, group_ids: Sequence[int]) -> list[int]:
        """The groups that have messages to deliver now."""
        rows = await self._database.fetch("ready_groups", group_ids)
        return [row["group_id"] for row in rows]

    async def page(
        self,
        order: str,
        after: Sequence[object],
        *,
        queue_id: int | None,
        name: str | None = None,
        limit: int,
        patterns: Sequence[str] | None = None,
    ) -> list[Record]:
        """Ids and queues, sorted by: age, name, name_down."""
        return await self._database.fetch(
            f"groups_by_{order}", *after, queue_id, name, limit, patterns
        )

    async def page_by_sample(
        self,
        figure: str,
        after: tuple[float, int],
        *,
        queue_id: int | None,
        name: str | None,
        limit: int,
        patterns: Sequence[str] | None = None,
    ) -> list[Record]:
        """Ids and queues, the largest first, by: lag or lag_seconds."""
        return await self._database.fetch(
            "groups_by_sample", figure, *after, queue_id, name, limit, patterns
        )

    async def figures(self, ids: Sequence[int], most: int) -> list[Record]:
        """The lag of each, from at most ``most`` rows per table."""
        return await self._database.fetch("list_groups", ids, most)

    async def queues(self, group: str, patterns: Sequence[str] | None) -> list[str]:
        """Queues that groups of this name read."""
        rows = await self._database.fetch("queues_of_group", group, patterns)
        return [row["name"] for row in rows]

    async def named(self, queue_id: int, group: str) -> int | None:
        rows = await self._database.fetch("group_named", queue_id, group)
        return rows[0]["id"] if rows else None
