"""What the design says of delivery, in memory: a reference that shares no code with the engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

GRID_SECONDS = 12
"""
Time goes by in multiples of this, and so do leases.

A backoff of `d` ends somewhere in [0.8 d, d]; none of those used here has a multiple of 12 in that
range, so that whether a message is due is never a matter of chance.
"""
RETRY_SECONDS = 10
RETRY_BACKOFF = 2
MAX_RETRY_SECONDS = 22
LEASE_SECONDS = 3 * GRID_SECONDS
DEDUP_SECONDS = 50 * GRID_SECONDS

Group = str | None
"""None is queue mode."""


class Refused(Exception):
    """The design refuses this call; `code` is the word of the contract."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


def due_after(base: int, failures: int) -> int:
    """The first instant of the grid at which a message that failed so often is due again."""
    delay = min(MAX_RETRY_SECONDS, RETRY_SECONDS * RETRY_BACKOFF ** (failures - 1))
    steps = -(-delay // GRID_SECONDS)
    assert (steps - 1) * GRID_SECONDS < 0.8 * delay, "this backoff would be ambiguous"
    return base + steps * GRID_SECONDS


def _common(some: Sequence[int], others: Sequence[int]) -> int:
    """How long two beginnings agree."""
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
    """What became of one item."""

    status: str
    offset: int


class Got(NamedTuple):
    """One delivery as a pop answered it."""

    partition: str
    lease_id: str | None
    attempt: int
    offsets: tuple[int, ...]
    payloads: tuple[bytes, ...]


@dataclass(eq=False)
class Delivery:
    """A range that is out: held under a lease, waiting for its next attempt, or parked."""

    pending: list[int]
    until: int
    lease_id: str | None = None
    out: list[int] = field(default_factory=list[int])
    """What the holder was given and has not settled."""
    head: int | None = None
    """The message that failed last: it is given first and alone."""
    failures: int = 0
    """Those charged to the head."""
    is_copy: bool = False
    """A dead letter that was redriven."""
    is_parked: bool = False
    """It waits for the hold of an ordered pair."""

    @property
    def is_held(self) -> bool:
        return self.lease_id is not None

    @property
    def on_offer(self) -> list[int]:
        """What would be handed out, if there is room."""
        return [self.head] if self.head is not None else list(self.pending)


@dataclass(eq=False)
class Pair:
    """One group in one partition."""

    claimed: int = 0
    deliveries: list[Delivery] = field(default_factory=list[Delivery])

    @property
    def position(self) -> int:
        """Below it everything is terminal for the group."""
        return min([d.pending[0] for d in self.deliveries if not d.is_copy], default=self.claimed)


@dataclass(eq=False)
class Letter:
    """A dead letter. `attempts` is None where the design does not say what it counts."""

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
    """(partition, transactionId) to the offset and the instant of the first message with it."""
    pairs: dict[Group, dict[str, Pair]] = field(default_factory=dict[Group, dict[str, Pair]])
    letters: dict[tuple[Group, str, int], Letter] = field(
        default_factory=dict[tuple[Group, str, int], Letter]
    )
    sought_back: set[tuple[Group, str, int]] = field(default_factory=set[tuple[Group, str, int]])
    """Dead letters that a seek made deliverable besides: in two states on purpose."""

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
    """A delivery that somebody holds, and where."""

    queue: str
    group: Group
    partition: str
    delivery: Delivery


class Model:
    """All queues of one program."""

    def __init__(self, queues: Mapping[str, Queue]) -> None:
        self.now = 0
        self.queues = dict(queues)
        self.sequences: dict[str, int] = {}
        self.requests: dict[str, tuple[str, list[Item]] | None] = {}
        """The push that a producer sent last; None: it was a transaction."""

    def held(self) -> list[Held]:
        """Every lease that is current, oldest place first."""
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
        """One answer an item; None when the sequence was stored before."""
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
        """What a push names is made, whatever becomes of the push."""
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
        """The offset of the first message with this transactionId, as long as the window lasts."""
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
        """Acks and pushes, all or none: none is sent twice."""
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
        Judge what a pop gave, and take it over.

        Which of the partitions that are ready a pop chooses is its own affair, and so is whether it
        has looked at an expired lease yet: `current` are the leases that are in force after it.
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
        # What was there for the taking: a pop that has room left must not leave any of it. What it
        # has freed itself became ready after it began.
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
        """End the expired leases that the pop has found; answers the ordered pairs thus freed."""
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
        """What waits and is due; or is held past its end, which a pop with room must have ended."""
        return [each for each in pair.deliveries if not each.is_parked and each.until <= self.now]

    def _has_new(self, queue: Queue, partition: str, pair: Pair) -> bool:
        is_free = not queue.is_ordered or not pair.deliveries
        return is_free and pair.claimed < len(queue.partitions[partition])

    def _parts(self, pair: Pair, got: Got) -> Iterator[Got]:
        """Without a lease only offsets tell several deliveries of one partition apart."""
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
        """Take one delivery over; answers the waiting one that it was, None for new messages."""
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
            # Of two that look alike only a copy and its original may exist; either may come first.
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

    # --- what a holder can do

    def ack(self, held: Held, offsets: Sequence[int] | None = None) -> int:
        """Settle what is named of what was handed out, in any order; answers how many."""
        named = held.delivery.out if offsets is None else set(offsets)
        done = [offset for offset in held.delivery.out if offset in named]
        self._settle(self.queues[held.queue], self._pair(held), held.delivery, done)
        return len(done)

    def nack(self, held: Held, offset: int, status: str, error: str | None) -> None:
        """Give one message back (failed, retry), or give it up (dlq)."""
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
        # The holder keeps the rest when only this message leaves.
        is_over = kind == "expired" or (queue.is_ordered and kind != "dlq")

        if kind == "dlq" or (kind != "retry" and failures > queue.retry_limit):
            # A dead letter that is there already stays as it is.
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
            # What is open before it comes first, and the message waits behind that.
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

    # --- what an operator can do

    def seek(self, name: str, group: Group, partition: str | None, offset: int | None) -> None:
        """Move a group, in one partition or all; None is the end. Live leases are lost."""
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
        """What was redriven stays due after a seek, unless the log gives it again."""
        kept = [each for each in pair.deliveries if each.is_copy and each.pending[0] < pair.claimed]
        kept.sort(key=lambda each: (each.is_parked, each.pending[0]))
        for at, each in enumerate(kept):
            was_out = each.is_held or each.is_parked
            each.is_parked = queue.is_ordered and at > 0
            self._give_back(each, self.now if was_out else each.until)
        pair.deliveries[:] = kept

    def redrive(self, name: str, letter: tuple[Group, str, int]) -> None:
        """Deliver a dead letter again, from attempt 1, behind what an ordered pair has out."""
        queue = self.queues[name]
        group, partition, offset = letter
        pair = queue.pair(group, partition)
        del queue.letters[letter]
        queue.sought_back.discard(letter)
        if offset >= pair.claimed or any(offset in each.pending for each in pair.deliveries):
            return  # A seek has given the message back already: the letter alone goes.
        is_parked = queue.is_ordered and bool(pair.deliveries)
        pair.deliveries.append(Delivery([offset], self.now, is_copy=True, is_parked=is_parked))
