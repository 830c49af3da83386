"""Pops that found no message: they wait without a query until they are woken."""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple, Self

from queen.codec.names import QUEUE_MODE
from queen.engine.pop.delivery import Delivery
from queen.engine.runtime.signals import Signals
from queen.telemetry import OTHER
from queen.wire.messages import PopRequest


class TargetName(NamedTuple):
    """Properties that pops must share to be served by one call."""

    queue: str | None
    namespace: str | None
    task: str | None
    partition: str | None
    group: str | None
    is_auto: bool
    mode: str | None
    start_at: float | None

    @classmethod
    def of(cls, request: PopRequest) -> Self:
        return cls(
            queue=request.queue,
            namespace=request.namespace,
            task=request.task,
            partition=request.partition,
            group=request.consumer_group,
            is_auto=request.auto_ack,
            mode="time" if request.subscription_from else request.subscription_mode,
            start_at=request.subscription_from and request.subscription_from.timestamp(),
        )


class PendingPop:
    """One pop: its request and its future result."""

    __slots__ = ("answer", "request", "target", "timer", "waits")

    def __init__(self, request: PopRequest, target: "Target") -> None:
        self.request = request
        self.target = target
        self.answer: asyncio.Future[list[Delivery]] = asyncio.get_running_loop().create_future()
        self.timer: asyncio.TimerHandle | None = None
        self.waits = request.wait
        """Whether a search that finds nothing leaves it waiting."""
        target.units.append(self)
        if not request.wait:
            target.hurried.append(self)

    def hurry(self) -> bool:
        """
        Stop waiting. Returns False if no search finishes it, so that the caller must.

        With auto-ack, a running search may have acknowledged messages for it. So it gets the result
        of that search, or of the next one.
        """
        if not (self.target.name.is_auto and self.target.is_running):
            return False
        if self.waits and not self.answer.done():
            self.waits = False
            self.target.hurried.append(self)
            self.target.is_hot = True
        return True

    def finish(self, deliveries: list[Delivery]) -> bool:
        """Return False if the caller was cancelled."""
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
    """Pops that one call can serve, oldest first, and the state of their search."""

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
        "skips",
        "timer",
        "units",
    )

    def __init__(self, name: TargetName) -> None:
        self.name = name
        self.units: deque[PendingPop] = deque()
        self.answered = 0
        """How many of the units are finished but not removed yet."""
        self.hurried: deque[PendingPop] = deque()
        """The units that don't wait."""
        self.is_hot = False
        """Messages may have arrived: search again before waiting."""
        self.is_dry = False
        """The last search left a pop unserved, and no notification has arrived since."""
        self.is_lent = False
        """With auto-ack: lease the messages and acknowledge them after the read."""
        self.is_missing = False
        """The last search found no queue."""
        self.seeks_due = False
        """There may be due messages, not only new ones."""
        self.is_running = False
        self.skips = 0
        """How many pushes to ignore: a pop in their transaction has searched their messages."""
        self.timer: asyncio.TimerHandle | None = None
        self.group_ids: list[int] = []
        self.queue_ids: list[int] = []
        self.queues: dict[int, str] = {}
        """Queue names by group id."""

    @property
    def group(self) -> str:
        return self.name.group or QUEUE_MODE

    def asking(self) -> Iterator[PendingPop]:
        """Unfinished units, oldest first."""
        return (unit for unit in self.units if not unit.answer.done())

    def asking_now(self) -> Iterator[PendingPop]:
        """Unfinished units that don't wait."""
        while self.hurried and self.hurried[0].answer.done():
            self.hurried.popleft()
        return (unit for unit in self.hurried if not unit.answer.done())

    def sweep(self) -> None:
        """Remove finished units. Many per call, so that each costs little."""
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
    """All targets of this process, and the notifications that wake them."""

    def __init__(self, run: Callable[[Target], None], *, most: int) -> None:
        """``most``: how many queue ids are remembered as seen."""
        self._run = run
        self._most = most
        self._seen_queue_ids: set[int] = set()
        self._targets: dict[TargetName, Target] = {}
        self._by_queue: dict[int, set[Target]] = {}
        self._by_group: dict[int, set[Target]] = {}
        self._open: set[Target] = set()
        """Targets that a new queue may concern: those without a queue, and those of a namespace."""
        self.sent_home = 0
        """How often all waiting pops were finished without messages."""

    def subscribe(self, signals: Signals) -> None:
        """Wake pops when messages arrive for them."""
        signals.on_messages_stored.subscribe(self._wake_stored)
        signals.on_groups_ready.subscribe(self.wake_groups)
        signals.on_queues_changed.subscribe(self._wake_changed)
        signals.on_everything_ready.subscribe(self.wake_all)

    def _wake_stored(self, queue_ids: Collection[int], is_new: bool) -> None:
        for queue_id in queue_ids:
            for target in tuple(self._by_queue.get(queue_id, ())):
                # One of several pushes, maybe not this one. The last of them is never ignored.
                if target.skips and is_new:
                    target.skips -= 1
                else:
                    self.wake(target, is_new=is_new)
        # Not by the highest id: queues may commit in another order than that of their ids.
        if len(self._seen_queue_ids) > self._most:
            self._seen_queue_ids.clear()
        if unseen := {each for each in queue_ids if each not in self._seen_queue_ids}:
            self._seen_queue_ids |= unseen
            self.wake_open()

    def _wake_changed(self, queue_ids: Collection[int] | None) -> None:
        if queue_ids is not None:
            self.wake_queues(queue_ids)
        # A queue may have moved into a namespace that a pop reads.
        self.wake_open()

    @property
    def missing_queues(self) -> list[str]:
        """Names of queues that pops wait for and that did not exist."""
        return [target.name.queue for target in self._open if target.name.queue is not None]

    @property
    def has_scopes(self) -> bool:
        """Whether a pop waits for any queue of a namespace or task."""
        return any(target.name.queue is None for target in self._open)

    @property
    def is_anybody_here(self) -> bool:
        return bool(self._targets)

    @property
    def group_ids(self) -> list[int]:
        """Groups that pops wait for."""
        return list(self._by_group)

    def target(self, name: TargetName) -> Target:
        target = self._targets.get(name)
        if target is None:
            target = self._targets[name] = Target(name)
            self._open.add(target)
        return target

    def is_dry(self, name: TargetName) -> bool:
        """Whether pops of a target wait for messages."""
        target = self._targets.get(name)
        return target is not None and target.is_dry

    def know(self, target: Target, groups: Iterable[tuple[int, int, str]]) -> None:
        """Register the (queue id, group id, queue name) that wake a target, in search order."""
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
        """Waiting targets look up their groups again. A running search finds out by itself."""
        for target in self._targets.values():
            if not target.is_running:
                self.know(target, ())

    def forget(self, target: Target) -> None:
        """Remove a target without waiters, or one that no other pop shares."""
        if target.timer is not None:
            target.timer.cancel()
        self._unlink(target)
        self._open.discard(target)
        if self._targets.get(target.name) is target:
            del self._targets[target.name]

    def _unlink(self, target: Target) -> None:
        for index, ids in ((self._by_queue, target.queue_ids), (self._by_group, target.group_ids)):
            for key in ids:
                if (linked := index.get(key)) is not None:
                    linked.discard(target)
                    if not linked:
                        del index[key]
        target.group_ids, target.queue_ids, target.queues = [], [], {}
        target.skips = 0

    def waiting(self, most: int) -> dict[tuple[str, str], int]:
        """The number of waiting pops by queue and group. Pairs beyond ``most`` are added up."""
        found: dict[tuple[str, str], int] = {}
        for target in self._targets.values():
            count = sum(unit.request.wait for unit in target.asking())
            if count:
                pair = (target.name.queue or OTHER, target.group)
                if pair not in found and len(found) >= most:
                    pair = (OTHER, OTHER)
                found[pair] = found.get(pair, 0) + count
        return found

    def idle(self, queue_ids: Iterable[int]) -> list[Target]:
        """Targets of these queues whose pops found no message and wait."""
        return [
            target
            for queue_id in queue_ids
            for target in self._by_queue.get(queue_id, ())
            if target.is_dry and not target.is_running and target.units
        ]

    def wake_queues(self, queue_ids: Iterable[int], *, is_new: bool = False) -> None:
        for queue_id in queue_ids:
            for target in tuple(self._by_queue.get(queue_id, ())):
                self.wake(target, is_new=is_new)

    def wake_groups(self, group_ids: Iterable[int]) -> None:
        for group_id in group_ids:
            for target in tuple(self._by_group.get(group_id, ())):
                self.wake(target)

    def wake_open(self) -> None:
        """A queue was created: wake the targets that it may concern."""
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
        """Start a search. ``is_new``: only new messages arrived."""
        target.is_hot = True
        target.is_dry = False
        target.seeks_due |= not is_new
        if not target.is_running and target.units:
            self._run(target)

    def all_units(self) -> list[PendingPop]:
        return [unit for target in self._targets.values() for unit in target.units]

    def sleep(self, target: Target, seconds: float) -> None:
        """Search again after at most ``seconds``. An earlier wake-up stays."""
        loop = asyncio.get_running_loop()
        if target.timer is not None:
            if loop.time() < target.timer.when() <= loop.time() + seconds:
                return
            target.timer.cancel()
        target.timer = loop.call_later(max(seconds, 0.001), self.wake, target)
