"""A queue for one schedule, its leases, and the results of the calls."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID, uuid4

import asyncpg

from queen import sql
from queen.store.connection.database import Database, Record
from queen.store.messages import Pop, Push, Settlement
from queen.store.store import Store

LEASE_SECONDS: Final = 60.0
GROUP: Final = "g"


class Violation(AssertionError):
    """A broken rule."""


class OneConnection(Database):
    """Sends every call on one connection, inside its open transaction."""

    def __init__(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        self.connection = connection

    async def fetch(self, call: str, *arguments: object) -> list[asyncpg.Record]:
        return await self.connection.fetch(sql.CALLS[call], *arguments)


class Lease(NamedTuple):
    """A popped delivery: its ID and token, and its messages."""

    delivery_id: int
    token: UUID
    partition: str
    offsets: tuple[int, ...]


@dataclass
class Scene:
    """A queue for one schedule, and the results of the calls."""

    queue: str
    group_id: int
    partition_ids: dict[str, int]
    is_ordered: bool
    leases: dict[str, Lease] = field(default_factory=dict[str, Lease])
    """Deliveries before the schedule, by partition."""
    pushed: Counter[str] = field(default_factory=Counter[str])
    settled: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])
    key: UUID = field(default_factory=uuid4)
    """The hash of a transactionId, for pushes that use one."""
    keyed: set[int] = field(default_factory=set[int])
    """The offsets that pushes with this key returned."""
    numbered: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """The stored requests of the scene's producer: sequence and offset, in order of their calls."""
    letter_id: int | None = None
    """The dead letter of offset 0 in partition x, from before the schedule."""
    redriven: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])


class Setting(NamedTuple):
    """
    The initial state: the number of messages, whether the first is claimed, and whether its lease
    is over.
    """

    messages: int
    is_claimed: bool = True
    is_expired: bool = False


Verb = Callable[[Scene, Store], Awaitable[None]]
"""One call in an open transaction, which records its result in the scene."""


def segment(partition_ids: Sequence[int]) -> Push:
    """One message for each of these partitions, in this order."""
    count = len(partition_ids)
    return Push(
        partition_ids=list(partition_ids),
        counts=[1] * count,
        bodies=[b"0"] * count,
        ends=[b"\0\0\0\0\1\0\0\0"] * count,
        extras=[None] * count,
        ttls=[None] * count,
    )


def settlement(lease: Lease, kind: str) -> Settlement:
    return Settlement(lease.delivery_id, lease.token, None, lease.offsets[0], kind, None, None)


def pop_of(
    scene: Scene,
    *,
    batch: int,
    partition: str | None = None,
    is_auto: bool = False,
    due_first: bool = True,
    is_plain: bool = False,
) -> Pop:
    """`is_plain`: as most pops do, which need one statement."""
    return Pop(
        group_ids=[scene.group_id],
        ready_since=[None],
        due_since=[None],
        partition=partition,
        batches=[batch],
        partitions=[1 if is_plain else 10],
        leases=[None],
        is_auto=is_auto,
        due="never" if is_plain else "first" if due_first else "last",
        turn=0,
    )


async def take(
    scene: Scene,
    store: Store,
    *,
    batch: int,
    partition: str | None = None,
    is_plain: bool = False,
) -> list[Lease]:
    """Pop."""
    pop = pop_of(scene, batch=batch, partition=partition, is_plain=is_plain)
    return leases_of(await store.messages.pop(pop))


def leases_of(rows: Sequence[Record]) -> list[Lease]:
    """Join the runs of each delivery that a pop returned."""
    leases: list[Lease] = []
    for row in rows:
        if row["request"] is None:
            continue
        offsets = tuple(range(row["first_offset"], row["end_offset"]))
        lease = Lease(row["delivery_id"], row["token"], row["partition"], offsets)
        if leases and leases[-1][:3] == lease[:3]:
            leases[-1] = leases[-1]._replace(offsets=leases[-1].offsets + offsets)
        else:
            leases.append(lease)
    return leases
