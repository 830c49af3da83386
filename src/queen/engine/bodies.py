"""Positions that were claimed, joined with the bytes that are stored there."""

import time
from collections.abc import Sequence

from queen.codec.segment import Segment
from queen.engine.deliveries import Copy, Delivery, Lease, Run
from queen.engine.segment_cache import SegmentCache
from queen.engine.waiters import Target
from queen.store import messages as rows
from queen.store.store import Store


class Bodies:
    """Segments from the cache, else by one read."""

    def __init__(self, store: Store, cache: SegmentCache) -> None:
        self._store = store
        self._cache = cache

    async def deliveries(
        self, target: Target, claimed: Sequence[rows.Record], count: int
    ) -> list[list[Delivery]]:
        """What each of so many requests was given."""
        served: list[list[Delivery]] = [[] for _ in range(count)]
        sources: dict[tuple[int, int], Segment] = {}
        missing: set[tuple[int, int]] = set()
        for row in claimed:
            if row["xid"] is not None:
                place = (row["partition_id"], row["base_offset"])
                if (cached := self._cache.get(*place, row["xid"])) is not None:
                    sources[place] = cached
                else:
                    missing.add(place)
        if missing:
            sources.update(await self._read(missing))
        delivery: Delivery | None = None
        last: object = None
        claimed_ms = int(time.time() * 1000)
        for row in claimed:
            if row["request"] is None:
                continue
            place = (row["partition_id"], row["base_offset"])
            source = (
                Copy(row["payload"], row["extras"]) if row["xid"] is None else sources.get(place)
            )
            if source is None:
                continue  # Purged since the claim, and the lease with it.
            if row["xid"] is not None and sources[place].count < row["end_offset"] - place[1]:
                continue  # Cut by a redaction since the claim: the lease brings it again.
            key = row["delivery_id"] or (row["request"], row["partition_id"], row["attempts"])
            if delivery is None or key != last:
                last = key
                delivery = self._delivery(target, row, claimed_ms)
                request: int = row["request"]
                served[request - 1].append(delivery)
            delivery.runs.append(
                Run(row["first_offset"], row["end_offset"], place[1], row["created_at"], source)
            )
        return served

    def _delivery(self, target: Target, row: rows.Record, claimed_ms: int) -> Delivery:
        shard = self._store.shard
        delivery_id = row["delivery_id"]
        lease = None
        if delivery_id is not None:
            lease = Lease(shard, delivery_id, row["token"], claimed_ms)
        return Delivery(
            shard=shard,
            queue=target.queues[row["group_id"]],
            partition=row["partition"],
            partition_id=row["partition_id"],
            level=row["level"],
            group=target.name.group,
            group_id=row["group_id"],
            lease=lease,
            until=row["until"],
            attempt=row["attempts"] + 1,
        )

    async def _read(self, places: set[tuple[int, int]]) -> dict[tuple[int, int], Segment]:
        ordered = sorted(places)
        found = await self._store.messages.segments(
            [partition_id for partition_id, _ in ordered], [base for _, base in ordered]
        )
        read: dict[tuple[int, int], Segment] = {}
        for row in found:
            place = (row["partition_id"], row["base_offset"])
            if row["body"] is None:
                continue
            read[place] = Segment(
                xid=row["xid"],
                count=row["message_count"],
                body=row["body"],
                ends=row["ends"],
                extras=row["extras"],
            )
            self._cache.put(*place, read[place])
        return read
