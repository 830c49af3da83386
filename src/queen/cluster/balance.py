"""Which slots must move so that the load of the databases is even."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, get_args

from queen import errors
from queen.cluster.results import grouped
from queen.store.cluster.mover import Move

Measure = Literal["bytes_per_second", "bytes", "slots"]
"""Payload bytes pushed per second, then stored bytes, then slots with queues."""

MEASURES: Final[tuple[Measure, ...]] = get_args(Measure)
MOST_MOVES: Final = 32
"""Moves of one plan. Later plans know the load after them."""
_EVEN: Final = 1.1
"""A database with at most this share of the mean is left as it is, because loads vary."""
_GOOD: Final = 0.75
"""Of the moves with at least this share of the greatest effect, the one with the fewest bytes."""


class Weight(NamedTuple):
    """How much a slot, or a database, has of each measure."""

    bytes_per_second: float = 0.0
    bytes: int = 0
    slots: int = 0

    def plus(self, other: "Weight", sign: int = 1) -> "Weight":
        return Weight(
            self.bytes_per_second + sign * other.bytes_per_second,
            self.bytes + sign * other.bytes,
            self.slots + sign * other.slots,
        )


class UsedSlot(NamedTuple):
    """A slot with queues."""

    slot: int
    database: str
    weight: Weight
    is_movable: bool = True
    queues: tuple[str, ...] = ()
    """Names of some of them."""


class PlannedMove(NamedTuple):
    """A move, and the measure that it makes more even."""

    move: Move
    reason: Measure


class Rebalance(NamedTuple):
    """A plan for all databases."""

    databases: list[str]
    slots: list[UsedSlot]
    """Before the moves."""
    moves: Sequence[PlannedMove]

    @property
    def before(self) -> dict[str, Weight]:
        return totals(self.databases, self.slots)

    @property
    def after(self) -> dict[str, Weight]:
        return totals(self.databases, after(self.slots, self.moves))


def totals(databases: Iterable[str], slots: Iterable[UsedSlot]) -> dict[str, Weight]:
    """What each database has."""
    found = {name: Weight() for name in databases}
    for each in slots:
        found[each.database] = found[each.database].plus(each.weight)
    return found


def after(slots: Iterable[UsedSlot], planned: Iterable[PlannedMove]) -> list[UsedSlot]:
    """The slots after these moves."""
    targets = {each.move.slot: each.move.target for each in planned}
    return [each._replace(database=targets.get(each.slot, each.database)) for each in slots]


def plan(
    databases: Collection[str], slots: Sequence[UsedSlot], *, most: int = MOST_MOVES
) -> list[PlannedMove]:
    """
    Plan moves to make the databases even, one measure after the other.

    Each move takes a slot from a database to one that has less, also after the move. No move does
    the opposite for an earlier measure. So plans that are repeated come to an end.
    """
    plans = _Plan(totals(databases, slots), slots)
    for measure in MEASURES:
        while len(plans.moves) < most and plans.add(measure):
            pass
    return plans.moves


def check(
    moves: Sequence[PlannedMove], databases: Collection[str], slots: Iterable[UsedSlot]
) -> None:
    """Raise unless the moves of an earlier plan are still possible."""
    where = {each.slot: each.database for each in slots}
    if len({each.move.slot for each in moves}) < len(moves):
        raise errors.BadRequest("a slot moves twice")
    for move, _ in moves:
        if move.target not in databases:
            raise errors.NotFound(f"database {move.target} does not exist")
        if move.source == move.target:
            raise errors.BadRequest(f"slot {move.slot} moves to the database that it is in")
        if where.get(move.slot) != move.source:
            raise errors.Conflict(
                f"Slot {move.slot} is not in database {move.source} any more, or has no queues."
                " No slot was moved. Request a new plan."
            )


class _Plan:
    """The moves so far, and the databases after them. Each slot moves at most once."""

    def __init__(self, loads: Mapping[str, Weight], slots: Iterable[UsedSlot]) -> None:
        self.moves: list[PlannedMove] = []
        self._loads = dict(loads)
        movable = (each for each in slots if each.is_movable)
        self._left = grouped(movable, lambda each: each.database)

    def add(self, measure: Measure) -> bool:
        """Plan the next move for a measure. Returns False if no move helps."""
        at = MEASURES.index(measure)
        names = sorted(self._loads, key=lambda name: (self._loads[name][at], name))
        # The largest slot of a database can be too large to move. Then the others are made even.
        while len(names) > 1:
            source = names[-1]
            mean = sum(self._loads[name][at] for name in names) / len(names)
            if self._loads[source][at] <= _EVEN * mean:
                return False
            for target in names[:-1]:
                if (slot := self._best(at, source, target)) is not None:
                    self._move(slot, target, measure)
                    return True
            names.pop()
        return False

    def _best(self, at: int, source: str, target: str) -> UsedSlot | None:
        """The slot whose move has one of the greatest effects, and the fewest bytes."""
        gap = self._loads[source][at] - self._loads[target][at]
        effects = {
            each: each.weight[at] * (gap - each.weight[at])
            for each in self._left.get(source, ())
            if 0 < each.weight[at] < gap and self._keeps(each.weight, source, target, at)
        }
        least = _GOOD * max(effects.values(), default=0)
        good = [each for each, effect in effects.items() if effect >= least]
        return min(good, key=lambda each: (each.weight.bytes, each.slot), default=None)

    def _keeps(self, weight: Weight, source: str, target: str, at: int) -> bool:
        """Whether a move leaves the source ahead, or changes nothing, for all earlier measures."""
        old, new = self._loads[source], self._loads[target]
        return all(not weight[n] or new[n] + weight[n] <= old[n] for n in range(at))

    def _move(self, slot: UsedSlot, target: str, measure: Measure) -> None:
        source = slot.database
        self._loads[source] = self._loads[source].plus(slot.weight, -1)
        self._loads[target] = self._loads[target].plus(slot.weight)
        self._left[source].remove(slot)
        self.moves.append(PlannedMove(Move(slot.slot, source, target), measure))
