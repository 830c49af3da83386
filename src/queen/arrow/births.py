"""Plan which messages of several databases a batch contains."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from queen.arrow.databases import Databases, Move, Slots, State, by_database
from queen.arrow.ranges import SegmentRange

_TASKS: Final = 16
_LEAST_PER_TASK: Final = 500_000
"""Messages per task, if the number of tasks is not set."""


class End(NamedTuple):
    """Where the messages that were born in one database end, after a whole transaction."""

    xid: int
    """The last transaction."""
    partition_id: int
    """A segment that this transaction stored: its partition, its end and its time."""
    offset: int
    stored_at: int


class Limits(NamedTuple):
    """How much a batch contains, at most. None is everything."""

    messages: int | None = None
    size: int | None = None

    def shared(self, count: int) -> "Limits":
        """Divide the limits by a number of databases."""
        return Limits(*(None if each is None else max(1, each // count) for each in self))


class Births(NamedTuple):
    """Messages with one birthplace, in a range of transactions."""

    birthplace: int
    low: int
    high: int
    """The first transaction after the range."""
    until: int = 0
    """From this transaction on, messages of all times are read."""


class BornPart(NamedTuple):
    """The messages that one task reads: partitions of some slots, each in order."""

    whole: SegmentRange
    """The queue, and the bounds of the messages by time, partition and offset."""
    database: str
    """Where the slots were when this was planned."""
    slots: dict[int, int]
    """With their epochs."""
    births: tuple[Births, ...]
    since: tuple[int, ...] = ()
    """For each of the births: from this transaction on, a deletion is data loss. Empty: never."""
    share: tuple[int, int] = (1, 0)
    """The partitions whose hash has this remainder."""


class _Reach(NamedTuple):
    end: End | None
    covered: int
    """All messages of lower transactions are before the end."""


class Planner:
    """
    Finds where a batch ends in each database, so that each partition stays in order.

    If a slot has moved, messages that were born in its new database are only read when those of
    the former one are read, in this batch or an earlier one.
    """

    def __init__(self, databases: Databases, queue_id: int, slots: Slots, state: State) -> None:
        self._databases = databases
        self._queue_id = queue_id
        self._places = sorted(by_database(slots))
        self._state = state
        self.covered: dict[str, int] = {}
        """After a plan: all messages of lower transactions are before its end."""

    def plan(
        self, starts: Mapping[str, int], horizons: Mapping[str, int], limits: Limits
    ) -> dict[str, End]:
        """Return the end in each database that has more messages from its start on."""
        ends, is_capped = self._ends(starts, horizons, limits.shared(len(starts)))
        if is_capped and not ends:
            # Two moves in opposite directions can wait for each other's messages.
            ends, _ = self._ends(starts, horizons, Limits())
        return ends

    def _ends(
        self, starts: Mapping[str, int], horizons: Mapping[str, int], limits: Limits
    ) -> tuple[dict[str, End], bool]:
        """Return the ends, and whether any is earlier than the limits, because of a move."""
        caps = dict(horizons)
        reached = {name: self._reach(name, starts[name], caps[name], limits) for name in starts}
        while late := [each for each in self._state.moves if self._is_early(each, reached, starts)]:
            for move in late:
                caps[move.target] = min(caps[move.target], move.first)
            for name in {each.target for each in late}:
                reached[name] = self._reach(name, starts[name], caps[name], limits)
        self.covered = {name: each.covered for name, each in reached.items()}
        ends = {name: each.end for name, each in reached.items() if each.end is not None}
        return ends, caps != dict(horizons)

    def _is_early(
        self, move: Move, reached: Mapping[str, _Reach], starts: Mapping[str, int]
    ) -> bool:
        """
        Whether a plan passes a move in its target, but not in its source.

        This counts without messages in the target too, because a later move may follow there.
        """
        return (
            reached[move.target].covered > move.first
            and max(reached[move.source].covered, starts[move.source]) < move.fence
        )

    def _reach(self, name: str, start: int, cap: int, limits: Limits) -> _Reach:
        born_in = self._state.members[name].birthplace
        full: list[End] = []
        whole: list[End] = []
        for place in self._places if start < cap else ():
            for row in self._databases.call(
                place, "plan_births", self._queue_id, born_in, start, cap, *limits
            ):
                end = End(row["xid"], row["partition_id"], row["end_offset"], row["stored_at"])
                (whole if row["is_over"] else full).append(end)
        if full:
            end = min(full)
            return _Reach(end, end.xid + 1)
        return _Reach(max(whole, default=None), cap)


def split(databases: Databases, slots: Slots, batch: BornPart, tasks: int | None) -> list[BornPart]:
    """Divide a batch among tasks: by the database where messages are now, then by partition."""
    parts: list[BornPart] = []
    for name, there in by_database(slots).items():
        scope = (batch.whole.queue_id, *ranges(batch.births))
        (row,) = databases.call(name, "count_births", *scope)
        if messages := row["messages"]:
            part = batch._replace(database=name, slots=there)
            count = tasks or max(1, min(_TASKS, messages // _LEAST_PER_TASK))
            parts += [part._replace(share=(count, at)) for at in range(count)]
    return parts


def ranges(births: Iterable[Births]) -> tuple[list[int], list[int], list[int]]:
    """Return birthplaces, first transactions and ends, as statements take them."""
    listed = list(births)
    return (
        [each.birthplace for each in listed],
        [each.low for each in listed],
        [each.high for each in listed],
    )
