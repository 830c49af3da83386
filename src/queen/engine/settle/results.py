"""Outcomes of messages: results, progress and cancellations."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal, NamedTuple

import msgspec

from queen import errors
from queen.codec.encryption.keys import is_sealed
from queen.codec.ids import Lease, place_of
from queen.codec.names import QUEUE_MODE, check_name
from queen.engine.caches.catalogue import Queue
from queen.engine.caches.queue_lookup import QueueLookup
from queen.engine.core import Core
from queen.engine.inspect.browse import MOST_READ
from queen.store.connection.database import Record
from queen.store.messages import Kept
from queen.store.results import Place
from queen.wire.messages import Acknowledgment

DEFAULT_SECONDS: Final = 86_400.0
"""How long a result is kept by default."""
_ROUNDS: Final = 1_000
_NULL: Final = b"null"

OutcomeStatus = Literal[
    "scheduled", "pending", "processing", "failed", "completed", "dead_letter", "cancelled"
]
_ENDS: Final = frozenset({"completed", "dead_letter", "cancelled"})


class Outcome(NamedTuple):
    """The state of a message that is read without a group."""

    status: OutcomeStatus
    place: Place | None
    """None if only its result is left."""
    attempts: int | None = None
    until: datetime | None = None
    """The end of its lease, or the time of its next attempt."""
    error: str | None = None
    dead_letter_id: int | None = None
    settled_at: datetime | None = None
    result: bytes | None = None
    progress: bytes | None = None
    """As stored: encrypted in an encrypted queue, like the result."""
    partition_id: int = 0
    """The partition that they are encrypted for."""

    @property
    def is_sealed(self) -> bool:
        return any(each and is_sealed(each) for each in (self.result, self.progress))

    @property
    def is_end(self) -> bool:
        return self.status in _ENDS


class Results:
    """Stores and finds the outcomes of messages."""

    def __init__(self, core: Core, queue_lookup: QueueLookup) -> None:
        self._store = core.store
        self._settings = core.settings
        self._catalogue = core.catalogue
        self._queue_lookup = queue_lookup
        self._sealer = core.sealer
        self._signals = core.signals

    # Results of acks.

    async def kept(
        self, acknowledgments: Sequence[tuple[int, Acknowledgment]]
    ) -> list[Kept | None]:
        """The results of acknowledgments, each with its partition, encrypted if the queue is."""
        found: list[Kept | None] = []
        places: dict[int, list[int]] = {}
        for at, (partition_id, each) in enumerate(acknowledgments):
            payload = self.result_of(each)
            if payload is None:
                found.append(None)
                continue
            assert each.transaction_id is not None
            seconds = self.seconds_of(each.result_seconds)
            found.append(Kept(each.transaction_id, payload, seconds))
            places.setdefault(partition_id, []).append(at)
        for partition_id, of_it in places.items():
            kept = [each for at in of_it if (each := found[at]) is not None]
            sealed = await self._sealed(partition_id, [each.result for each in kept])
            for at, each, result in zip(of_it, kept, sealed, strict=True):
                found[at] = each._replace(result=result)
        return found

    def result_of(self, each: Acknowledgment) -> bytes | None:
        """The result of an acknowledgment, or None. Raises if a result is not allowed."""
        if each.result is msgspec.UNSET:
            return None
        if each.transaction_id is None:
            raise errors.BadRequest("a result needs the transactionId of its message")
        check_name("transactionId", each.transaction_id, self._settings.max_name_bytes)
        payload = bytes(each.result)
        self._check_size(payload)
        return None if payload == _NULL else payload

    def seconds_of(self, seconds: float | None) -> float:
        """How long a result is kept."""
        most = self._settings.max_delay_seconds
        if seconds is not None and not 0 < seconds <= most:
            raise errors.BadRequest(f"resultSeconds must be above 0 and at most {most}")
        return DEFAULT_SECONDS if seconds is None else seconds

    def _check_size(self, payload: bytes) -> None:
        if len(payload) > (most := self._settings.max_payload_bytes):
            raise errors.PayloadTooLarge(f"it has {len(payload)} bytes; the maximum is {most}")

    async def _sealed(self, partition_id: int, payloads: list[bytes]) -> list[bytes]:
        name = (await self._queue_lookup.of_partitions([partition_id])).get(partition_id)
        if name is None:
            return payloads  # Its deliveries were deleted with it, so the ack will be rejected.
        keys, problems = await self._sealer.keys({name: len(payloads)})
        for problem in problems.values():
            raise problem
        for key in keys.values():
            payloads = key.seal(partition_id, payloads)
        return payloads

    # Lookups.

    async def find(
        self, queue: Queue, transaction_id: str, *, partition: str = "Default"
    ) -> Outcome:
        """The outcome of a message. Raises MessageNotFound."""
        place = await self.place(queue.id, transaction_id, partition)
        (found,) = await self.look([(queue.id, transaction_id, place)])
        if found is None and place is None:
            # It has no stored outcome, but the log may still contain it.
            place = await self.place(queue.id, transaction_id, partition, most=MOST_READ)
            if place is not None:
                (found,) = await self.look([(queue.id, transaction_id, place)])
        if found is None:
            raise errors.MessageNotFound(
                f"queue {queue.name} has no message {transaction_id} in partition {partition}"
            )
        return found

    async def look(self, messages: Sequence[tuple[int, str, Place | None]]) -> list[Outcome | None]:
        """The outcomes of messages, by queue id, transactionId and position. None if unknown."""
        outcomes: list[Outcome | None] = [
            Outcome("scheduled", place) if place and place.offset is None else None
            for _, _, place in messages
        ]
        asked = [at for at, outcome in enumerate(outcomes) if outcome is None]
        if asked:
            named = [
                (queue_id, name, place and place.partition_id, place and place.offset)
                for queue_id, name, place in (messages[at] for at in asked)
            ]
            rows = await self._store.results.find(named, QUEUE_MODE)
            for at, row in zip(asked, rows, strict=True):
                if row["status"] is not None:
                    outcomes[at] = _outcome(row)
        return outcomes

    async def reveal(self, outcome: Outcome) -> Outcome:
        """The outcome with decrypted result and progress. Raises EncryptionUnavailable."""
        opened = [
            each and (await self._sealer.open_one(outcome.partition_id, each, None))[0]
            for each in (outcome.result, outcome.progress)
        ]
        return outcome._replace(result=opened[0], progress=opened[1])

    async def place(
        self, queue_id: int, transaction_id: str, partition: str, *, most: int = 0
    ) -> Place | None:
        """The position of a message: from its id, by its key, or among the newest ``most``."""
        if (named := place_of(transaction_id)) is not None:
            return Place(named.partition_id, named.offset)
        return await self._store.results.find_place(queue_id, partition, transaction_id, most)

    async def places(
        self, messages: Sequence[tuple[int, str, str]]
    ) -> dict[tuple[int, str, str], Place | None]:
        """The positions of several messages (queue id, transactionId, partition), by id or key."""
        places: dict[tuple[int, str, str], Place | None] = {}
        unnamed: list[tuple[int, str, str]] = []
        for each in messages:
            if (named := place_of(each[1])) is not None:
                places[each] = Place(named.partition_id, named.offset)
            else:
                unnamed.append(each)
        if unnamed:
            found = await self._store.results.find_places(unnamed)
            places.update(zip(unnamed, found, strict=True))
        return places

    # Changes.

    async def cancel(
        self, queue: Queue, transaction_id: str, *, partition: str, seconds: float | None
    ) -> OutcomeStatus:
        """
        Stop the delivery of a message. Returns its former state: scheduled, pending or processing.

        Raises MessageNotFound, or AlreadySettled if the message has ended.
        """
        kept_seconds = self.seconds_of(seconds)
        await self._store.groups.subscribe(queue.name, QUEUE_MODE, mode=None, start_at=None)
        for _ in range(_ROUNDS):
            found = await self.find(queue, transaction_id, partition=partition)
            if found.is_end or found.place is None:
                raise errors.AlreadySettled(f"message {transaction_id} has ended: {found.status}")
            row = await self._store.results.cancel(
                queue.id, transaction_id, QUEUE_MODE, found.place, kept_seconds
            )
            if row is not None:
                if row["group_id"] is not None:
                    self._signals.groups_ready([row["group_id"]])
                self._signals.settled()
                return row["status"]
        raise errors.Overloaded("the message moved at every attempt; try again")

    async def cancelled(self, messages: Sequence[tuple[str, str]]) -> list[int]:
        """Indexes of the (transactionId, message id) that were cancelled."""
        numbers: list[int] = []
        named: list[tuple[str, int, int]] = []
        for number, (transaction_id, message_id) in enumerate(messages):
            if (place := place_of(message_id)) is not None:
                numbers.append(number)
                named.append((transaction_id, place.partition_id, place.offset))
        return [numbers[at] for at in await self._store.results.cancelled(named)]

    async def report_progress(
        self,
        queue: Queue,
        transaction_id: str,
        lease_id: str,
        progress: bytes,
        *,
        partition: str,
        seconds: float | None,
    ) -> None:
        """Store the progress of a message. Raises LeaseLost, MessageNotFound."""
        self._check_size(progress)
        lease = Lease.parse(lease_id)
        kept_seconds = self.seconds_of(seconds)
        place = (await self.find(queue, transaction_id, partition=partition)).place
        if place is None or place.offset is None:
            raise errors.MessageNotFound(f"queue {queue.name} has no message {transaction_id}")
        (sealed,) = await self._sealed(place.partition_id, [progress])
        is_kept = await self._store.results.report_progress(
            (lease.delivery_id, lease.token),
            transaction_id,
            place,
            sealed,
            kept_seconds,
        )
        if not is_kept:
            raise errors.LeaseLost("this lease is not the current one of the message")


def _outcome(row: Record) -> Outcome:
    partition_id, offset = row["partition_id"], row["offset"]
    return Outcome(
        row["status"],
        None if offset is None else Place(partition_id, offset),
        row["attempts"],
        row["until"],
        row["error"],
        row["dead_letter_id"],
        row["settled_at"],
        row["result"],
        row["progress"],
        partition_id,
    )
