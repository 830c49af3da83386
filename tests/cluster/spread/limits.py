"""A spread queue with a limit, and what each database may use of it."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from queen.cluster.cluster import Cluster
from queen.engine.pop.delivery import Delivery
from queen.wire.messages import PopRequest
from tests.cluster.places import NAMES, named
from tests.engine.helpers import ack, item, until

PARTITIONS: Final = {name: named(name, 12) for name in NAMES}
"""Names of partitions in each database."""


class Limited:
    """A queue, which is unordered unless its options differ."""

    def __init__(self, cluster: Cluster, queue: str = "orders") -> None:
        self._cluster = cluster
        self.queue = queue

    async def configure(self, **options: Any) -> None:  # noqa: ANN401
        """Create the queue, or change its options."""
        engine = await self._cluster.of_new_queue(self.queue, is_spread=True)
        chosen = {"placement": "spread", "ordered": False, **options}
        row = await engine.queues.configure(self.queue, chosen)
        await self._cluster.publish(self.queue, row["id"])

    async def push(self, *databases: str, each: int = 10) -> None:
        """Push messages to partitions of these databases, or of all. They contain its name."""
        for name in databases or NAMES:
            await self._cluster.push(
                [item(self.queue, name, partition=PARTITIONS[name][n % 12]) for n in range(each)]
            )

    async def pop(self, **fields: Any) -> list[Delivery]:  # noqa: ANN401
        """All deliveries that pops return, of one message each."""
        found: list[Delivery] = []
        request = PopRequest(queue=self.queue, batch=1, **fields)
        while some := (await self._cluster.pop(request)).deliveries:
            found += some
        return found

    async def pop_until(self, count: int, **fields: Any) -> list[Delivery]:  # noqa: ANN401
        """Pop this many deliveries, and check that the next pop is empty."""
        found: list[Delivery] = []

        async def are_there() -> bool:
            found.extend(await self.pop(**fields))
            return len(found) >= count

        await until(are_there, seconds=15)
        assert len(found) == count
        return found

    async def reports(self, *databases: str) -> dict[str, Any]:
        """What databases report about the limit of the only group."""
        return {
            name: (await self._cluster.engines[name].store.shares.reports())[0]
            for name in databases or self._cluster.engines
        }

    async def shares(self, kind: str = "concurrency") -> dict[str, int]:
        """What each database may use."""
        moved = kind == "concurrency"
        return {
            name: row[f"{kind}_share"] + moved * row["moved_leases"]
            for name, row in (await self.reports()).items()
        }

    async def until_shares(
        self, is_right: Callable[[dict[str, int]], bool], kind: str = "concurrency"
    ) -> dict[str, int]:
        """Wait for shares."""
        found: dict[str, int] = {}

        async def are_right() -> bool:
            found.update(await self.shares(kind))
            return is_right(found)

        await until(are_right, seconds=15)
        return found

    async def live(self) -> int:
        """The number of leases in all databases."""
        return sum(row["concurrency_used"] for row in (await self.reports()).values())

    async def ack(self, deliveries: Iterable[Delivery]) -> None:
        """Acknowledge deliveries in the databases that own their slots now."""
        if not self._cluster.is_alone:
            await self._cluster.owners.load()
        for each in deliveries:
            await ack(self._cluster.of_id(each.partition_id), each)
