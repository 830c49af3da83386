"""How a limit is divided among databases."""

import random
from collections.abc import Sequence
from typing import Final, NamedTuple

_LEAST: Final = 64
"""A database keeps at least this part of the limit."""
_ROOM: Final = 8
"""A share has this part above what is used. One that is too low grows by this part of the limit."""
_TURN_SECONDS: Final = 2.0
"""How long a database has a limit that is too low for all."""


class Use(NamedTuple):
    """The share of a database, and how it uses it."""

    share: int
    used: int
    is_ready: bool
    """Messages are ready."""
    has_slots: bool

    @property
    def is_short(self) -> bool:
        """Whether the share limits the database now."""
        return self.has_slots and self.is_ready and self.used >= self.share

    def demand(self, limit: int) -> int:
        """How much the database needs, as far as that is known."""
        least = limit // _LEAST
        if not self.has_slots:
            return 0
        if self.is_short:
            return min(limit, 2 * self.share + limit // _ROOM + 1)
        return max(least, self.share if self.is_ready else self.used + self.used // _ROOM)


def turn_at(seconds: float) -> int:
    """
    The turn at a time, the same in all processes.

    It is random. If turns were regular, a rate whose period is a multiple of them would be free
    again whenever the same database has its turn.
    """
    return random.Random(int(seconds / _TURN_SECONDS)).getrandbits(32)


def divide(limit: int, uses: Sequence[Use], turn: int) -> list[int]:
    """
    Divide a limit by demand. Each database gets what it needs, or as much as any other.

    ``turn``: if the limit is below the number of databases that need it, they take turns. The rest
    of a limit that exceeds all demands is divided evenly.
    """
    if _is_settled(limit, uses):
        return [use.share for use in uses]
    demands = [use.demand(limit) for use in uses]
    shares = _fill(limit, demands, turn)
    rest = limit - sum(shares)
    more = _fill(rest, [rest if use.has_slots else 0 for use in uses], 0)
    return [share + each for share, each in zip(shares, more, strict=True)]


def _is_settled(limit: int, uses: Sequence[Use]) -> bool:
    """Whether no database needs more, and each can begin at once."""
    least = min(1, limit // max(1, len(uses)))
    return sum(use.share for use in uses) == limit and all(
        use.share >= least and not use.is_short if use.has_slots else not use.share for use in uses
    )


def _fill(limit: int, demands: Sequence[int], turn: int) -> list[int]:
    """Give each the same amount, but not more than its demand."""
    shares = [0] * len(demands)
    left = max(0, limit)
    while open_ := [at for at, demand in enumerate(demands) if shares[at] < demand]:
        level = left // len(open_)
        if not level:
            # One each, to some of them.
            first = turn % len(open_) if not any(shares) else 0
            for at in [*open_[first:], *open_[:first]][:left]:
                shares[at] += 1
            break
        for at in open_:
            more = min(level, demands[at] - shares[at])
            shares[at] += more
            left -= more
    return shares
