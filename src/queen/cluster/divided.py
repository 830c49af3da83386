"""A request whose items are sent to the databases of their slots."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar

from queen import errors
from queen.cluster.following import Following, Patience, Where
from queen.cluster.results import grouped
from queen.engine.engine import Engine


class Result(Protocol):
    """The result of one item."""

    @property
    def code(self) -> str | None:
        """The code of the error, if the item was rejected."""
        ...


T = TypeVar("T")
R = TypeVar("R", bound=Result)
Sent = tuple[int, Where]
"""The index of an item, and where it is."""

_ABSENT: Final = {
    each.code
    for each in (
        errors.LeaseLost,
        errors.MessageNotFound,
        errors.PartitionNotFound,
        errors.QueueNotFound,
    )
}


def are_clean(results: Sequence[Result]) -> bool:
    """Whether no item was rejected."""
    return not any(each.code for each in results)


class Divided(Generic[T, R]):
    """
    One call per database. If a slot has moved, only its items are sent again.

    If a database fails, its items fail. If all fail, the request raises the first error.
    """

    def __init__(
        self,
        following: Following,
        items: Sequence[T],
        slot_of: Callable[[T], Where],
        call: Callable[[Engine, Sequence[T]], Awaitable[Sequence[R]]],
        fail: Callable[[T, errors.QueenError], R],
        *,
        engine_of: Callable[[Where], Engine] | None = None,
        are_clean: Callable[[Sequence[R]], bool] = are_clean,
    ) -> None:
        """``fail``: the result of an item whose database failed."""
        self._following = following
        self._owners = following.owners
        self._items = items
        self._slot_of = slot_of
        self._call = call
        self._fail = fail
        self._engine_of = engine_of or following.engine
        self._are_clean = are_clean
        self._results: dict[int, R] = {}
        self._failures: dict[int, errors.QueenError] = {}

    async def results(self) -> Sequence[R]:
        """One result per item, in their order."""
        items, patience = self._items, Patience(self._following)
        left: Sequence[int] = range(len(items))
        while left:
            now, later = self._ready([(at, self._slot_of(items[at])) for at in left])
            by_engine = grouped(now, lambda each: self._engine_of(each[1]))
            parts = await asyncio.gather(*(self._send(*each) for each in by_engine.items()))
            if len(now) == len(items) and len(parts) == 1:
                part = parts[0]
                if not isinstance(part, errors.QueenError) and self._are_clean(part):
                    return part
            moved: list[Sent] = []
            for (engine, sent), part in zip(by_engine.items(), parts, strict=True):
                moved += await self._moved(engine, sent, part)
            left = sorted([*later, *await self._wait(patience, moved)])
        failures = self._failures
        if len(failures) == len(items):
            raise next((e for e in failures.values() if e.applied is None), failures[0])
        failed = {at: self._fail(items[at], error) for at, error in failures.items()}
        return [(self._results | failed)[at] for at in range(len(items))]

    def _ready(self, left: Sequence[Sent]) -> tuple[Sequence[Sent], list[int]]:
        """The items to send now, and those whose slots are leaving, which others don't wait for."""
        later = [at for at, slot in left if isinstance(slot, int) and self._owners.is_leaving(slot)]
        if not later or len(later) == len(left):
            return left, []
        waiting = set(later)
        return [each for each in left if each[0] not in waiting], later

    async def _send(self, engine: Engine, sent: Sequence[Sent]) -> Sequence[R] | errors.QueenError:
        is_whole = len(sent) == len(self._items)
        items = self._items if is_whole else [self._items[at] for at, _ in sent]
        try:
            return await self._call(engine, items)
        except errors.QueenError as error:
            return error

    async def _moved(
        self, engine: Engine, sent: Sequence[Sent], part: Sequence[R] | errors.QueenError
    ) -> Sequence[Sent]:
        """Keep the results of a database. Returns the items whose slot has moved."""
        if isinstance(part, errors.QueenError):
            self._failures |= {at: part for at, _ in sent}
            return sent if isinstance(part, errors.SlotMoved) else ()
        results = dict(zip([at for at, _ in sent], part, strict=True))
        self._results |= results
        moved = [each for each in sent if results[each[0]].code == errors.SlotMoved.code]
        absent = [each for each in sent if results[each[0]].code in _ABSENT]
        if absent:
            earlier = dict.fromkeys(_slots(absent), self._following.name(engine))
            if await self._following.have_moved(earlier):
                moved += absent
        return moved

    async def _wait(self, patience: Patience, moved: Sequence[Sent]) -> list[int]:
        """Wait until some of these items may succeed. They fail if that takes too long."""
        if not moved:
            return []
        indexes = [at for at, _ in moved]
        known = self._failures.get(indexes[0])
        cause = known if isinstance(known, errors.SlotMoved) else errors.SlotMoved()
        try:
            await patience.wait(_slots(moved), cause)
        except errors.SlotMoved as error:
            self._failures |= dict.fromkeys(indexes, error)
            return []
        for at in indexes:
            self._failures.pop(at, None)
        return indexes


def _slots(sent: Sequence[Sent]) -> set[int]:
    return {slot for _, slot in sent if isinstance(slot, int)}
