"""The calls that clients make, each in an open transaction."""

from collections.abc import Sequence

from queen.store.connection.database import Record
from queen.store.messages import Ack, Push
from queen.store.store import Store
from tests.sql.interleavings.scene import (
    LEASE_SECONDS,
    Lease,
    Scene,
    Verb,
    Violation,
    leases_of,
    pop_of,
    segment,
    settlement,
)


def push(*partitions: str, has_key: bool = False, in_blocks: bool = False) -> Verb:
    """
    Push one message to each of these, in this order. `has_key` gives the first one the key.

    `in_blocks`: as a server that knows no other block.
    """

    async def verb(scene: Scene, store: Store) -> None:
        columns = segment([scene.partition_ids[partition] for partition in partitions])
        if has_key:
            columns.keys = [scene.key.bytes]
            columns.key_counts = [1]
            columns.key_entries = [1]
            columns.key_places = [0]
        if in_blocks:
            columns.known_offsets = [-1 for _ in partitions]
            columns.known_ats = [None for _ in partitions]
            columns.known_seconds = [1e6 for _ in partitions]
            columns.in_blocks = [True for _ in partitions]
            columns.gap_bytes = 1_000_000
        for row in await store.messages.push(columns):
            if row["kind"] == "gap":
                continue
            if row["kind"] == "stored":
                scene.pushed[partitions[row["ordinal"] - 1]] += 1
            elif row["kind"] != "duplicate":
                raise Violation(f"a push was refused: {row}")
            if has_key and row["ordinal"] == 1:
                scene.keyed.add(row["offset"])

    return verb


def pop(
    *,
    batch: int = 4,
    is_auto: bool = False,
    is_due_first: bool = True,
    is_plain: bool = False,
) -> Verb:
    """Pop for the group. Auto-ack settles immediately. `is_plain`: only new messages."""

    async def verb(scene: Scene, store: Store) -> None:
        rows = await store.messages.pop(
            pop_of(scene, batch=batch, is_auto=is_auto, due_first=is_due_first, is_plain=is_plain)
        )
        for lease in leases_of(rows):
            if is_auto:
                scene.settled.update((lease.partition, offset) for offset in lease.offsets)

    return verb


def ack(partition: str = "x") -> Verb:
    """Settle the delivery that a partition had before the schedule."""

    async def verb(scene: Scene, store: Store) -> None:
        lease = scene.leases[partition]
        (row,) = await store.messages.ack([Ack(lease.delivery_id, lease.token, None)])
        _note_ack(scene, lease, row)

    return verb


def combine(partition: str = "x", *, is_plain: bool = True, producer: int | None = None) -> Verb:
    """
    In one call, push to a partition, settle the delivery that it had before, and pop.

    `producer`: the sequence of the scene's producer that the push carries.
    """

    async def verb(scene: Scene, store: Store) -> None:
        lease = scene.leases.get(partition)
        columns = segment([scene.partition_ids[partition]])
        if producer is not None:
            number_push(columns, scene, producer)
        combined = await store.messages.combine(
            columns,
            [Ack(lease.delivery_id, lease.token, None)] if lease else [],
            [pop_of(scene, batch=4, is_plain=is_plain)],
        )
        _note_push(scene, partition, producer, combined.pushed)
        for row in combined.settled:
            assert lease is not None
            _note_ack(scene, lease, row)

    return verb


def push_once(partition: str, producer: int) -> Verb:
    """Push one message as a request of the scene's producer, in a call of its own."""

    async def verb(scene: Scene, store: Store) -> None:
        columns = segment([scene.partition_ids[partition]])
        number_push(columns, scene, producer)
        _note_push(scene, partition, producer, await store.messages.push(columns))

    return verb


def number_push(columns: Push, scene: Scene, sequence: int) -> None:
    """Make a push of one message a request of the scene's producer."""
    columns.producers = [f"{scene.queue}\x1f*"]
    columns.sequences = [sequence]
    columns.digests = [b"digest"]
    columns.outcomes = [b"outcome"]
    columns.base_producers = [1]
    columns.base_entries = [1]


def _note_push(
    scene: Scene, partition: str, sequence: int | None, pushed: Sequence[Record]
) -> None:
    (row,) = pushed
    if row["kind"] == "stored":
        scene.pushed[partition] += 1
        if sequence is not None:
            scene.numbered.append((sequence, row["offset"]))
    elif row["kind"] != "producer" or sequence is None:
        raise Violation(f"a push was refused: {row}")


def _note_ack(scene: Scene, lease: Lease, row: Record) -> None:
    if row["code"] is None:
        if row["settled"] != len(lease.offsets):
            raise Violation(f"an ack of {lease} settled {row['settled']}")
        scene.settled.update((lease.partition, offset) for offset in lease.offsets)


def nack(kind: str = "failed", partition: str = "x") -> Verb:
    """Nack the first message of that delivery."""

    async def verb(scene: Scene, store: Store) -> None:
        await store.messages.nack([settlement(scene.leases[partition], kind)])

    return verb


def release(partition: str = "x") -> Verb:
    async def verb(scene: Scene, store: Store) -> None:
        lease = scene.leases[partition]
        await store.messages.release([(lease.delivery_id, lease.token)])

    return verb


def extend(partition: str = "x") -> Verb:
    async def verb(scene: Scene, store: Store) -> None:
        lease = scene.leases[partition]
        await store.messages.extend([(lease.delivery_id, lease.token)], [LEASE_SECONDS])

    return verb


def redrive() -> Verb:
    """Redrive the dead letter."""

    async def verb(scene: Scene, store: Store) -> None:
        assert scene.letter_id is not None
        if await store.dead_letters.redrive([scene.letter_id]):
            del scene.settled["x", 0]
            scene.redriven.add(("x", 0))

    return verb


def transact(*, acked: str, pushed: str) -> Verb:
    """Ack the delivery of one partition and push to another, both or neither."""

    async def verb(scene: Scene, store: Store) -> None:
        lease = scene.leases[acked]
        answer = await store.messages.transact(
            [settlement(lease, "completed")],
            [(lease.delivery_id, lease.token)],
            segment([scene.partition_ids[pushed]]),
        )
        if any(row["kind"] not in ("stored", "acked") for row in answer):
            raise Violation(f"a transaction was refused: {answer}")
        scene.pushed[pushed] += 1
        scene.settled[acked, lease.offsets[0]] += 1

    return verb
