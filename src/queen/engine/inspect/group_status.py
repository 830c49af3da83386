"""The status of messages per group, from positions, deliveries and dead letters."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, Literal, NamedTuple

from queen.store.connection.database import Record
from queen.store.store import Store

Status = Literal["pending", "processing", "failed", "completed", "dead_letter", "scheduled"]
_PRECEDENCE: Final[tuple[Status, ...]] = (
    "processing",
    "failed",
    "pending",
    "dead_letter",
    "completed",
)


class GroupState(NamedTuple):
    """The status of one message in one group."""

    group: str
    status: Status
    attempts: int = 0
    until: datetime | None = None
    error: str | None = None
    dead_letter_id: int | None = None


class Pair:
    """The position of one group in one partition."""

    __slots__ = ("claimed", "dead", "deliveries", "group")

    def __init__(self, group: str, claimed: int) -> None:
        self.group = group
        self.claimed = claimed
        self.deliveries: list[Record] = []
        self.dead: dict[int, Record] = {}

    def state(self, offset: int) -> GroupState:
        for row in self.deliveries:
            if _holds(row["firsts"], row["ends"], offset):
                return self._out(row, offset)
        # After a seek, a dead letter may be pending again.
        if offset >= self.claimed:
            return GroupState(self.group, "pending")
        if (letter := self.dead.get(offset)) is not None:
            return GroupState(
                self.group, "dead_letter", letter["attempts"], None, letter["error"], letter["id"]
            )
        return GroupState(self.group, "completed")

    def _out(self, row: Record, offset: int) -> GroupState:
        is_head = row["head"] == offset
        charged: int = row["attempts"] if is_head else 0
        if row["is_taken"] and _holds(row["out_firsts"], row["out_ends"], offset):
            # An expired lease is a failed attempt, even before it is counted.
            status = "processing" if row["is_held"] else "failed"
            return GroupState(self.group, status, charged + 1, row["until"], row["error"])
        if is_head and not row["is_taken"]:
            return GroupState(self.group, "failed", charged, row["until"], row["error"])
        return GroupState(self.group, "pending", charged)


def overall(states: Iterable[GroupState]) -> Status:
    """One status for all groups: the most active one. A message without groups is pending."""
    found = {state.status for state in states}
    for status in _PRECEDENCE:
        if status in found:
            return status
    return "pending"


async def pairs_of(
    store: Store, places: Iterable[tuple[int, int, int]], group: str | None
) -> dict[int, list[Pair]]:
    """The positions of groups by partition, for ranges of a partition, first and end offset."""
    spans: dict[int, tuple[int, int]] = {}
    for partition_id, first, end in places:
        low, high = spans.get(partition_id, (first, end))
        spans[partition_id] = (min(low, first), max(high, end))
    ids = list(spans)
    known: dict[tuple[int, int], Pair] = {}
    found: dict[int, list[Pair]] = {}
    for row in await store.browse.positions(ids, group):
        pair = known[row["partition_id"], row["group_id"]] = Pair(row["group"], row["claimed"])
        found.setdefault(row["partition_id"], []).append(pair)
    for row in await store.browse.deliveries(ids):
        if (pair := known.get((row["partition_id"], row["group_id"]))) is not None:
            pair.deliveries.append(row)
    firsts, ends = [spans[each][0] for each in ids], [spans[each][1] for each in ids]
    for row in await store.browse.dead_offsets(ids, firsts, ends):
        if (pair := known.get((row["partition_id"], row["group_id"]))) is not None:
            pair.dead[row["offset"]] = row
    return found


def _holds(firsts: Sequence[int], ends: Sequence[int], offset: int) -> bool:
    return any(first <= offset < end for first, end in zip(firsts, ends, strict=True))
