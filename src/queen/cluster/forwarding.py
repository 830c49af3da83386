"""The outboxes of all databases reach the queues of all databases."""

import contextlib
from collections.abc import Collection, Sequence

from queen import errors
from queen.cluster.cluster import Cluster
from queen.codec.names import check_queue_name
from queen.engine.push.arrivals import Arrivals
from queen.engine.push.producers import Producer
from queen.engine.sources.forwarder import Destination
from queen.store.cluster.homes import SPREAD
from queen.wire.messages import PushItem


def connect_outboxes(cluster: Cluster) -> None:
    """Forward messages of each outbox to the databases of their queues. With one, do nothing."""
    if not cluster.is_alone:
        for name, engine in cluster.engines.items():
            engine.forwarder.connect(Others(cluster, name))


class Others:
    """The databases of queues, for the outbox of one."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self._name = name

    async def elsewhere(self, queues: Collection[str]) -> set[str]:
        """Those that are in another database, or whose database can't be found now."""
        places, owners = self._cluster.places, self._cluster.owners
        valid = {each for each in queues if self._is_valid(each)}
        try:
            slots = await places.of_queues(valid)
        except errors.DatabaseUnavailable:
            # Without the first database, those that this process knows.
            known = {each: places.known(each) for each in valid}
            slots = {each: slot for each, slot in known.items() if slot is not None}
        return valid - {
            each
            for each, slot in slots.items()
            if slot != SPREAD and owners.of_slot(slot) == self._name
        }

    async def arrivals(self, queue: str) -> Destination:
        """Where a queue is, or will be created."""
        if await self._cluster.is_spread(queue):
            return _Rejected(self._cluster.first.arrivals)
        return (await self._cluster.of_new_queue(queue)).arrivals

    async def reload(self) -> None:
        """Find queues again, because one has moved."""
        with contextlib.suppress(errors.QueenError):
            await self._cluster.owners.load()

    def _is_valid(self, queue: str) -> bool:
        # The engine rejects an invalid name with its reason.
        with contextlib.suppress(errors.InvalidName):
            check_queue_name("queue", queue, self._cluster.first.settings.max_name_bytes)
            return True
        return False


class _Rejected:
    """Returns messages for a spread queue to the outbox, because their batches need one slot."""

    def __init__(self, first: Arrivals) -> None:
        self._first = first

    async def store(self, items: Sequence[PushItem], producer: Producer) -> dict[int, str]:
        """Reject all items."""
        del producer
        return {
            at: f"queue {item.queue} has placement spread, and the outbox of several databases"
            " reaches only queues with placement home"
            for at, item in enumerate(items)
        }

    async def abandon(self, queue: str, producer: Producer) -> bool:
        """Make sure that a batch is not stored later."""
        return await self._first.abandon(queue, producer)
