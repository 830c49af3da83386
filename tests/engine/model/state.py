"""The state of the model: queues, groups, deliveries and dead letters."""

from __future__ import annotations

from collections.abc import Iterator
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
