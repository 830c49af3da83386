"""The steps of an operation that moves slots to other databases."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from queen import errors
from queen.server.operations.runner import Kind, Step, Work, is_cancelled
from queen.store.cluster.mover import Move, Mover

MOVE_SLOTS: Final = "move_slots"
_WAIT_SECONDS: Final = 1.0
Moved = Callable[[float, float], None]
"""Counts a move: its seconds, and how long calls waited at its end."""


def moves_of(arguments: Mapping[str, Any]) -> list[Move]:
    """The moves of an operation, in their order. Its cursor is the number of the current one."""
    return [Move(*each) for each in arguments["moves"]]


def arguments_of(moves: Sequence[Move]) -> dict[str, Any]:
    return {"moves": [[*each] for each in moves]}


def move_slots(databases: Mapping[str, str], moved: Moved, *, is_pooled: bool) -> Kind:
    """
    Move slots. ``databases``: connection URLs by name, the first database first.

    ``is_pooled``: they lead through PgBouncer.

    A move never fails because a database is unavailable or something uses the slot. It waits, and
    the operation shows why.
    """

    @asynccontextmanager
    async def opened() -> AsyncGenerator[Work]:
        async with Mover(databases, is_pooled=is_pooled) as mover:

            async def work(arguments: Mapping[str, Any], cursor: int | None) -> Step:
                try:
                    return await _step(mover, moved, arguments, cursor or 0)
                except (errors.DatabaseUnavailable, errors.Overloaded) as error:
                    return Step(cursor, 0, False, _WAIT_SECONDS, waits_for=str(error))

            yield work

    return opened


async def _step(mover: Mover, moved: Moved, arguments: Mapping[str, Any], at: int) -> Step:
    moves = moves_of(arguments)
    if at >= len(moves):
        return Step(at, 0, True)
    move = moves[at]
    if is_cancelled(arguments):
        abandoned = await mover.abandon(move)
        return Step(at, 0, abandoned.is_over, state="cancelled")
    if not mover.has_begun(move) and (given := await _give(mover, moves[at:])):
        return Step(at + given, given, at + given == len(moves))
    progress = await mover.step(move)
    if progress.waited_seconds is not None:
        moved(mover.seconds, progress.waited_seconds)
    done = int(progress.is_over)
    return Step(
        at + done, done, at + done == len(moves), progress.pause_seconds, progress.waits_for
    )


async def _give(mover: Mover, moves: Sequence[Move]) -> int:
    """Move empty slots at once. Returns how many of the next moves that completes."""
    first = moves[0]
    given = await mover.give(
        [each.slot for each in moves if each[1:] == first[1:]], first.source, first.target
    )
    done = 0
    while done < len(moves) and moves[done][1:] == first[1:] and moves[done].slot in given:
        done += 1
    return done
