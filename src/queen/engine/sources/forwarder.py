"""Pushes messages of the outbox to queues in other databases, each exactly once."""

import asyncio
import logging
import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Protocol

from queen import errors, tasks
from queen.engine.core import Core
from queen.engine.push.producers import Producer
from queen.engine.runtime.periodic import PeriodicTask
from queen.engine.sources.outbox_items import item_of
from queen.store.connection.database import Record
from queen.wire.messages import PushItem

_LOG: Final = logging.getLogger("queen.engine")
_LIMIT: Final = 500
_BYTES: Final = 4 * 2**20
_HOLD_SECONDS: Final = 3.0
"""How long a process keeps a queue without taking a batch of it."""
_POLL_SECONDS: Final = 60.0
"""The interval without messages. The heartbeat finds those of a process that died earlier."""
_LONGEST_PAUSE_SECONDS: Final = 2.0


class Destination(Protocol):
    """The database of one queue. `Arrivals` implements it."""

    async def store(self, items: Sequence[PushItem], producer: Producer) -> dict[int, str]:
        """Store a batch, unless it is stored. Returns the reasons for items that can't be."""
        ...

    async def abandon(self, queue: str, producer: Producer) -> bool:
        """Make sure that a batch is not stored later. Returns False if it is stored."""
        ...


class Destinations(Protocol):
    """The databases of queues."""

    async def elsewhere(self, queues: Collection[str]) -> set[str]:
        """Those that are in another database, or whose database can't be found now."""
        ...

    async def arrivals(self, queue: str) -> Destination:
        """Where a queue is, or will be created."""
        ...

    async def reload(self) -> None:
        """Find queues again, because one has moved."""
        ...


class Forwarder(PeriodicTask):
    """
    Empties `queen.forwards`. With one database it does nothing.

    Each queue has its own batches, so a database that is unavailable delays only its queues. Two
    processes that send the same batch use the same sequence, and the database of the queue stores
    it once. The record of that moves with the queue's slot.
    """

    def __init__(self, core: Core) -> None:
        super().__init__()
        self._store = core.store.forwards
        self._limit = min(_LIMIT, core.settings.max_items)
        self._holder = random.getrandbits(62)
        self._destinations: Destinations | None = None
        self._running: dict[str, asyncio.Task[None]] = {}
        self._filled: set[str] = set()
        """Queues that got messages while their task was running."""

    def connect(self, destinations: Destinations) -> None:
        """Start to forward messages, because there are other databases."""
        self._destinations = destinations
        self.start()

    async def close(self) -> None:
        await super().close()
        await tasks.stop(*[*self._running.values()])

    @property
    def is_connected(self) -> bool:
        """There are other databases."""
        return self._destinations is not None

    async def elsewhere(self, queues: Collection[str]) -> set[str]:
        """The queues whose messages are forwarded, because they or earlier ones must be."""
        if self._destinations is None:
            return set()
        return await self._destinations.elsewhere(queues) | await self.waiting(queues)

    async def waiting(self, queues: Collection[str]) -> set[str]:
        """The queues with messages that are not sent yet. Later ones must follow them."""
        return await self._store.queues([*queues]) if queues else set()

    async def reload(self) -> None:
        """Find queues again, because one has moved."""
        if self._destinations is not None:
            await self._destinations.reload()

    async def take_over(self, queues: Mapping[int, str]) -> bool:
        """
        Forward these messages of the outbox. Returns False if another process moved one of them.

        ``queues``: the queue of each message, by its id in the outbox.
        """
        is_moved = await self._store.add(queues)
        self.begin(queues.values())
        return is_moved

    async def run(self) -> float:
        queues = await self._store.queues()
        self.begin(queues)
        # Another process may hold some of them, and may have died.
        return (_HOLD_SECONDS if queues else _POLL_SECONDS) * random.uniform(0.8, 1.2)

    def begin(self, queues: Iterable[str]) -> None:
        """Send the messages of these queues."""
        for queue in queues:
            if queue in self._running:
                self._filled.add(queue)
            else:
                self._running[queue] = asyncio.create_task(self._empty(queue))

    async def _empty(self, queue: str) -> None:
        """Send all messages of a queue, unless another process sends them."""
        assert self._destinations is not None
        sending = _Queue(queue, self._destinations, self._limit)
        failures = 0
        try:
            while True:
                self._filled.discard(queue)
                try:
                    is_sent = await self._send_batch(sending)
                    failures = 0
                except Exception as error:
                    # The batch and its sequence stay the same for the retry.
                    failures += 1
                    if not isinstance(error, errors.ServiceError | errors.OutcomeUnknown):
                        _LOG.exception("forwarding messages to queue %s failed", queue)
                    await asyncio.sleep(_pause_seconds(failures))
                    continue
                if not is_sent and queue not in self._filled:
                    return
        finally:
            del self._running[queue]

    async def _send_batch(self, sending: "_Queue") -> bool:
        """Send one batch. Returns False if there is none, or if another process sends it."""
        rows = await self._store.take(
            sending.name, self._holder, _HOLD_SECONDS, sending.limit, _BYTES
        )
        if not rows:
            return False
        sequence: int = rows[0]["sequence"]
        reasons = await sending.send(rows)
        if reasons is None:
            await self._store.end(sending.name, sequence)
            return True
        if reasons:
            _LOG.warning(
                "%d messages of the outbox cannot be pushed to queue %s",
                len(reasons),
                sending.name,
            )
        await self._store.refuse(
            sending.name, sequence, {rows[at]["id"]: reason for at, reason in reasons.items()}
        )
        return True


class _Queue:
    """A queue whose messages are sent, to wherever it is."""

    def __init__(self, name: str, destinations: Destinations, most: int) -> None:
        self.name = name
        self._destinations = destinations
        self._most = most
        self.limit = most
        """How many messages the next batch may have."""

    async def send(self, rows: Sequence[Record]) -> dict[int, str] | None:
        """
        Store a batch. Returns None if it is stored, now or before.

        Otherwise it was abandoned, and this returns the reasons for those of its messages that
        can't be stored.
        """
        producer = Producer(
            rows[0]["producer_id"], rows[0]["sequence"], scope=f"outbox:{self.name}"
        )
        try:
            arrivals = await self._destinations.arrivals(self.name)
            reasons = await self._store(arrivals, rows, producer)
            if reasons is None:
                self.limit = min(self._most, self.limit * 2)
                return None
            return reasons if await arrivals.abandon(self.name, producer) else None
        except errors.SlotMoved:
            await self._destinations.reload()
            raise

    async def _store(
        self, arrivals: Destination, rows: Sequence[Record], producer: Producer
    ) -> dict[int, str] | None:
        try:
            return await arrivals.store(_items(rows), producer) or None
        except errors.SequenceStale:
            return None  # Another process has sent this batch and a later one.
        except errors.SequenceReused:
            return {}  # It was abandoned, and the process that did so died.
        except (errors.ServiceError, errors.OutcomeUnknown):
            raise
        except Exception as error:
            if len(rows) == 1:
                return {0: str(error) or type(error).__name__}
            # One of them is invalid, but the error doesn't name it: push them one by one.
            self.limit = 1
            return {}


def _items(rows: Sequence[Record]) -> list[PushItem]:
    return [item_of(row) for row in rows]


def _pause_seconds(failures: int) -> float:
    most = min(_LONGEST_PAUSE_SECONDS, 0.05 * 2 ** min(failures, 10))
    return random.uniform(most / 2, most)
