"""An in-memory model of the delivery rules, which shares no code with the engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

GRID_SECONDS = 12
"""
The step of the clock and of lease durations.

A backoff of `d` ends somewhere in [0.8 d, d]. None here has a multiple of 12 in that range, so it
is always certain whether a message is due.
"""
RETRY_SECONDS = 10
RETRY_BACKOFF = 2
MAX_RETRY_SECONDS = 22
LEASE_SECONDS = 3 * GRID_SECONDS
DEDUP_SECONDS = 50 * GRID_SECONDS

Group = str | None
"""None means queue mode."""


class Refused(Exception):
    """The model rejects this call. `code` is the error code of the API."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


def due_after(base: int, failures: int) -> int:
    """The first grid time at which a message with `failures` failures is due."""
    delay = min(MAX_RETRY_SECONDS, RETRY_SECONDS * RETRY_BACKOFF ** (failures - 1))
    steps = -(-delay // GRID_SECONDS)
    assert (steps - 1) * GRID_SECONDS < 0.8 * delay, "this backoff would be ambiguous"
    return base + steps * GRID_SECONDS


def _common(some: Sequence[int], others: Sequence[int]) -> int:
    """The length of the common prefix."""
    pairs = zip(some, others, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(some), len(others)))


class Message(NamedTuple):
    """A message as it was pushed."""

    payload: bytes
    transaction_id: str | None


class Item(NamedTuple):
    """A message to push."""

    partition: str
    payload: bytes
    transaction_id: str | None


class Stored(NamedTuple):
    """The outcome of one pushed item."""

    status: str
    offset: int


class Got(NamedTuple):
    """One delivery that a pop returned."""

    partition: str
    lease_id: str | None
    attempt: int
    offsets: tuple[int, ...]
    payloads: tuple[bytes, ...]


@dataclass(eq=False)
class Delivery:
    """A range of claimed messages: leased, waiting for its next attempt, or parked."""

    pending: list[int]
    until: int
    lease_id: str | None = None
    out: list[int] = field(default_factory=list[int])
    """Messages that the holder received and has not settled."""
    head: int | None = None
    """The message that failed last. It is delivered first, and without other messages."""
    failures: int = 0
    """Failures charged to the head."""
    is_copy: bool = False
    """True for a redriven dead letter."""
    is_parked: bool = False
    """True if it waits until the other deliveries of its ordered pair are settled."""

    @property
    def is_held(self) -> bool:
        return self.lease_id is not None

    @property
    def on_offer(self) -> list[int]:
        """Messages that a pop would receive if its batch has room."""
        return [self.head] if self.head is not None else list(self.pending)


@dataclass(eq=False)
class Pair:
    """One group in one partition."""

    claimed: int = 0
    deliveries: list[Delivery] = field(default_factory=list[Delivery])

    @property
    def position(self) -> int:
        """Every message below it is settled for the group."""
        return min([d.pending[0] for d in self.deliveries if not d.is_copy], default=self.claimed)


@dataclass(eq=False)
class Letter:
    """A dead letter. `attempts` is None where the count is unspecified."""

    message: Message
    attempts: int | None
    error: str | None


@dataclass(eq=False)
class Queue:
    """A queue with its partitions and groups."""

    is_ordered: bool
    retry_limit: int
    is_paused: bool = False
    partitions: dict[str, list[Message]] = field(default_factory=dict[str, list[Message]])
    keys: dict[tuple[str, str], tuple[int, int]] = field(
        default_factory=dict[tuple[str, str], tuple[int, int]]
    )
    """Maps (partition, transactionId) to the offset and time of the first message with it."""
    pairs: dict[Group, dict[str, Pair]] = field(default_factory=dict[Group, dict[str, Pair]])
    letters: dict[tuple[Group, str, int], Letter] = field(
        default_factory=dict[tuple[Group, str, int], Letter]
    )
    sought_back: set[tuple[Group, str, int]] = field(default_factory=set[tuple[Group, str, int]])
    """Dead letters whose message a seek made deliverable again. They have two states on purpose."""

    def pair(self, group: Group, partition: str) -> Pair:
        return self.pairs[group][partition]

    def add_partition(self, partition: str) -> None:
        if partition not in self.partitions:
            self.partitions[partition] = []
            for pairs in self.pairs.values():
                pairs[partition] = Pair()

    def add_group(self, group: Group) -> None:
        if group not in self.pairs:
            self.pairs[group] = {partition: Pair() for partition in self.partitions}

    def places(self) -> Iterator[tuple[Group, str, Pair]]:
        for group, pairs in self.pairs.items():
            for partition, pair in pairs.items():
                yield group, partition, pair


class Held(NamedTuple):
    """A leased delivery and its place."""

    queue: str
    group: Group
    partition: str
    delivery: Delivery


class Model:
    """All queues of one test program."""

    def __init__(self, queues: Mapping[str, Queue]) -> None:
        self.now = 0
        self.queues = dict(queues)
        self.sequences: dict[str, int] = {}
        self.requests: dict[str, tuple[str, list[Item]] | None] = {}
        """The last push of a producer, or None if it was a transaction."""

    def held(self) -> list[Held]:
        """All current leases, oldest place first."""
        return [
            Held(name, group, partition, delivery)
            for name, queue in self.queues.items()
            for group, partition, pair in queue.places()
            for delivery in pair.deliveries
            if delivery.is_held
        ]

    # --- push

    def push(
        self,
        queue: str,
        items: Sequence[Item],
        *,
        producer_id: str | None = None,
        sequence: int | None = None,
    ) -> list[Stored] | None:
        """One result per item, or None if the sequence was already stored."""
        self._name(queue, items)
        if producer_id is not None and sequence is not None:
            last = self.sequences.get(producer_id, -1)
            if sequence < last:
                raise Refused("sequence_stale")
            if sequence == last and self.requests[producer_id] == (queue, list(items)):
                return None
            if sequence == last:
                raise Refused("sequence_reused")
            self.sequences[producer_id] = sequence
            self.requests[producer_id] = (queue, list(items))
        return [self._store(self.queues[queue], item) for item in items]

    def _name(self, queue: str, items: Sequence[Item]) -> None:
        """Create the queue and partitions that a push names, even if the push then fails."""
        for item in items:
            self.queues[queue].add_partition(item.partition)

    def _store(self, queue: Queue, item: Item) -> Stored:
        log = queue.partitions[item.partition]
        if (known := self._known(queue, item)) is not None:
            return Stored("duplicate", known)
        if item.transaction_id is not None:
            queue.keys[item.partition, item.transaction_id] = (len(log), self.now)
        log.append(Message(item.payload, item.transaction_id))
        return Stored("queued", len(log) - 1)

    def _known(self, queue: Queue, item: Item) -> int | None:
        """The offset of the first message with this transactionId, inside the dedup window."""
        if item.transaction_id is None:
            return None
        known = queue.keys.get((item.partition, item.transaction_id))
        return known[0] if known and self.now - known[1] < DEDUP_SECONDS else None

    def transact(
        self,
        acks: Sequence[tuple[Held, Sequence[int]]],
        queue: str,
        items: Sequence[Item],
        *,
        is_rolled_back_on_duplicate: bool = False,
        producer_id: str | None = None,
        sequence: int | None = None,
    ) -> list[Stored] | None:
        """Apply all acks and pushes, or no change at all."""
        self._name(queue, items)
        if producer_id is not None and sequence is not None:
            last = self.sequences.get(producer_id, -1)
            if sequence < last:
                raise Refused("sequence_stale")
            if sequence == last:
                raise Refused("sequence_reused")
        if is_rolled_back_on_duplicate and any(
            self._known(self.queues[queue], item) is not None for item in items
        ):
            raise Refused("duplicate")
        stored = self.push(queue, items, producer_id=producer_id, sequence=sequence)
        if producer_id is not None:
            self.requests[producer_id] = None
        for held, offsets in acks:
            self.ack(held, offsets)
        return stored

    # --- pop

    def pop(
        self,
        name: str,
        group: Group,
        *,
        partition: str | None,
        batch: int,
        partitions: int,
        is_auto: bool,
        got: Sequence[Got],
        current: set[str],
    ) -> None:
        """
        Check the result of a pop, and apply it to the model.

        A pop may choose any ready partitions. It may or may not notice an expired lease: `current`
        has the leases in force after the pop.
        """
        queue = self.queues[name]
        queue.add_group(group)
        scope = {
            place: pair
            for place, pair in queue.pairs[group].items()
            if partition is None or place == partition
        }
        if queue.is_paused:
            assert not got, f"a paused queue gave {got}"
            return

        freed = self._expire(queue, group, scope, current)
        # Messages that were available: a pop with room left must take all of them. Messages that
        # the
        # pop itself freed became ready after it began, so they don't count.
        before = {place: pair for place, pair in scope.items() if place not in freed}
        ready = [(place, each) for place, pair in before.items() for each in self._due(pair)]
        fresh = [place for place, pair in before.items() if self._has_new(queue, place, pair)]
        takes = 0
        for each in got:
            assert each.partition in scope, f"{each} is not of the partition asked for"
            assert (each.lease_id is None) == is_auto, f"auto-ack is {is_auto}: {each}"
            for part in self._parts(scope[each.partition], each):
                takes += 1
                taken = self._take(queue, scope[each.partition], part)
                if taken is None:
                    fresh = [place for place in fresh if place != each.partition]
                else:
                    ready = [(place, left) for place, left in ready if left is not taken]
        messages = sum(len(each.offsets) for each in got)
        assert messages <= batch, f"{messages} messages for a batch of {batch}"
        assert takes <= partitions, f"{takes} deliveries from {partitions} partitions"
        if messages < batch and takes < partitions:
            left = [place for place, _ in ready] + fresh
            assert not left, f"a pop with room left did not take what is ready in {left}"

    def _expire(
        self, queue: Queue, group: Group, scope: Mapping[str, Pair], current: set[str]
    ) -> set[str]:
        """
        End the expired leases that the pop found, and return the ordered pairs that this freed.
        """
        freed: set[str] = set()
        for partition, pair in scope.items():
            for delivery in list(pair.deliveries):
                if (
                    delivery.is_held
                    and delivery.until <= self.now
                    and delivery.lease_id not in current
                ):
                    self._fail(
                        queue,
                        group,
                        partition,
                        delivery,
                        delivery.out[0],
                        "expired",
                        error="the lease expired",
                        base=delivery.until,
                    )
                    if queue.is_ordered and delivery not in pair.deliveries:
                        freed.add(partition)
        return freed

    def _due(self, pair: Pair) -> list[Delivery]:
        """
        Deliveries that are due, and leases past their end, which a pop with room must have ended.
        """
        return [each for each in pair.deliveries if not each.is_parked and each.until <= self.now]

    def _has_new(self, queue: Queue, partition: str, pair: Pair) -> bool:
        is_free = not queue.is_ordered or not pair.deliveries
        return is_free and pair.claimed < len(queue.partitions[partition])

    def _parts(self, pair: Pair, got: Got) -> Iterator[Got]:
        """Split auto-acked messages into deliveries by their offsets, because there is no lease."""
        rest = got
        while got.lease_id is None and rest.offsets:
            counts = [
                count
                for each in self._due(pair)
                if not each.is_held
                and (count := _common(each.on_offer, rest.offsets))
                in (len(each.on_offer), len(rest.offsets))
            ]
            if not counts:
                break
            count = max(counts)
            yield rest._replace(offsets=rest.offsets[:count], payloads=rest.payloads[:count])
            rest = rest._replace(offsets=rest.offsets[count:], payloads=rest.payloads[count:])
        if rest.offsets or rest is got:
            yield rest

    def _take(self, queue: Queue, pair: Pair, got: Got) -> Delivery | None:
        """
        Apply one delivery. Returns the waiting delivery that it was, or None for new messages.
        """
        is_auto = got.lease_id is None
        log = queue.partitions[got.partition]
        count = len(got.offsets)
        assert count, f"an empty delivery: {got}"
        expected = tuple(log[offset].payload for offset in got.offsets)
        assert got.payloads == expected, f"{got.payloads} is not what was pushed: {expected}"

        waiting = [
            each
            for each in self._due(pair)
            if not each.is_held and tuple(each.on_offer[:count]) == got.offsets
        ]
        if waiting:
            # Only a copy and its original can look alike. Either may come first.
            matching = [each for each in waiting if each.failures + 1 == got.attempt]
            assert matching, f"attempt {got.attempt}, not {waiting[0].failures + 1}: {got}"
            delivery = matching[0]
            if not queue.is_ordered and len(delivery.pending) > count:
                rest = Delivery(delivery.pending[count:], self.now)
                delivery.pending = delivery.pending[:count]
                pair.deliveries.append(rest)
            self._lend(delivery, got)
            if is_auto:
                self._settle(queue, pair, delivery, got.offsets)
            return delivery

        assert self._has_new(queue, got.partition, pair), (
            f"{got} is neither new nor due: claimed {pair.claimed}, out {pair.deliveries}"
        )
        first = pair.claimed
        assert got.offsets == tuple(range(first, first + count)), f"{got}: claimed is {first}"
        assert got.attempt == 1, f"attempt {got.attempt} of new messages: {got}"
        pair.claimed += count
        if not is_auto:
            delivery = Delivery(list(got.offsets), self.now)
            self._lend(delivery, got)
            pair.deliveries.append(delivery)
        return None

    def _lend(self, delivery: Delivery, got: Got) -> None:
        delivery.lease_id = got.lease_id
        delivery.out = list(got.offsets)
        delivery.until = self.now + LEASE_SECONDS

    # --- operations of a lease holder

    def ack(self, held: Held, offsets: Sequence[int] | None = None) -> int:
        """Settle the given messages of a delivery in any order, and return their number."""
        named = held.delivery.out if offsets is None else set(offsets)
        done = [offset for offset in held.delivery.out if offset in named]
        self._settle(self.queues[held.queue], self._pair(held), held.delivery, done)
        return len(done)

    def nack(self, held: Held, offset: int, status: str, error: str | None) -> None:
        """Return one message to the queue (failed, retry) or dead-letter it (dlq)."""
        self._fail(
            self.queues[held.queue],
            held.group,
            held.partition,
            held.delivery,
            offset,
            status,
            error=error,
            base=self.now,
        )

    def extend(self, held: Held, seconds: int) -> None:
        held.delivery.until = max(held.delivery.until, self.now + seconds)

    def release(self, held: Held) -> None:
        self._give_back(held.delivery, self.now)

    def _pair(self, held: Held) -> Pair:
        return self.queues[held.queue].pair(held.group, held.partition)

    def _settle(self, queue: Queue, pair: Pair, delivery: Delivery, offsets: Sequence[int]) -> None:
        done = set(offsets)
        delivery.pending = [each for each in delivery.pending if each not in done]
        delivery.out = [each for each in delivery.out if each not in done]
        if not delivery.pending:
            self._end(queue, pair, delivery)
        elif not delivery.out:
            delivery.head, delivery.failures = None, 0
            self._give_back(delivery, self.now)

    def _give_back(self, delivery: Delivery, until: int) -> None:
        delivery.lease_id = None
        delivery.out = []
        delivery.until = until

    def _end(self, queue: Queue, pair: Pair, delivery: Delivery) -> None:
        pair.deliveries.remove(delivery)
        if queue.is_ordered:
            waiting = [each for each in pair.deliveries if each.is_parked]
            if waiting:
                parked = min(waiting, key=lambda each: each.pending[0])
                parked.is_parked = False
                parked.until = max(parked.until, self.now)

    def _fail(
        self,
        queue: Queue,
        group: Group,
        partition: str,
        delivery: Delivery,
        offset: int,
        kind: str,
        *,
        error: str | None,
        base: int,
    ) -> None:
        pair = queue.pair(group, partition)
        failures = delivery.failures if offset == delivery.head else 0
        if kind in ("failed", "expired"):
            failures += 1
        # The holder keeps the rest if only this message leaves.
        is_over = kind == "expired" or (queue.is_ordered and kind != "dlq")

        if kind == "dlq" or (kind != "retry" and failures > queue.retry_limit):
            # An existing dead letter stays unchanged.
            queue.letters.setdefault(
                (group, partition, offset),
                Letter(
                    queue.partitions[partition][offset],
                    None if kind == "dlq" else failures,
                    error,
                ),
            )
            if is_over and len(delivery.pending) > 1:
                delivery.pending.remove(offset)
                delivery.head, delivery.failures = None, 0
                self._give_back(delivery, self.now)
            else:
                self._settle(queue, pair, delivery, [offset])
            return

        due = self.now if kind == "retry" else due_after(base, failures)
        before = [each for each in delivery.pending if each < offset]
        if queue.is_ordered and before:
            # Unsettled messages before it come first, and the message waits behind them.
            rest = delivery.pending[len(before) :]
            pair.deliveries.append(
                Delivery(rest, due, head=offset, failures=failures, is_parked=True)
            )
            delivery.pending = before
            self._give_back(delivery, self.now)
            return
        if queue.is_ordered or delivery.pending == [offset]:
            delivery.head, delivery.failures = offset, failures
            self._give_back(delivery, due)
            return
        pair.deliveries.append(Delivery([offset], due, head=offset, failures=failures))
        delivery.pending.remove(offset)
        delivery.out.remove(offset)
        if is_over or not delivery.out:
            self._give_back(delivery, self.now)

    # --- operations of an operator

    def seek(self, name: str, group: Group, partition: str | None, offset: int | None) -> None:
        """Move a group in one partition or all. None moves to the end. Live leases are lost."""
        queue = self.queues[name]
        if group not in queue.pairs:
            raise Refused("group_not_found")
        if partition is not None and partition not in queue.partitions:
            raise Refused("partition_not_found")
        for place, pair in queue.pairs[group].items():
            if partition is not None and place != partition:
                continue
            end = len(queue.partitions[place])
            pair.claimed = end if offset is None else min(offset, end)
            self._keep_copies(queue, pair)
            for letter in queue.letters:
                if letter[:2] == (group, place):
                    if letter[2] >= pair.claimed:
                        queue.sought_back.add(letter)
                    else:
                        queue.sought_back.discard(letter)

    def _keep_copies(self, queue: Queue, pair: Pair) -> None:
        """Keep redriven messages due after a seek, unless the log delivers them again."""
        kept = [each for each in pair.deliveries if each.is_copy and each.pending[0] < pair.claimed]
        kept.sort(key=lambda each: (each.is_parked, each.pending[0]))
        for at, each in enumerate(kept):
            was_out = each.is_held or each.is_parked
            each.is_parked = queue.is_ordered and at > 0
            self._give_back(each, self.now if was_out else each.until)
        pair.deliveries[:] = kept

    def redrive(self, name: str, letter: tuple[Group, str, int]) -> None:
        """
        Redeliver a dead letter from attempt 1, behind the claimed messages of an ordered pair.
        """
        queue = self.queues[name]
        group, partition, offset = letter
        pair = queue.pair(group, partition)
        del queue.letters[letter]
        queue.sought_back.discard(letter)
        if offset >= pair.claimed or any(offset in each.pending for each in pair.deliveries):
            return  # A seek already made the message deliverable, so only the dead letter goes.
        is_parked = queue.is_ordered and bool(pair.deliveries)
        pair.deliveries.append(Delivery([offset], self.now, is_copy=True, is_parked=is_parked))
