"""The pieces of a push: parts by lane, units that are stored whole, and the answers."""

import asyncio
from bisect import bisect_left
from collections.abc import Hashable, Sequence, Set
from datetime import datetime
from typing import NamedTuple, overload

from queen.codec.ids import message_id, partition_ref
from queen.engine.caches.catalogue import LaneName
from queen.engine.push.producers import Producer
from queen.wire.messages import Pushed, PushItem


class Scheduled(NamedTuple):
    """A message that is held back."""

    item: int
    payload: bytes
    extra: bytes | None
    delay_seconds: float | None
    due_at: datetime | None
    ttl_seconds: float | None
    has_key: bool


class PartitionBatch:
    """
    The messages of one request for one lane, and what became of each.

    A message is named by its place in ``payloads``; one that is held back by a place that counts
    down from -1.
    """

    __slots__ = ("base", "items", "lane", "marked", "partition_id", "payloads")

    def __init__(self, lane: LaneName, items: Sequence[int], payloads: list[bytes]) -> None:
        self.lane = lane
        self.items: Sequence[int] = items
        """Where in the request each message was."""
        self.payloads = payloads
        self.marked: MessageExtras | None = None
        """What most parts have not."""
        self.partition_id: int | None = None
        self.base: int | None = None
        """Offset of the first message that was stored."""

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
        """How many messages were stored, and how many were duplicates."""
        marked = self.marked
        if marked is None:
            return len(self.payloads), 0
        duplicates = len(marked.duplicates) + len(marked.echoes)
        messages = len(self.payloads) + len(marked.scheduled)
        return messages - duplicates - len(marked.refused), duplicates

    def item_at(self, place: int) -> int:
        """Which item of the request the message at a place is; below 0: one that is held back."""
        if place >= 0:
            return self.items[place]
        assert self.marked is not None
        return self.marked.scheduled[-1 - place].item

    def answer(self, place: int, shard: int) -> Pushed:
        """What became of the message at a place."""
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
                partition_id=None
                if self.partition_id is None
                else partition_ref(shard, self.partition_id),
            )
        id_ = message_id(shard, self.partition_id, offset)
        return Pushed(
            status=status,  # pyright: ignore[reportArgumentType]
            id=id_,
            transaction_id=transaction_id or id_,
            partition_id=partition_ref(shard, self.partition_id),
            offset=offset,
        )


class MessageExtras:
    """What messages have besides their payload, by place, and how they differ in the end."""

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
        """Places whose transactionId was known, and the offset of the first message with it."""
        self.echoes: dict[int, tuple[PartitionBatch, int]] = {}
        """Places whose transactionId another message of the same flush has."""
        self.refused: dict[int, Pushed] = {}
        """Places that the database refused, and the answer to them."""
        self.left_out: list[int] | None = None
        """Places that were not stored, in order, once somebody asks for answers."""

    def begin_again(self) -> None:
        """Another flush lays the messages out: which of them are alike is found anew."""
        self.echoes = {}
        self.left_out = None

    def has_ids_alone(self, count: int) -> bool:
        """All of so many messages have a transactionId, and nothing sets one apart from others."""
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
        """Take an item that is more than a payload, with the transactionId that it was given."""
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
        """Places whose message was not stored because another one is it, in order."""
        if self.left_out is None:
            self.left_out = sorted(each for each in (*self.duplicates, *self.echoes) if each >= 0)
        return self.left_out


class PendingPush:
    """Messages stored together: a lane's part of a request, or all of a producer's request."""

    __slots__ = ("are_minted", "done", "is_replayed", "keys", "parts", "producer", "size_bytes")

    def __init__(
        self,
        parts: Sequence[PartitionBatch],
        *,
        producer: Producer | None = None,
        are_minted: bool = False,
    ) -> None:
        self.parts = parts
        self.producer = producer
        self.are_minted = are_minted
        """Items that came without a transactionId were given the producer's."""
        self.is_replayed = False
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if len(parts) == 1:
            self.keys: tuple[Hashable, ...] = (parts[0].lane,)
        else:
            # One in flight per producer that spans lanes; of two at once SQL tells which is late.
            self.keys = (*(part.lane for part in parts), producer and producer.key)
        self.size_bytes = sum([part.size_bytes for part in parts])

    def fail(self, error: BaseException) -> None:
        if not self.done.done():
            self.done.set_exception(error)
            # Its caller may have gone.
            self.done.exception()

    def finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


class PushResult(Sequence[Pushed]):
    """The answers to a push in the order of its items, each made when it is looked at."""

    __slots__ = (
        "_count",
        "_parts",
        "_refused",
        "_shard",
        "_where",
        "is_replayed",
        "stale_advances",
    )

    is_buffered = False
    """On disk, and stored later."""

    def __init__(
        self,
        count: int,
        parts: Sequence[PartitionBatch],
        refused: dict[int, Pushed],
        *,
        shard: int,
        is_replayed: bool = False,
        stale_advances: Set[int] = frozenset(),
    ) -> None:
        self.is_replayed = is_replayed
        self.stale_advances = stale_advances
        """Of a transaction: which of its advances came too late for their step."""
        self._count = count
        self._parts = parts
        self._refused = refused
        self._shard = shard
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
        """The answer for an item that was not rejected."""
        if self._where is None:
            self._where = self._places()
        part, place = self._where[index]
        return part.answer(place, self._shard)

    @property
    def first_refused(self) -> Pushed | None:
        """The first item that was refused, when every one was."""
        answers = [self[index] for index in range(self._count)] if self._may_be_refused else []
        if not answers or any(answer.status != "failed" for answer in answers):
            return None
        return answers[0]

    @property
    def _may_be_refused(self) -> bool:
        return bool(self._refused) or any(
            part.marked and part.marked.refused for part in self._parts
        )

    def plain(self) -> tuple[int, int, int, int] | None:
        """Shard, partition id, first offset and count, when there is no more to say than that."""
        if self._refused or len(self._parts) != 1:
            return None
        part = self._parts[0]
        if part.marked is not None or part.base is None or part.partition_id is None:
            return None
        return self._shard, part.partition_id, part.base, self._count

    def _places(self) -> dict[int, tuple[PartitionBatch, int]]:
        where: dict[int, tuple[PartitionBatch, int]] = {}
        for part in self._parts:
            for place, item in enumerate(part.items):
                where[item] = (part, place)
            for at, held in enumerate(part.marked.scheduled if part.marked else ()):
                where[held.item] = (part, -1 - at)
        return where


class BufferedResult(PushResult):
    """The answers to a push that is on disk: no message has a place yet."""

    __slots__ = ("_transaction_ids",)

    is_buffered = True

    def __init__(self, transaction_ids: Sequence[str], refused: dict[int, Pushed]) -> None:
        super().__init__(len(transaction_ids), (), refused, shard=0)
        self._transaction_ids = transaction_ids

    def _answer(self, index: int) -> Pushed:
        return Pushed(status="buffered", transaction_id=self._transaction_ids[index])
