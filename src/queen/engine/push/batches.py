"""The pieces of a push: parts by partition, units that are stored as a whole, and results."""

import asyncio
from bisect import bisect_left
from collections.abc import Hashable, Sequence, Set
from datetime import datetime
from typing import NamedTuple, overload

from queen.codec.ids import message_id, reference
from queen.engine.caches.catalogue import PartitionName
from queen.engine.push.producers import Producer
from queen.wire.messages import Pushed, PushItem


class Scheduled(NamedTuple):
    """A message with a delayed delivery."""

    item: int
    payload: bytes
    extra: bytes | None
    delay_seconds: float | None
    due_at: datetime | None
    ttl_seconds: float | None
    has_key: bool


class PartitionBatch:
    """
    The messages of one request for one partition, and their outcomes.

    A message is identified by its index in ``payloads``. A scheduled one has a negative index,
    counted down from -1.
    """

    __slots__ = ("base", "items", "marked", "name", "partition_id", "payloads")

    def __init__(self, name: PartitionName, items: Sequence[int], payloads: list[bytes]) -> None:
        self.name = name
        self.items: Sequence[int] = items
        """The index of each message in the request."""
        self.payloads = payloads
        self.marked: MessageExtras | None = None
        """None for most parts."""
        self.partition_id: int | None = None
        self.base: int | None = None
        """The offset of the first stored message."""

    @property
    def queue(self) -> str:
        return self.name[0]

    @property
    def all_items(self) -> list[int]:
        held = self.marked.scheduled if self.marked else ()
        return [*self.items, *(each.item for each in held)]

    @property
    def size_bytes(self) -> int:
        size_bytes = sum(map(len, self.payloads)) + 100
        if self.marked is not None:
            size_bytes += sum(map(len, self.marked.extras.values()))
            for held in self.marked.scheduled:
                size_bytes += len(held.payload) + len(held.extra or b"")
        return size_bytes

    @property
    def counts(self) -> tuple[int, int]:
        """The number of stored messages and of duplicates."""
        marked = self.marked
        if marked is None:
            return len(self.payloads), 0
        duplicates = len(marked.duplicates) + len(marked.echoes)
        messages = len(self.payloads) + len(marked.scheduled)
        return messages - duplicates - len(marked.refused), duplicates

    def item_at(self, place: int) -> int:
        """The request's item for a message. An index below 0 is a scheduled message."""
        if place >= 0:
            return self.items[place]
        assert self.marked is not None
        return self.marked.scheduled[-1 - place].item

    def answer(self, place: int) -> Pushed:
        """The result of the message at an index."""
        marked = self.marked
        if marked is not None and place in marked.refused:
            return marked.refused[place]
        if marked is None:
            offset = None if self.base is None else self.base + place
            status, transaction_id = "queued", None
        else:
            status, offset = marked.outcome(self, place)
            transaction_id = marked.transaction_ids.get(place)
        if self.partition_id is None or offset is None:
            return Pushed(
                status=status,  # pyright: ignore[reportArgumentType]
                transaction_id=transaction_id,
                partition_id=None if self.partition_id is None else reference(self.partition_id),
            )
        id_ = message_id(self.partition_id, offset)
        return Pushed(
            status=status,  # pyright: ignore[reportArgumentType]
            id=id_,
            transaction_id=transaction_id or id_,
            partition_id=reference(self.partition_id),
            offset=offset,
        )


class MessageExtras:
    """The fields of messages besides their payload, by index, and their different outcomes."""

    __slots__ = (
        "duplicates",
        "echoes",
        "extras",
        "has_keys",
        "left_out",
        "refused",
        "scheduled",
        "transaction_ids",
        "ttls",
    )

    def __init__(self, *, has_keys: bool) -> None:
        self.has_keys = has_keys
        """Whether the queue remembers transactionIds."""
        self.extras: dict[int, bytes] = {}
        self.ttls: dict[int, float] = {}
        self.transaction_ids: dict[int, str] = {}
        self.scheduled: list[Scheduled] = []
        self.duplicates: dict[int, int | None] = {}
        """Indexes of known transactionIds, and the offset of the first message with each."""
        self.echoes: dict[int, tuple[PartitionBatch, int]] = {}
        """Indexes whose transactionId another message of the same flush has."""
        self.refused: dict[int, Pushed] = {}
        """Indexes that the database rejected, and their results."""
        self.left_out: list[int] | None = None
        """Indexes that were not stored, in order. Computed for the first result."""

    def begin_again(self) -> None:
        """Reset before another flush, which finds equal messages again."""
        self.echoes = {}
        self.left_out = None

    def has_ids_alone(self, count: int) -> bool:
        """Return whether all ``count`` messages have a transactionId and no other extras."""
        return (
            len(self.transaction_ids) == count
            and len(self.extras) == count
            and not (self.ttls or self.scheduled or self.duplicates or self.refused)
        )

    def add(
        self,
        part: PartitionBatch,
        index: int,
        item: PushItem,
        extra: bytes | None,
        minted: str | None,
    ) -> None:
        """Add an item with extras, and the transactionId that it was given."""
        if item.delay_seconds is not None or item.available_at is not None:
            self._schedule(index, item, extra, minted)
            return
        place = len(part.payloads)
        if item.transaction_id is not None:
            self.transaction_ids[place] = item.transaction_id
        if extra is not None:
            self.extras[place] = extra
        if item.ttl_seconds is not None:
            self.ttls[place] = item.ttl_seconds
        assert isinstance(part.items, list)
        part.items.append(index)
        part.payloads.append(item.payload)  # pyright: ignore[reportArgumentType] - Raw is a buffer

    def _schedule(
        self, index: int, item: PushItem, extra: bytes | None, minted: str | None
    ) -> None:
        self.scheduled.append(
            Scheduled(
                item=index,
                payload=bytes(item.payload),
                extra=extra,
                delay_seconds=item.delay_seconds,
                due_at=item.available_at,
                ttl_seconds=item.ttl_seconds,
                has_key=self.has_keys and minted is None,
            )
        )
        self.transaction_ids[-len(self.scheduled)] = item.transaction_id or minted or ""

    def outcome(self, part: PartitionBatch, place: int) -> tuple[str, int | None]:
        """Status and offset of one message of a part."""
        if place in self.echoes:
            first, at = self.echoes[place]
            assert first.marked is not None  # It has a transactionId.
            return "duplicate", first.marked.outcome(first, at)[1]
        if place in self.duplicates:
            return "duplicate", self.duplicates[place]
        if part.base is None or place < 0:
            return "queued", None
        return "queued", part.base + place - bisect_left(self.unstored(), place)

    def unstored(self) -> list[int]:
        """Indexes of duplicates, which were not stored, in order."""
        if self.left_out is None:
            self.left_out = sorted(each for each in (*self.duplicates, *self.echoes) if each >= 0)
        return self.left_out


class PendingPush:
    """Messages stored together: a request's part for one partition, or a whole request."""

    __slots__ = (
        "are_minted",
        "done",
        "forwarded",
        "is_replayed",
        "keys",
        "parts",
        "producer",
        "size_bytes",
    )

    def __init__(
        self,
        parts: Sequence[PartitionBatch],
        *,
        producer: Producer | None = None,
        are_minted: bool = False,
        forwarded: Sequence[int] = (),
    ) -> None:
        self.parts = parts
        self.forwarded = forwarded
        """The indexes of items that are sent to other databases, and so are in no part."""
        self.producer = producer
        self.are_minted = are_minted
        """Items without a transactionId were given one from the producer."""
        self.is_replayed = False
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if len(parts) == 1:
            self.keys: tuple[Hashable, ...] = (parts[0].name,)
            self.size_bytes = parts[0].size_bytes
        else:
            # One request per producer in flight. SQL rejects the later one of two.
            self.keys = (*(part.name for part in parts), producer and producer.key)
            self.size_bytes = sum([part.size_bytes for part in parts])

    def fail(self, error: BaseException) -> None:
        if not self.done.done():
            self.done.set_exception(error)
            # The caller may have been cancelled.
            self.done.exception()

    def finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


class PushResult(Sequence[Pushed]):
    """The results of a push in the order of its items, each created on access."""

    __slots__ = (
        "_count",
        "_parts",
        "_refused",
        "_where",
        "is_replayed",
        "stale_advances",
    )

    is_buffered = False
    """On disk, to be stored later."""

    def __init__(
        self,
        count: int,
        parts: Sequence[PartitionBatch],
        refused: dict[int, Pushed],
        *,
        is_replayed: bool = False,
        stale_advances: Set[int] = frozenset(),
    ) -> None:
        self.is_replayed = is_replayed
        self.stale_advances = stale_advances
        """For a transaction: which of its advances were too late for their step."""
        self._count = count
        self._parts = parts
        self._refused = refused
        self._where: dict[int, tuple[PartitionBatch, int]] | None = None

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Pushed: ...
    @overload
    def __getitem__(self, index: slice) -> list[Pushed]: ...
    def __getitem__(self, index: int | slice) -> Pushed | list[Pushed]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._count))]
        if not -self._count <= index < self._count:
            raise IndexError(index)
        index %= self._count
        return self._refused.get(index) or self._answer(index)

    def _answer(self, index: int) -> Pushed:
        """The result of an item that was not rejected."""
        if self._where is None:
            self._where = self._places()
        part, place = self._where[index]
        return part.answer(place)

    @property
    def first_refused(self) -> Pushed | None:
        """The first rejected item, if all were rejected."""
        if not self.may_be_refused:
            return None
        answers = [self[index] for index in range(self._count)]
        if any(answer.status != "failed" for answer in answers):
            return None
        return answers[0]

    @property
    def may_be_refused(self) -> bool:
        """Whether some items may have been rejected."""
        if self._refused:
            return True
        for part in self._parts:  # noqa: SIM110 - most results have one part, and are checked hot
            if part.marked is not None and part.marked.refused:
                return True
        return False

    def plain(self) -> tuple[int, int, int] | None:
        """Partition id, first offset and count, if these describe the whole result."""
        if self._refused or len(self._parts) != 1:
            return None
        part = self._parts[0]
        if part.marked is not None or part.base is None or part.partition_id is None:
            return None
        return part.partition_id, part.base, self._count

    def _places(self) -> dict[int, tuple[PartitionBatch, int]]:
        where: dict[int, tuple[PartitionBatch, int]] = {}
        for part in self._parts:
            for place, item in enumerate(part.items):
                where[item] = (part, place)
            for at, held in enumerate(part.marked.scheduled if part.marked else ()):
                where[held.item] = (part, -1 - at)
        return where


class BufferedResult(PushResult):
    """The results of a push that is on disk: the messages have no position yet."""

    __slots__ = ("_transaction_ids",)

    is_buffered = True

    def __init__(self, transaction_ids: Sequence[str], refused: dict[int, Pushed]) -> None:
        super().__init__(len(transaction_ids), (), refused)
        self._transaction_ids = transaction_ids

    def _answer(self, index: int) -> Pushed:
        return Pushed(status="buffered", transaction_id=self._transaction_ids[index])


class ForwardedResult(PushResult):
    """The results of a transaction with items that are sent to other databases."""

    __slots__ = ("_transaction_ids",)

    def __init__(
        self,
        count: int,
        parts: Sequence[PartitionBatch],
        transaction_ids: dict[int, str | None],
        stale_advances: Set[int],
    ) -> None:
        """``transaction_ids``: of the items that are sent to other databases, by index."""
        super().__init__(count, parts, {}, stale_advances=stale_advances)
        self._transaction_ids = transaction_ids

    def _answer(self, index: int) -> Pushed:
        if index in self._transaction_ids:
            return Pushed(status="queued", transaction_id=self._transaction_ids[index])
        return super()._answer(index)
