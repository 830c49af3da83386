"""The results of requests that several databases serve."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from queen import errors
from queen.engine.push.batches import PushResult
from queen.wire.messages import Acknowledged, Acknowledgment, Extended, Pushed, PushItem

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """The items of each key, in their order."""
    groups: dict[K, list[T]] = {}
    for each in items:
        groups.setdefault(key(each), []).append(each)
    return groups


class ScatteredResult(PushResult):
    """The results of a push in several databases, in the order of its items."""

    __slots__ = ("_answers", "is_buffered")

    def __init__(
        self, answers: Sequence[Pushed], *, is_buffered: bool, is_replayed: bool = False
    ) -> None:
        super().__init__(len(answers), (), {}, is_replayed=is_replayed)
        self.is_buffered = is_buffered
        self._answers = answers

    def _answer(self, index: int) -> Pushed:
        return self._answers[index]

    @property
    def may_be_refused(self) -> bool:
        return True


def failed_push(item: PushItem, error: errors.QueenError) -> Pushed:
    """The result of an item whose database did not confirm it."""
    return Pushed(
        status="failed", transaction_id=item.transaction_id, code=error.code, error=str(error)
    )


def failed_acknowledgment(each: Acknowledgment, error: errors.QueenError) -> Acknowledged:
    return Acknowledged(
        transaction_id=each.transaction_id, success=False, code=error.code, error=str(error)
    )


def failed_extension(lease_id: str, error: errors.QueenError) -> Extended:
    return Extended(lease_id=lease_id, success=False, code=error.code, error=str(error))
