"""Spread queues: every database has the queue and its groups, and each partition is in one."""

import asyncio
import contextlib
import random
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from queen import errors
from queen.bounded import BoundedDict
from queen.codec.names import QUEUE_MODE
from queen.engine.engine import Engine
from queen.engine.runtime.periodic import PeriodicTask
from queen.wire.messages import PopRequest

_KNOWN: Final = 100_000
"""Queues that a process remembers."""
_POLL_SECONDS: Final = 30.0
_RETRY_SECONDS: Final = (0.5, 1.5)
"""While a database is unavailable."""
_FAILURES: Final = (errors.ServiceError, errors.OutcomeUnknown)
_MOST_OF_QUEUE: Final = 10_000
_Wish = tuple[str, str | None, datetime | None]
"""A group, and the start that a pop requires."""


class _Definition(msgspec.Struct):
    """What this process needs of a definition."""

    id: int
    revision: int


class Spreads(PeriodicTask):
    """
    Copies the definitions of spread queues from the first database to the others.

    The first database decides the options and groups of a spread queue, and records which databases
    lack a change. A request that changes a definition copies it at once. This task repeats that for
    databases that were unavailable. Other requests copy a definition that their database lacks.
    """

    def __init__(self, engines: Mapping[str, Engine]) -> None:
        """``engines``: by the names of their databases, the first database first."""
        super().__init__(pause_seconds=random.uniform(0.0, 1.0), retry_seconds=_RETRY_SECONDS)
        self._engines = dict(engines)
        self._name_of_first, self._first = next(iter(self._engines.items()))
        self._known = BoundedDict[str, set[tuple[Engine, _Wish | None]]](_KNOWN)
        """By queue, the databases that have it (None) and its groups."""
        self._first.signals.on_queues_changed.subscribe(lambda _: self.wake())
        for engine in self._engines.values():
            engine.signals.on_database_returned.subscribe(self.wake)

    async def run(self) -> float:
        """Copy the definitions that databases lack."""
        rows = await self._first.store.definitions.outdated()
        rows = [row for row in rows if row["database"] in self._engines]
        if not rows:
            return _POLL_SECONDS * random.uniform(0.8, 1.2)
        is_complete = True
        for queue_id in dict.fromkeys(row["queue_id"] for row in rows):
            names = [row["database"] for row in rows if row["queue_id"] == queue_id]
            is_complete = await self._copy(queue_id, names) and is_complete
        return 0.0 if is_complete else random.uniform(*_RETRY_SECONDS)

    async def check_all(self) -> None:
        """Raise DatabaseUnavailable unless all databases respond."""

        async def check(name: str, engine: Engine) -> None:
            try:
                await engine.store.database.fetch("identity")
            except _FAILURES as error:
                raise errors.DatabaseUnavailable(f"database {name}: {error}") from error

        await asyncio.gather(*(check(*each) for each in self._engines.items()))

    async def publish(self, queue_id: int) -> None:
        """Copy a definition that has changed. Databases that are unavailable get it later."""
        with contextlib.suppress(*_FAILURES):
            await self._copy(queue_id, [*self._engines][1:])
        self.wake()

    async def publish_to_all(self, queue_id: int) -> None:
        """Copy a definition. Raises DatabaseUnavailable unless all databases have it."""
        listed = await self._first.store.homes.databases()
        if absent := {*listed} - self._engines.keys():
            raise errors.DatabaseUnavailable(
                f"QUEEN_DATABASES of this server lacks {', '.join(sorted(absent))}"
            )
        if not await self._copy(queue_id, [name for name in listed if name != self._name_of_first]):
            raise errors.DatabaseUnavailable("a database is unavailable. Try again later")

    async def _copy(self, queue_id: int, names: Iterable[str]) -> bool:
        """Copy a definition to databases. Returns whether all of them have it."""
        definition = await self._first.store.definitions.get(queue_id)
        known = msgspec.json.decode(definition, type=_Definition)

        async def put(name: str) -> bool:
            engine = self._engines[name]
            with contextlib.suppress(*_FAILURES):
                await engine.store.definitions.apply(definition)
                engine.signals.queue_changed(queue_id)
                await self._first.store.definitions.confirm(name, queue_id, known.revision)
                return True
            return False

        return all(await asyncio.gather(*map(put, names)))

    async def ensure(self, engine: Engine, queues: Iterable[str]) -> None:
        """Make sure that a database has spread queues that a push needs."""
        if engine is self._first:
            return
        missing = [each for each in {*queues} if (engine, None) not in self._of(each)]
        if not missing:
            return
        found = await engine.store.queues.named(missing)
        for each in {*missing} - {row["name"] for row in found}:
            await self._put(engine, each)
        for each in missing:
            self._of(each).add((engine, None))

    async def _put(self, engine: Engine, queue: str) -> None:
        """Copy a queue to a database. A push creates it in the first one if it was deleted."""
        definitions = self._first.store.definitions
        definition = await definitions.find(queue)
        if definition is None:
            if not engine.settings.auto_create:
                return
            await self._first.queues.configure(queue)
            definition = await definitions.find(queue)
        if definition is not None:
            await engine.store.definitions.apply(definition)

    async def ensure_group(self, engine: Engine, request: PopRequest) -> None:
        """
        Make sure that a database has the group of a pop.

        Raises QueueNotFound, or SubscriptionConflict if the group was created with another start.
        """
        if engine is self._first or request.queue is None:
            return
        group = request.consumer_group or QUEUE_MODE
        mode = request.subscription_mode
        if request.subscription_from is not None:
            mode = "time"
        start_at = request.subscription_from
        key = engine, (group, mode, start_at)
        if key in self._of(request.queue):
            return
        wish: dict[str, Any] = {"mode": mode, "start_at": start_at}
        found = await engine.store.groups.find([request.queue], group, **wish)
        if not found or found[0]["group_id"] is None:
            if await self._first.store.groups.subscribe(request.queue, group, **wish) is None:
                raise errors.QueueNotFound(f"queue {request.queue} does not exist")
            await self._put(engine, request.queue)
            self.wake()  # The other databases get it too.
        self._of(request.queue).add(key)

    def forget(self, queue: str) -> None:
        """Check again which databases have a queue and its groups, because one lacked them."""
        self._known.pop(queue, None)

    def _of(self, queue: str) -> set[tuple[Engine, _Wish | None]]:
        """What this process knows of a queue."""
        known = self._known.get(queue)
        if known is None or len(known) > _MOST_OF_QUEUE:
            known = self._known[queue] = set()
        return known
