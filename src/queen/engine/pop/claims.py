"""Claims messages for pops: finds their groups and remembers where searches can begin."""

import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from datetime import datetime
from typing import Final

from queen import errors
from queen.bounded import BoundedDict
from queen.engine.core import Core
from queen.engine.pop.answer_size import LENT_SECONDS
from queen.engine.pop.waiters import PendingPop, Target, TargetName, Waiters
from queen.engine.runtime.combiner import is_plain
from queen.store import messages as rows

_FILL_STEP: Final = 1_000
Send = Callable[[rows.Pop], Awaitable[list[rows.Record]]]


class Marks:
    """Where searches by time can start, per group. Everything before was empty."""

    __slots__ = ("due_since", "full_at", "ready_since", "searched_due_at")

    def __init__(self) -> None:
        self.ready_since: datetime | None = None
        self.due_since: datetime | None = None
        self.full_at = 0.0
        self.searched_due_at = 0.0


class Claims:
    """Finds or creates the groups of a target, and claims their messages."""

    def __init__(self, core: Core, waiters: Waiters) -> None:
        self._store = core.store
        self._settings = settings = core.settings
        self._counters = core.counters
        self._waiters = waiters
        self._catalogue = core.catalogue
        self._combiner = core.combiner
        self._marks = BoundedDict[int, Marks](settings.catalogue_entries)
        self._groups = BoundedDict[tuple[str, str], tuple[int, int]](settings.catalogue_entries)
        self._unfilled: set[int] = set()
        self._turns = BoundedDict[TargetName, int](settings.catalogue_entries)
        """How often a target was searched. Every fourth search begins with another priority."""
        core.signals.on_caches_stale.subscribe(self.forget_marks)
        core.signals.on_queues_changed.subscribe(self._forget_changed)
        core.signals.on_database_returned.subscribe(self.forget_marks)
        core.signals.on_server_replaced.subscribe(self.forget_groups)

    def forget_marks(self) -> None:
        """Search from the start again, because skipped ranges may not be empty any more."""
        self._marks.clear()

    def _forget_changed(self, queue_ids: Collection[int] | None) -> None:
        """A queue may have been in another database, whose clock differs."""
        if queue_ids is None:
            self.forget_marks()
            return
        changed = set(queue_ids)
        for queue_id, group_id in self._groups.values():
            if queue_id in changed:
                self._marks.pop(group_id, None)

    def search_again(self, group_ids: Iterable[int]) -> None:
        """
        Search these groups from the start and wake their waiters.

        A slow COMMIT adds messages below the marks that were set meanwhile.
        """
        groups = list(group_ids)
        for group_id in groups:
            if (mark := self._marks.get(group_id)) is not None:
                mark.ready_since = mark.due_since = None
        self._waiters.wake_groups(groups)

    def forget_groups(self) -> None:
        """Look up the groups again, because groups of the same names may have new ids."""
        self._groups.clear()
        self._unfilled.clear()
        self._waiters.forget_groups()

    def forget(self, target: Target, gone: Iterable[int]) -> None:
        """Remove deleted groups. They may exist again with other ids."""
        lost = set(gone)
        for key in [key for key, ids in self._groups.items() if ids[1] in lost]:
            del self._groups[key]
        self._waiters.know(target, ())

    async def subscribe(self, target: Target) -> bool:
        """
        Subscribe the target if it is not subscribed. Returns False if no queue matches.

        Raises SlotMoved if its only queue has moved.
        """
        if not target.group_ids or target.name.queue is None:
            await self._subscribe(target)
        if not target.group_ids:
            return False
        await self._fill(target)
        return True

    async def _subscribe(self, target: Target) -> None:
        """Find the groups that the target reads, and create missing ones."""
        name = target.name
        group = target.group
        if name.queue is not None:
            queues = [name.queue]
        else:
            scope = await self._store.queues.in_scope(name.namespace, name.task)
            queues = [row["name"] for row in scope]
        known: dict[str, tuple[int, int]] = {}
        if name.mode is None:
            known = {each: ids for each in queues if (ids := self._groups.get((each, group)))}
        if missing := [queue for queue in queues if queue not in known]:
            start_at = next((u.request.subscription_from for u in target.units), None)
            wish = (name.mode, start_at if name.mode == "time" else None)
            known |= await self._find_or_create(missing, group, *wish)
        found = [(*known[queue], queue) for queue in queues if queue in known]
        self._waiters.know(target, found)

    async def _find_or_create(
        self, queues: Sequence[str], group: str, mode: str | None, start_at: datetime | None
    ) -> dict[str, tuple[int, int]]:
        """The ids of each existing queue and its group."""
        known: dict[str, tuple[int, int]] = {}
        groups = self._store.groups
        found = await groups.find(queues, group, mode=mode, start_at=start_at)
        for queue in queues:
            self._groups.pop((queue, group), None)
        for each in found:
            queue, row = each["queue"], each
            if row["queue_id"] is None:
                raise errors.SlotMoved(f"queue {queue} is in another database now")
            if row["group_id"] is None:
                # Created one at a time, because each waits for a lock on its queue.
                row = await groups.subscribe(queue, group, mode=mode, start_at=start_at)
            if row is not None:
                known[queue] = self._groups[queue, group] = (row["queue_id"], row["group_id"])
                if not row["is_filled"]:
                    self._unfilled.add(row["group_id"])
        return known

    async def _fill(self, target: Target) -> None:
        """A group that starts on many partitions gets its positions in steps."""
        if self._unfilled.isdisjoint(target.group_ids):
            return
        for group_id in self._unfilled.intersection(target.group_ids):
            if await self._store.groups.fill(group_id, _FILL_STEP):
                self._unfilled.discard(group_id)
            else:
                target.is_hot = True

    async def claim(
        self, target: Target, units: Sequence[PendingPop], *, send: Send | None = None
    ) -> list[rows.Record]:
        """Search once. ``send``: makes the call, maybe with other changes."""
        now = time.monotonic()
        marks = [self._mark(group_id) for group_id in target.group_ids]
        # With many wake-ups per second, search only for new messages.
        is_new = not target.seeks_due and all(unit.request.wait for unit in units)
        target.seeks_due = False
        due: rows.Due = "never" if is_new else "last"
        for mark in marks:
            if now >= mark.full_at:
                mark.full_at = now + self._settings.full_search_ms / 1000
                mark.ready_since = mark.due_since = None
            if now >= mark.searched_due_at + self._settings.due_search_ms / 1000:
                mark.searched_due_at = now
                due = "first"
        if due == "never":
            self._waiters.sleep(target, self._settings.due_search_ms / 1000)
        wanted = self._wanted(target, units, marks, due)
        is_short = self._is_plain(target) and is_plain(wanted)
        alone = self._combiner.pop if is_short else self._store.messages.pop
        return await self.received((send or alone)(wanted))

    def follow_push(self, target: Target, units: Sequence[PendingPop]) -> rows.Pop | None:
        """A pop that may follow a push in its transaction, because its search is short."""
        mark = self._marks.get(target.group_ids[0]) if len(target.group_ids) == 1 else None
        now = time.monotonic()
        due_seconds = self._settings.due_search_ms / 1000
        if (
            mark is None
            or now >= mark.full_at
            or now >= mark.searched_due_at + due_seconds
            or target.seeks_due
            or not all(unit.request.wait for unit in units)
            or not self._is_plain(target)
            or not is_plain(wanted := self._wanted(target, units, [mark], "never"))
        ):
            return None
        self._waiters.sleep(target, due_seconds)
        return wanted

    def _is_plain(self, target: Target) -> bool:
        """Whether the only queue of the target has no option that makes a search long."""
        queue = target.name.queue and self._catalogue.known(target.name.queue)
        return bool(queue and queue.is_plain)

    def _wanted(
        self,
        target: Target,
        units: Sequence[PendingPop],
        marks: Sequence[Marks],
        due: rows.Due,
    ) -> rows.Pop:
        is_lent = target.is_lent
        return rows.Pop(
            group_ids=target.group_ids,
            ready_since=[mark.ready_since for mark in marks],
            due_since=[mark.due_since for mark in marks],
            partition=target.name.partition,
            batches=[unit.request.batch for unit in units],
            partitions=[unit.request.partitions for unit in units],
            leases=[LENT_SECONDS if is_lent else unit.request.lease_seconds for unit in units],
            is_auto=target.name.is_auto and not is_lent,
            due=due,
            turn=self._turn(target.name),
        )

    async def received(self, popping: Awaitable[list[rows.Record]]) -> list[rows.Record]:
        """The rows of a pop. If it fails, searches start from the start again."""
        try:
            return await popping
        except (errors.ServiceError, errors.OutcomeUnknown):
            self.forget_marks()
            raise

    def learn(
        self, target: Target, claimed: Sequence[rows.Record]
    ) -> tuple[set[int], float | None]:
        """Read the marks from the rows. Returns deleted groups and the time to wait."""
        gone: set[int] = set()
        waits: list[float] = []
        for row in reversed(claimed):
            if row["request"] is not None:
                continue
            group_id = row["group_id"]
            if row["code"] is not None:
                gone.add(group_id)
                self._marks.pop(group_id, None)
                continue
            mark = self._mark(group_id)
            mark.ready_since, mark.due_since = row["ready_since"], row["due_since"]
            self._counters.count_search(row, target.queues[group_id], target.group)
            if row["wait_seconds"] is not None:
                waits.append(row["wait_seconds"])
        return gone, min(waits, default=None)

    def _mark(self, group_id: int) -> Marks:
        mark = self._marks.get(group_id)
        if mark is None:
            mark = self._marks[group_id] = Marks()
        return mark

    def _turn(self, name: TargetName) -> int:
        turn = self._turns[name] = (self._turns.get(name, 0) + 1) % 1_000_000
        return turn
