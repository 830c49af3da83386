"""The database of a transaction, and its pushes to other databases."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from queen import errors
from queen.cluster.following import Following
from queen.cluster.lookups import Lookups, slot_of_lease
from queen.cluster.pushes import Pushes
from queen.cluster.results import grouped
from queen.codec.names import check_queue_name
from queen.engine.engine import Engine
from queen.wire.messages import Acknowledgment, PushItem


class Division(NamedTuple):
    """Where a transaction is applied."""

    engine: Engine
    forwarded: Sequence[int] = ()
    """The indexes of items that are sent to other databases."""
    hindrance: errors.QueenError | None = None
    """Why one of them can't be sent, unless the request is a repeat."""


class TransactionPlaces:
    """Finds the databases of transactions."""

    def __init__(self, lookups: Lookups, following: Following, pushes: Pushes) -> None:
        self._lookups = lookups
        self._following = following
        self._pushes = pushes

    async def find(
        self,
        acknowledgments: Sequence[Acknowledgment],
        required_leases: Sequence[str],
        consumer_group: str | None,
        items: Sequence[PushItem],
        queues: Iterable[str] = (),
    ) -> Engine:
        """The engine of everything. Raises CrossShard if it needs several."""
        needed = await self._of_leases(acknowledgments, required_leases, consumer_group)
        for slot, what in (await self._pushes.needed(items, queues)).items():
            needed.setdefault(self._following.engine(slot), what)
        if len(needed) > 1:
            raise self._pushes.apart(needed)
        engine = next(iter(needed), self._following.engine(None))
        await self._pushes.claim({*queues, *(each.queue for each in items)}, engine)
        return engine

    async def divide(
        self,
        acknowledgments: Sequence[Acknowledgment],
        required_leases: Sequence[str],
        consumer_group: str | None,
        items: Sequence[PushItem],
        *,
        is_rolled_back_on_duplicate: bool,
    ) -> Division:
        """
        The engine of the acknowledgments or else of the first push, and the pushes to others.

        Raises CrossShard if the acknowledgments are in several databases.
        """
        self._check_names(items)
        needed = await self._of_leases(acknowledgments, required_leases, consumer_group)
        if len(needed) > 1:
            where = self._pushes.names(needed)
            raise errors.CrossShard(
                f"The acknowledgments and required leases are in several databases ({where}), and"
                " only pushes can be sent to another database. Send one transaction per database."
            )
        owners = [self._following.engine(slot) for slot in await self._pushes.slots(items)]
        engine = next(iter((*needed, *owners)), self._following.engine(None))
        here = {item.queue for item, owner in zip(items, owners, strict=True) if owner is engine}
        # Earlier messages of a queue may still be on their way. These follow them.
        behind = await engine.forwarder.waiting(here)
        forwarded = [
            at
            for at, owner in enumerate(owners)
            if owner is not engine or items[at].queue in behind
        ]
        await self._pushes.claim(here - behind, engine)
        try:
            for owner, indexes in grouped(forwarded, owners.__getitem__).items():
                await self._check(owner, items, indexes, is_rolled_back_on_duplicate)
        except errors.SlotMoved:
            raise  # The caller finds the queue again.
        except errors.QueenError as error:
            return Division(engine, forwarded, error)
        return Division(engine, forwarded)

    def _check_names(self, items: Sequence[PushItem]) -> None:
        most = self._following.engine(None).settings.max_name_bytes
        for at, item in enumerate(items):
            try:
                check_queue_name("queue", item.queue, most)
            except errors.InvalidName as error:
                error.members["failed"] = ("item", at)
                raise

    async def _check(
        self,
        owner: Engine,
        items: Sequence[PushItem],
        indexes: Sequence[int],
        is_rolled_back_on_duplicate: bool,
    ) -> None:
        for at in indexes:
            if self._pushes.is_spread(items[at].queue):
                raise errors.CrossShard(
                    f"Queue {items[at].queue} has placement spread, and its partition"
                    f" {items[at].partition} is in another database than the transaction. Only"
                    " queues with placement home can be reached from there.",
                    failed=("item", at),
                )
        await owner.arrivals.check(
            items, indexes, is_rolled_back_on_duplicate=is_rolled_back_on_duplicate
        )

    async def _of_leases(
        self,
        acknowledgments: Sequence[Acknowledgment],
        required_leases: Sequence[str],
        consumer_group: str | None,
    ) -> dict[Engine, str]:
        """Name a lease or an acknowledgment for each engine that they need."""
        needed: dict[Engine, str] = {}
        for lease_id in required_leases:
            engine = self._following.engine(slot_of_lease(lease_id))
            needed.setdefault(engine, "a required lease")
        for each in acknowledgments:
            # A message that no database knows is rejected by the transaction, or was acknowledged.
            where = await self._lookups.of_acknowledgment(each, consumer_group)
            if where is not None:
                needed.setdefault(self._following.engine(where), "an acknowledgment")
        return needed
