"""The rules that every order of transactions must keep."""

import asyncpg

from queen.store.messages import Ack
from queen.store.store import Store
from tests.sql.interleavings.scene import LEASE_SECONDS, Scene, Violation, take
from tests.support.clock import Clock


class Rules:
    """Checks of the tables and of all remaining messages of a scene."""

    def __init__(
        self, base: "asyncpg.Connection[asyncpg.Record]", store: Store, clock: Clock
    ) -> None:
        self._base = base
        self._store = store
        self._clock = clock

    async def check(self, scene: Scene) -> None:
        """
        No message is lost, skipped or reordered, one lease per pair, no idle pair with messages.
        """
        await self.check_offsets(scene)
        await self.check_keys(scene)
        await self.check_producer(scene)
        await self.check_settled_once(scene)
        await self.check_holders(scene)
        await self.check_wakefulness(scene)
        await self.check_drain(scene)

    async def check_offsets(self, scene: Scene) -> None:
        """I5: offsets are dense from 0, and as many as the pushes returned."""
        for partition, partition_id in scene.partition_ids.items():
            next_offset = 0
            for row in await self._base.fetch(
                "select base_offset, message_count from queen.segments"
                " where partition_id = $1 order by base_offset",
                partition_id,
            ):
                if row["base_offset"] != next_offset:
                    raise Violation(f"offsets not dense: {row} where {next_offset} comes next")
                next_offset += row["message_count"]
            if next_offset != scene.pushed[partition]:
                raise Violation(f"{next_offset} messages stored of {scene.pushed[partition]}")

    async def check_keys(self, scene: Scene) -> None:
        """I17: every push of a transactionId returned the same offset."""
        if len(scene.keyed) > 1:
            raise Violation(f"a transactionId was stored twice: at {scene.keyed}")

    async def check_producer(self, scene: Scene) -> None:
        """Every request of a producer is stored at most once, and its outcome is its offset."""
        if not scene.numbered:
            return
        stored = dict(scene.numbered)
        if len(stored) < len(scene.numbered):
            raise Violation(f"a request was stored twice: {scene.numbered}")
        last = max(stored)
        row = await self._base.fetchrow(
            "select sequence, outcome, bases from queen.producers where producer_id = $1",
            scene.queue,
        )
        if row is None or tuple(row) != (last, b"outcome", [stored[last]]):
            raise Violation(f"{row} is not the last of {scene.numbered}")

    async def check_settled_once(self, scene: Scene) -> None:
        """I10: of two calls that settle one message, one is rejected."""
        twice = [place for place, times in scene.settled.items() if times > 1]
        if twice:
            raise Violation(f"settled twice: {twice}")

    async def check_holders(self, scene: Scene) -> None:
        """I9: no message is leased twice, and an ordered pair has one delivery."""
        deliveries = await self._base.fetch(
            """
            select a.partition_id, a.pending::text as pending, b.pending::text as other
            from queen.deliveries a
            join queen.deliveries b
              on b.group_id = a.group_id and b.partition_id = a.partition_id and b.id > a.id
            where a.group_id = $1
              and case
                when $2 then a.until < 'infinity' and b.until < 'infinity'
                else a.pending && b.pending
              end
            """,
            scene.group_id,
            scene.is_ordered,
        )
        if deliveries:
            raise Violation(f"two holders: {deliveries}")

    async def check_wakefulness(self, scene: Scene) -> None:
        """Rule 3: no pair with unclaimed messages is idle."""
        asleep = await self._base.fetch(
            """
            select c.partition_id, c.claimed, s.next_offset
            from queen.consumers c
            cross join lateral (
              select max(s.base_offset + s.message_count) as next_offset
              from queen.segments s where s.partition_id = c.partition_id
            ) s
            where c.group_id = $1
              and c.ready_at is null
              and not c.held
              and c.claimed < s.next_offset
            """,
            scene.group_id,
        )
        if asleep:
            raise Violation(f"lost wake-up: {asleep}")

    async def check_drain(self, scene: Scene) -> None:
        """
        I1, I7, I12: unsettled messages are delivered once and in order, and settled ones are not.
        """
        came: dict[str, list[int]] = {partition: [] for partition in scene.partition_ids}
        # All current deliveries expire and are redelivered.
        await self._clock.advance(seconds=3 * LEASE_SECONDS)
        for _ in range(100):
            leases = await take(scene, self._store, batch=3)
            if not leases:
                break
            for lease in leases:
                came[lease.partition].extend(lease.offsets)
                (row,) = await self._store.messages.ack([Ack(lease.delivery_id, lease.token, None)])
                if row["code"] is not None:
                    raise Violation(f"a current lease was refused: {lease}")
        else:
            raise Violation(f"it does not drain: {came}")
        for partition, offsets in came.items():
            expected = [
                offset
                for offset in range(scene.pushed[partition])
                if (partition, offset) not in scene.settled
            ]
            if sorted(offsets) != expected:
                raise Violation(f"{partition}: {offsets} came, {expected} were to come")
            in_order = [each for each in offsets if (partition, each) not in scene.redriven]
            if scene.is_ordered and in_order != sorted(in_order):
                raise Violation(f"{partition}: out of order: {offsets}")
