"""Calls about several slots, some of which another database may own."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from queen import errors
from queen.codec.ids import NUMBER_BITS

T = TypeVar("T")
R = TypeVar("R")


def slot_of(id_: int) -> int:
    """The slot of a partition or delivery."""
    return id_ >> NUMBER_BITS


def split_moved(
    items: Sequence[T], error: errors.SlotMoved, id_of: Callable[[T], int]
) -> tuple[Sequence[T], Sequence[T]]:
    """The items whose slot has moved, and the others. If the slots are unknown, all have."""
    moved = [each for each in items if slot_of(id_of(each)) in error.slots]
    if not moved:
        return items, ()
    return moved, [each for each in items if slot_of(id_of(each)) not in error.slots]


async def without_moved(
    items: Sequence[T],
    id_of: Callable[[T], int],
    call: Callable[[Sequence[T]], Awaitable[Sequence[R]]],
) -> list[R | None]:
    """
    Make a call with items of several slots. Repeat it without those whose slot has moved.

    Returns the result of each item, or None if its slot has moved.
    """
    results: list[R | None] = [None] * len(items)
    left: Sequence[int] = range(len(items))
    while left:
        try:
            found = await call([items[at] for at in left])
        except errors.SlotMoved as error:
            _, left = split_moved(left, error, lambda at: id_of(items[at]))
            continue
        for at, result in zip(left, found, strict=True):
            results[at] = result
        break
    return results
