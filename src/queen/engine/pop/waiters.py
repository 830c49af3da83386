"""Pops that found nothing: asleep until woken, at no cost to the database."""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

from queen.codec.names import QUEUE_MODE
from queen.engine.pop.delivery import Delivery
from queen.engine.runtime.signals import Signals
from queen.telemetry import OTHER
from queen.wire.messages import PopRequest


class TargetName(NamedTuple):
    """What pops have in common that one call can answer."""

    queue: str | None
    namespace: str | None
    task: str | None
    partition: str | None
    group: str | None
    is_auto: bool
    mode: str | None
    start_at: float | None


class PendingPop:
    """One pop: what it wants, and where its answer goes."""

    __slots__ = ("answer", "request", "target", "timer")

    def __init__(self, request: PopRequest, target: "Target") -> None:
        self.request = request
        self.target = target
        self.answer: asyncio.Future[list[Delivery]] = asyncio.get_running_loop().create_future()
        self.timer: asyncio.TimerHandle | None = None
        target.units.append(self)
        if not request.wait:
            target.hurried.append(self)

    def finish(self, deliveries: list[Delivery]) -> bool:
        """False when nobody wants the answer any more."""
        if self.timer is not None:
            self.timer.cancel()
        if self.answer.done():
            return False
        self.answer.set_result(deliveries)
        self.target.answered += 1
        return True

    def fail(self, error: BaseException) -> None:
        if self.timer is not None:
            self.timer.cancel()
        if not self.answer.done():
            self.answer.set_exception(error)
            self.answer.exception()
            self.target.answered += 1


class Target:
    """Pops that one call can answer, oldest first, and what is known of where they look."""

    __slots__ = (
        "answered",
        "group_ids",
        "hurried",
        "is_dry",
        "is_hot",
        "is_lent",
        "is_missing",
        "is_running",
        "name",
        "queue_ids",
        "queues",
        "seeks_due",
        "timer",
        "units",
    )

    def __init__(self, name: TargetName) -> None:
        self.name = name
        self.units: deque[PendingPop] = deque()
        self.answered = 0
        """How many of the units have their answer and are still among them."""
        self.hurried: deque[PendingPop] = deque()
        """Those of the units that do not wait."""
        self.is_hot = False
        """Something may be there: search again before sleeping."""
        self.is_dry = False
        """The last search left somebody without, and nothing was heard since: nobody need look."""
        self.is_lent = False
        """Auto-ack: what is claimed now is settled once it was read, and not by the claim."""
        self.is_missing = False
        """The last search found no queue to look in."""
        self.seeks_due = False
        """More than new messages may be there."""
        self.is_running = False
        self.timer: asyncio.TimerHandle | None = None
        self.group_ids: list[int] = []
        self.queue_ids: list[int] = []
        self.queues: dict[int, str] = {}
        """Group id to the name of its queue."""

    @property
    def group(self) -> str:
        return self.name.group or QUEUE_MODE

    def asking(self) -> Iterator[PendingPop]:
        """Those without an answer, oldest first."""
        return (unit for unit in self.units if not unit.answer.done())

    def asking_now(self) -> Iterator[PendingPop]:
        """Those without an answer who will not wait for one."""
        while self.hurried and self.hurried[0].answer.done():
            self.hurried.popleft()
        return (unit for unit in self.hurried if not unit.answer.done())

    def sweep(self) -> None:
        """Let go of units that have their answer; many at once, so that each costs little."""
        units = self.units
        while units and units[0].answer.done():
            units.popleft()
            self.answered -= 1
        if self.answered * 2 > len(units):
            left = list(self.asking())
            units.clear()
            units.extend(left)
            self.answered = 0


class Waiters:
    """All targets of this process, and who is woken by what."""

    def __init__(self, run: Callable[[Target], None], *, most: int) -> None:
        """``most``: queue ids that are remembered as seen."""
        self._run = run
        self._most = most
        self._seen_queue_ids: set[int] = set()
        self._targets: dict[TargetName, Target] = {}
        self._by_queue: dict[int, set[Target]] = {}
        self._by_group: dict[int, set[Target]] = {}
        self._open: set[Target] = set()
        """Targets that a new queue may concern: without a queue yet, or a whole namespace."""

    def subscribe(self, signals: Signals) -> None:
        """Wake pops when there is work for them."""
        signals.on_messages_stored.subscribe(self._wake_stored)
        signals.on_groups_ready.subscribe(self.wake_groups)
        signals.on_queues_changed.subscribe(self._wake_changed)
        signals.on_everything_ready.subscribe(self.wake_all)

    def _wake_stored(self, queue_ids: Collection[int], is_new: bool) -> None:
        self.wake_queues(queue_ids, is_new=is_new)
        # Not by the highest id: queues are committed in another order than their ids.
        if len(self._seen_queue_ids) > self._most:
            self._seen_queue_ids.clear()
        if unseen := {each for each in queue_ids if each not in self._seen_queue_ids}:
            self._seen_queue_ids |= unseen
            self.wake_open()

    def _wake_changed(self, queue_ids: Collection[int] | None) -> None:
        if queue_ids is not None:
            self.wake_queues(queue_ids)
        # A queue may have moved into a namespace that somebody reads.
        self.wake_open()

    @property
    def missing_queues(self) -> list[str]:
        """Queues that somebody waits for and that were not there."""
        return [target.name.queue for target in self._open if target.name.queue is not None]

    @property
    def has_scopes(self) -> bool:
        """Whether somebody waits for any queue of a namespace or task."""
        return any(target.name.queue is None for target in self._open)

    @property
    def is_anybody_here(self) -> bool:
        return bool(self._targets)

    @property
    def group_ids(self) -> list[int]:
        """Groups that somebody waits for."""
        return list(self._by_group)

    def target(self, name: TargetName) -> Target:
        target = self._targets.get(name)
        if target is None:
            target = self._targets[name] = Target(name)
            self._open.add(target)
        return target

    def know(self, target: Target, groups: Iterable[tuple[int, int, str]]) -> None:
        """Let a target be woken for these (queue id, group id, queue name), in search order."""
        self._unlink(target)
        for queue_id, group_id, queue in groups:
            target.group_ids.append(group_id)
            target.queue_ids.append(queue_id)
            target.queues[group_id] = queue
            self._by_queue.setdefault(queue_id, set()).add(target)
            self._by_group.setdefault(group_id, set()).add(target)
        if target.group_ids and target.name.queue is not None:
            self._open.discard(target)
        else:
            self._open.add(target)

    def forget_groups(self) -> None:
        """Those who sleep look for their groups anew; who searches just now will hear of it."""
        for target in self._targets.values():
            if not target.is_running:
                self.know(target, ())

    def forget(self, target: Target) -> None:
        """Nobody waits here any more."""
        if target.timer is not None:
            target.timer.cancel()
        self._unlink(target)
        self._open.discard(target)
        self._targets.pop(target.name, None)

    def _unlink(self, target: Target) -> None:
        for index, ids in ((self._by_queue, target.queue_ids), (self._by_group, target.group_ids)):
            for key in ids:
                if (linked := index.get(key)) is not None:
                    linked.discard(target)
                    if not linked:
                        del index[key]
        target.group_ids, target.queue_ids, target.queues = [], [], {}

    def waiting(self, most: int) -> dict[tuple[str, str], int]:
        """How many wait, by queue and group; beyond so many pairs together."""
        found: dict[tuple[str, str], int] = {}
        for target in self._targets.values():
            count = sum(unit.request.wait for unit in target.asking())
            if count:
                pair = (target.name.queue or OTHER, target.group)
                if pair not in found and len(found) >= most:
                    pair = (OTHER, OTHER)
                found[pair] = found.get(pair, 0) + count
        return found

    def wake_queues(self, queue_ids: Iterable[int], *, is_new: bool = False) -> None:
        for queue_id in queue_ids:
            for target in tuple(self._by_queue.get(queue_id, ())):
                self.wake(target, is_new=is_new)

    def wake_groups(self, group_ids: Iterable[int]) -> None:
        for group_id in group_ids:
            for target in tuple(self._by_group.get(group_id, ())):
                self.wake(target)

    def wake_open(self) -> None:
        """There is a new queue: those whom it may concern look again."""
        for target in tuple(self._open):
            self.wake(target)

    def wake_missing(self, queues: Collection[str]) -> None:
        for target in tuple(self._open):
            if target.name.queue in queues:
                self.wake(target)

    def wake_all(self) -> None:
        for target in tuple(self._targets.values()):
            self.wake(target)

    def wake(self, target: Target, *, is_new: bool = False) -> None:
        """Let it search; ``is_new``: nothing but new messages has come."""
        target.is_hot = True
        target.is_dry = False
        target.seeks_due |= not is_new
        if not target.is_running and target.units:
            self._run(target)

    def all_units(self) -> list[PendingPop]:
        return [unit for target in self._targets.values() for unit in target.units]

    def sleep(self, target: Target, seconds: float) -> None:
        """Search again after so long at the latest; who sleeps until an earlier instant stays."""
        loop = asyncio.get_running_loop()
        if target.timer is not None:
            if loop.time() < target.timer.when() <= loop.time() + seconds:
                return
            target.timer.cancel()
        target.timer = loop.call_later(max(seconds, 0.001), self.wake, target)
