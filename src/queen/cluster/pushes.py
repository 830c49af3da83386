"""Pushes to the databases of their queues."""

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any

from queen import errors
from queen.cluster.divided import Divided
from queen.cluster.following import Following, Where
from queen.cluster.places import Places
from queen.cluster.results import ScatteredResult, failed_push
from queen.cluster.spread.numbered import NumberedRequests
from queen.cluster.spread.spreads import Spreads
from queen.codec.names import check_queue_name
from queen.codec.slots import hashed
from queen.engine.engine import Engine
from queen.engine.push.batches import PushResult
from queen.store.cluster.homes import SPREAD
from queen.wire.messages import Pushed, PushItem


class Pushes:
    """Stores messages in several databases."""

    def __init__(
        self,
        engines: dict[str, Engine],
        places: Places,
        following: Following,
        spreads: Spreads,
    ) -> None:
        self._engines = engines
        self._first = next(iter(engines.values()))
        self._places = places
        self._following = following
        self._spreads = spreads
        self.numbered = NumberedRequests(engines.values(), following)

    async def push(self, items: Sequence[PushItem], options: dict[str, Any]) -> PushResult:
        """Store messages, as `Engine.push` does."""
        slots = await self.expected({each.queue for each in items})
        if options["producer_id"] is not None or not items:
            needed = self._needed(items, slots)
            try:
                return await self._following.follow(needed, lambda: self._push_once(items, options))
            except errors.CrossShard:
                # All its queues were in one database when it was stored, if it is a repeat.
                if (first := await self.numbered.first_outcome(items, options)) is None:
                    raise
                return first
        is_buffered = False

        async def store(engine: Engine, some: Sequence[PushItem]) -> PushResult:
            nonlocal is_buffered
            result = await self._store(engine, some, options)
            is_buffered = is_buffered or result.is_buffered
            return result

        results = await Divided[PushItem, Pushed](
            self._following,
            items,
            lambda item: self._slot(item, slots),
            store,
            failed_push,
            engine_of=self._engine,
            are_clean=lambda part: isinstance(part, PushResult) and not part.may_be_refused,
        ).results()
        if isinstance(results, PushResult):
            return results
        return ScatteredResult(results, is_buffered=is_buffered)

    async def _push_once(self, items: Sequence[PushItem], options: dict[str, Any]) -> PushResult:
        """Store the messages of a producer, or of none."""
        expected = await self.expected({each.queue for each in items})
        needed = self._needed(items, expected)
        if items and all(expected.get(each.queue) == SPREAD for each in items):
            # This depends only on names and pins, so a repeat is divided in the same way after a
            # move.
            if len(needed) > 1:
                return await self.numbered.push(items, options, self._pinned, self._push_to_slot)
            options = {**options, "slot": next(iter(needed), None)}
        return await self._push_together(items, options, needed)

    def _pinned(self, item: PushItem) -> int:
        """The slot of an item, with the pins of its spread queue."""
        return self._following.owners.slot_of(item.queue, item.partition)

    async def _push_to_slot(
        self, slot: int, items: Sequence[PushItem], options: dict[str, Any]
    ) -> PushResult | None:
        async def attempt() -> PushResult | None:
            needed = self._needed(items, await self.expected({each.queue for each in items}))
            if [*needed] != [slot]:
                return None
            return await self._push_together(items, {**options, "slot": slot}, needed)

        return await self._following.follow([slot], attempt)

    async def push_to_one(self, items: Sequence[PushItem], options: dict[str, Any]) -> PushResult:
        """
        Store a numbered request in the only database.

        It is divided as in several databases, because others may join before it is repeated.
        """
        # Queues that are not spread need no hash per item.
        if (
            len({each.partition for each in items}) > 1
            and await self._are_spread(items)
            and len({*map(_hashed, items)}) > 1
        ):
            return await self.numbered.push(items, options, _hashed, self._push_to_first)
        return await self._first.push(items, **options)

    async def _are_spread(self, items: Sequence[PushItem]) -> bool:
        """Whether all queues are spread, if this process can know that now."""
        names = {each.queue for each in items}
        if len(self._valid(names)) < len(names):
            return False
        catalogue = self._first.catalogue
        found = catalogue.remembered(names)
        # Also while pushes go to disk, because a repeat must be divided as the first attempt was.
        if not self._first.store.database.is_away:
            with contextlib.suppress(errors.DatabaseUnavailable, errors.OutcomeUnknown):
                found = await catalogue.latest(names)
        return len(found) == len(names) and all(each.is_spread for each in found.values())

    async def _push_to_first(
        self, slot: int, items: Sequence[PushItem], options: dict[str, Any]
    ) -> PushResult:
        del slot
        return await self._first.push(items, **options)

    async def _push_together(
        self, items: Sequence[PushItem], options: dict[str, Any], needed: dict[int, str]
    ) -> PushResult:
        """Store all items in one database, or none. ``needed``: their slots."""
        owners = {self._following.engine(slot): what for slot, what in needed.items()}
        if len(owners) > 1:
            raise self.apart(owners)
        earlier = map(self._engine, needed)
        owner = next(iter(owners), self._first)
        engine = next((each for each in earlier if each is not owner), owner)
        return await self._store(engine, items, options)

    async def _store(
        self, engine: Engine, items: Sequence[PushItem], options: dict[str, Any]
    ) -> PushResult:
        """Store items in one database, after it knows their queues."""
        queues = {each.queue for each in items}
        await self.claim(queues, engine)
        try:
            return await engine.push(items, **options)
        except errors.SlotMoved:
            for queue in self._spread(queues):
                self._spreads.forget(queue)  # It may have been deleted there, and created again.
            raise

    def _slot(self, item: PushItem, expected: dict[str, int]) -> int | None:
        known = self._places.known(item.queue)
        slot = expected.get(item.queue) if known is None else known
        return None if slot is None else self._places.slot_in(item.queue, slot, item.partition)

    def _needed(self, items: Sequence[PushItem], expected: dict[str, int]) -> dict[int, str]:
        """Name a queue or partition for each slot that items need."""
        needed: dict[int, str] = {}
        for each in items:
            slot = self._slot(each, expected)
            if slot is not None and slot not in needed:
                is_spread = expected.get(each.queue) == SPREAD
                what = f"partition {each.partition} of queue" if is_spread else "queue"
                needed[slot] = f"{what} {each.queue}"
        return dict(sorted(needed.items(), key=lambda each: each[1]))

    def _spread(self, queues: Iterable[str]) -> list[str]:
        return [each for each in queues if self.is_spread(each)]

    def is_spread(self, queue: str) -> bool:
        """Whether a queue whose slot was found is in several databases."""
        return self._places.known(queue) == SPREAD

    def _engine(self, slot: Where) -> Engine:
        """
        The engine to push to: the owner of the slot.

        While the former owner still buffers pushes on disk, new ones go behind them, and reach the
        owner in order. If it is unavailable, they don't wait for it.
        """
        engine = self._following.engine(slot)
        former = self._following.owners.former.get(slot) if isinstance(slot, int) else None
        earlier = engine if former is None else self._engines.get(former, engine)
        waits = earlier.push_fallback.is_buffering and not earlier.store.database.is_away
        return earlier if waits else engine

    async def expected(self, queues: Iterable[str]) -> dict[str, int]:
        """The slot of each queue to push to, also if the push will create it."""
        return await self._places.expected(self._valid(queues))

    async def needed(self, items: Sequence[PushItem], queues: Iterable[str] = ()) -> dict[int, str]:
        """The same for items and whole queues. Raises CrossShard if such a queue is spread."""
        names = {*queues}
        slots = await self.expected(names | {each.queue for each in items})
        needed = self._needed(items, slots)
        for name in sorted(names & slots.keys()):
            if slots[name] == SPREAD:
                raise errors.CrossShard(
                    f"Queue {name} is in several databases, and the request names no partition."
                )
            needed.setdefault(slots[name], f"queue {name}")
        return needed

    async def slots(self, items: Sequence[PushItem]) -> list[int | None]:
        """The slot of each item. None for an invalid name, which every engine rejects."""
        expected = await self.expected({each.queue for each in items})
        return [self._slot(each, expected) for each in items]

    async def claim(self, queues: Iterable[str], engine: Engine) -> None:
        """Decide the slots of queues that a push to an engine may create."""
        valid = self._valid(queues)
        await self._places.claim(dict.fromkeys(valid, ""))
        if spread := self._spread(valid):
            await self._spreads.ensure(engine, spread)

    def _valid(self, queues: Iterable[str]) -> list[str]:
        """Leave out invalid names, which every engine rejects."""
        valid: list[str] = []
        for name in queues:
            with contextlib.suppress(errors.InvalidName):
                check_queue_name("queue", name, self._first.settings.max_name_bytes)
                valid.append(name)
        return valid

    def apart(self, parts: dict[Engine, str]) -> errors.CrossShard:
        """The error that names the database of each part."""
        return errors.CrossShard(
            f"The request needs several databases: {self.names(parts)}. Send one request per"
            " database, or give the queues the same namespace before their first message. In a"
            ' transaction, pushes can be sent to another database with acrossShards "outbox".'
        )

    def names(self, parts: dict[Engine, str]) -> str:
        """Name the database of each part."""
        names = {engine: name for name, engine in self._engines.items()}
        return ", ".join(f"{what} is in {names[engine]}" for engine, what in parts.items())


def _hashed(item: PushItem) -> int:
    return hashed(item.partition)
