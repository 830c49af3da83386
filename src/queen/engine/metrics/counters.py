"""Counters in memory, one tally per queue and group. Each minute is stored as rows."""

import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from random import getrandbits
from typing import Any, Final, NamedTuple

from queen import telemetry
from queen.meters import Histogram, Snapshot
from queen.store.connection.database import Record
from queen.telemetry import COUNTED, OTHER

_FIGURES: Final = attrgetter(*COUNTED)
_SUMMED: Final = (
    *COUNTED,
    "exhausted",
    "unkept",
    "retries",
    "redrives",
    "redriven",
    "empty",
    "damaged",
)
"""All attributes of a tally that are counts."""
_IDLE_MINUTES: Final = 10
"""After this time without a change, a tally can be replaced when the limit is reached."""
_OVERFLOW: Final = 10
"""Queues that are stored separately but not shown separately, as a multiple of the shown ones."""
_LONGEST_SECONDS: Final = 30 * 86_400
"""An older lease has an invalid timestamp."""


class Figures(NamedTuple):
    """The values of a tally at one moment."""

    counts: tuple[int, ...]
    wait: dict[int, int]
    processing: dict[int, int]


class Tally:
    """The counts of one queue or one of its groups."""

    __slots__ = (
        *COUNTED,
        "active_minute",
        "base",
        "damaged",
        "empty",
        "exhausted",
        "group",
        "group_id",
        "is_deleted",
        "popped_at",
        "processing",
        "queue",
        "queue_id",
        "redriven",
        "redrives",
        "retries",
        "sent",
        "unkept",
        "wait",
    )

    def __init__(self, queue_id: int, group_id: int, queue: str | None, group: str | None) -> None:
        self.queue_id = queue_id
        self.group_id = group_id
        self.queue = queue
        """None until the name of the group is looked up."""
        self.group = group
        self.pushed = self.duplicates = self.popped = self.acked = self.nacked = 0
        self.dead_lettered = self.evicted = self.leases_expired = 0
        self.expired = 0
        """Messages that were skipped because their TTL had passed."""
        self.exhausted = 0
        """Messages that exhausted their retries in a queue without dead letters."""
        self.unkept = 0
        """Evicted messages of a queue without dead letters."""
        self.retries = self.redrives = self.redriven = self.empty = self.damaged = 0
        self.is_deleted = False
        """The database has no name for it."""
        self.active_minute = 0
        """When a change was last stored."""
        self.popped_at: float | None = None
        """When messages were last popped, by the database's clock."""
        self.wait = Histogram()
        self.processing = Histogram()
        self.base = self.sent = Figures((0,) * len(COUNTED), {}, {})
        """The values at the start of this minute, and those that were last stored."""

    @property
    def is_sent(self) -> bool:
        """Whether the database has all of it."""
        return _FIGURES(self) == self.sent.counts

    def add(self, other: "Tally") -> None:
        """Add the counts of another tally."""
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.wait.add(other.wait.bins, other.wait.total)
        self.processing.add(other.processing.bins, other.processing.total)

    def figures(self) -> "Figures":
        return Figures(_FIGURES(self), dict(self.wait.bins), dict(self.processing.bins))

    def row(self, now: "Figures") -> dict[str, Any]:
        """The counts of this minute so far, as columns of the database."""
        base = self.base
        return {
            "queue_id": self.queue_id or None,
            "group_id": self.group_id,
            **dict(zip(COUNTED, map(int.__sub__, now.counts, base.counts), strict=True)),
            "popped_at": self.popped_at and datetime.fromtimestamp(self.popped_at, UTC).isoformat(),
            **_columns("wait", now.wait, base.wait),
            **_columns("processing", now.processing, base.processing),
        }


class Counters:
    """
    All counts of one process about queues.

    A call adds a few integers while a message waits. At most ``most`` queues, and as many groups,
    are shown separately, and the others as one. If there are more, those that were idle for ten
    minutes are replaced. Ten times as many are stored separately while they are active.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.process = getrandbits(62)
        """A unique number that identifies the rows of this process."""
        self.clock_skew = 0.0
        """How far the database's clock was last ahead of this process's clock."""
        self.queues: dict[int, Tally] = {}
        self.groups: dict[int, Tally] = {}
        self._more_queues: dict[int, Tally] = {}
        self._more_groups: dict[int, Tally] = {}
        """Shown together as others, and stored separately."""
        self._other = Tally(0, 0, OTHER, OTHER)
        self._removed_pushed = 0
        self.extended = 0
        self.refused: dict[str, int] = {}
        self.transactions: dict[str, int] = {}
        self._minute = 0
        self._unsent: tuple[datetime, list[dict[str, Any]], list[tuple[Tally, Figures]]] | None
        self._unsent = None

    def queue(self, queue_id: int, name: str) -> Tally:
        tally = self.queues.get(queue_id)
        if tally is None:
            tally = self._new(queue_id, self.queues, self._more_queues)
            if tally is not self._other:
                tally.queue_id, tally.queue = queue_id, name
        return tally

    def _new(self, id_: int, shown: dict[int, Tally], more: dict[int, Tally]) -> Tally:
        """A new tally: shown separately if there is room, else among the others."""
        if (tally := more.get(id_)) is not None:
            return tally
        tallies = shown if len(shown) < self._most else more
        if len(tallies) >= self._most * _OVERFLOW:
            return self._other
        tally = tallies[id_] = Tally(0, 0, None, None)
        tally.active_minute = self._minute
        return tally

    def group(self, group_id: int, queue: str | None = None, group: str | None = None) -> Tally:
        """The tally of a group. Its names may be looked up later."""
        tally = self.groups.get(group_id)
        if tally is None:
            tally = self._new(group_id, self.groups, self._more_groups)
            if tally is self._other:
                return tally
            tally.group_id = group_id
        if tally.queue is None and queue is not None:
            tally.queue, tally.group = queue, group
        return tally

    @property
    def pushed(self) -> int:
        tallies = (*self.queues.values(), *self._more_queues.values(), self._other)
        return sum(tally.pushed for tally in tallies) + self._removed_pushed

    def count_pushed(self, queue_id: int, queue: str, stored: int, duplicates: int) -> None:
        """Count messages of a push."""
        tally = self.queue(queue_id, queue)
        tally.pushed += stored
        tally.duplicates += duplicates

    def count_popped(self, tally: Tally, sizes: Iterable[tuple[datetime, int]]) -> int:
        """Count received messages. ``sizes``: when they were stored, and how many."""
        now = time.time() + self.clock_skew
        count = 0
        for created_at, size in sizes:
            count += size
            tally.wait.observe(now - created_at.timestamp(), size)
        tally.popped += count
        tally.popped_at = now
        return count

    def count_search(self, row: Record, queue: str, group: str) -> None:
        """Count messages that a search found expired or exhausted."""
        if row["expired"] or row["lapsed"] or row["evicted"]:
            tally = self.group(row["group_id"], queue, group)
            tally.expired += row["expired"]
            tally.leases_expired += row["lapsed"]
            tally.dead_lettered += row["buried"]
            tally.exhausted += row["dropped"]
            self._evict(tally, row["evicted"], row["unkept"])

    def count_evicted(self, group_id: int, count: int, *, is_kept: bool) -> None:
        """Count messages that upkeep evicted because they waited too long."""
        self._evict(self.group(group_id), count, 0 if is_kept else count)

    def _evict(self, tally: Tally, count: int, unkept: int) -> None:
        tally.evicted += count
        tally.dead_lettered += count - unkept
        tally.unkept += unkept

    def count_empty(self, group_ids: Sequence[int]) -> None:
        """Count a pop without messages, for its group if it read one queue."""
        tally = self.groups.get(group_ids[0]) if len(group_ids) == 1 else None
        (tally or self._other).empty += 1

    def count_damaged(self, group_id: int, queue: str, group: str, count: int) -> None:
        """Count claimed messages that could not be decoded."""
        self.group(group_id, queue, group).damaged += count

    def count_settled(self, group_id: int, kind: str, claimed_ms: int, count: int = 1) -> None:
        """Count acked, nacked, dead-lettered or dropped messages, and the time it took."""
        tally = self.group(group_id)
        if kind == "acked":
            tally.acked += count
        elif kind == "buried":
            tally.dead_lettered += count
        elif kind == "dropped":
            tally.exhausted += count
        else:
            tally.nacked += count
        if claimed_ms:
            seconds = time.time() - claimed_ms / 1000
            if seconds < _LONGEST_SECONDS:
                tally.processing.observe(seconds, count)

    def count_refused(self, verb: str, count: int = 1) -> None:
        self.refused[verb] = self.refused.get(verb, 0) + count

    def count_transaction(self, outcome: str) -> None:
        self.transactions[outcome] = self.transactions.get(outcome, 0) + 1

    @property
    def nameless(self) -> list[int]:
        """Groups without names: this process settled their messages, and another delivered them."""
        return [
            group_id
            for group_id, tally in self.groups.items()
            if tally.queue is None and not tally.is_deleted
        ]

    def name(self, asked: Iterable[int], rows: Iterable[Record]) -> None:
        """Set the names of groups. Names that were not found are not looked up again."""
        names = {row["id"]: row for row in rows}
        for group_id in asked:
            if (tally := self.groups.get(group_id)) is None:
                continue
            row = names.get(group_id)
            if row is None:
                tally.is_deleted = True
            else:
                tally.queue, tally.group = row["queue"], row["group"]

    def rows(self) -> tuple[datetime, list[dict[str, Any]]] | None:
        """
        The rows of a minute so far, or None without a change.

        Returns the same rows until ``stored`` confirms them, so a repeated write has no effect.
        """
        if self._unsent is None:
            minute = int((time.time() + self.clock_skew) // 60)
            if minute != self._minute:
                self._begin_minute(minute)
            shown = (*self.queues.values(), *self.groups.values())
            tallies = (*shown, *self._more_queues.values(), *self._more_groups.values())
            changed = [(tally, tally.figures()) for tally in tallies if not tally.is_sent]
            if not changed:
                return None
            for tally, _ in changed:
                tally.active_minute = minute
            at = datetime.fromtimestamp(minute * 60, UTC)
            self._unsent = (at, [tally.row(now) for tally, now in changed], changed)
        return self._unsent[0], self._unsent[1]

    def _begin_minute(self, minute: int) -> None:
        """Drop stored tallies: the others immediately, shown ones only if their room is needed."""
        self._minute = minute
        for shown, more in ((self.queues, self._more_queues), (self.groups, self._more_groups)):
            # Not earlier, because a row contains all counts of its minute.
            for id_ in [id_ for id_, tally in more.items() if tally.is_sent]:
                self._other.add(more.pop(id_))
            if len(shown) >= self._most:
                since = minute - _IDLE_MINUTES
                idle = [i for i, t in shown.items() if t.is_sent and t.active_minute <= since]
                for id_ in idle:
                    self._removed_pushed += shown.pop(id_).pushed
            for tally in (*shown.values(), *more.values()):
                tally.base = tally.sent

    def stored(self, now: datetime) -> None:
        """The database has stored the last result of ``rows``. ``now`` is its clock."""
        self.clock_skew = now.timestamp() - time.time()
        if self._unsent is not None:
            for tally, figures in self._unsent[2]:
                tally.sent = figures
            self._unsent = None

    def fill(self, snapshot: Snapshot) -> None:
        """Add all counts to a snapshot."""
        others = Tally(0, 0, OTHER, OTHER)
        for tally in (self._other, *self._more_queues.values(), *self._more_groups.values()):
            others.add(tally)
        for tally in (*self.queues.values(), others):
            if tally.queue is not None:
                snapshot.add(telemetry.PUSHED, tally.pushed, tally.queue)
                snapshot.add(telemetry.DEDUPLICATED, tally.duplicates, tally.queue)
        for tally in (*self.groups.values(), others):
            if tally.queue is not None:
                self._fill_group(snapshot, tally, (tally.queue, tally.group or ""))
        snapshot.add(telemetry.EXTENDED, self.extended)
        for verb, count in self.refused.items():
            snapshot.add(telemetry.REFUSED, count, verb)
        for outcome, count in self.transactions.items():
            snapshot.add(telemetry.TRANSACTIONS, count, outcome)

    def _fill_group(self, snapshot: Snapshot, tally: Tally, pair: tuple[str, str]) -> None:
        for metric, value in (
            (telemetry.POPPED, tally.popped),
            (telemetry.ACKED, tally.acked),
            (telemetry.NACKED, tally.nacked),
            (telemetry.DEAD_LETTERED, tally.dead_lettered),
            (telemetry.REDRIVEN, tally.redriven),
            (telemetry.EMPTY, tally.empty),
            (telemetry.LAPSED, tally.leases_expired),
        ):
            snapshot.add(metric, value, *pair)
        for metric, reason, value in (
            (telemetry.REDELIVERED, "retry", tally.retries),
            (telemetry.REDELIVERED, "redrive", tally.redrives),
            (telemetry.DROPPED, "ttl", tally.expired),
            (telemetry.DROPPED, "attempts", tally.exhausted),
            (telemetry.DROPPED, "evicted", tally.unkept),
        ):
            if value:
                snapshot.add(metric, value, *pair, reason)
        if tally.damaged:
            snapshot.add(telemetry.DAMAGED, tally.damaged, *pair)
        if tally.wait.bins:
            snapshot.add_histogram(telemetry.WAIT, tally.wait, *pair)
        if tally.processing.bins:
            snapshot.add_histogram(telemetry.PROCESSING, tally.processing, *pair)


def _columns(name: str, bins: dict[int, int], base: dict[int, int]) -> dict[str, list[int]]:
    changed = {bin_: count - base.get(bin_, 0) for bin_, count in bins.items()}
    return {
        f"{name}_bins": [bin_ for bin_, count in changed.items() if count],
        f"{name}_counts": [count for count in changed.values() if count],
    }
