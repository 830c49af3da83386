"""The databases of messages that wait in a file buffer."""

import contextlib
from collections.abc import Collection, Mapping

from queen import errors
from queen.cluster.following import Following
from queen.cluster.places import Places
from queen.cluster.spread.spreads import Spreads
from queen.engine.buffer.elsewhere import Home, Name
from queen.engine.engine import Engine
from queen.store.cluster.homes import SPREAD


class BufferHomes:
    """Finds the owners of partitions whose messages were buffered for one database."""

    def __init__(
        self, engine: Engine, places: Places, following: Following, spreads: Spreads
    ) -> None:
        self._engine = engine
        self._places = places
        self._following = following
        self._spreads = spreads

    async def of_partitions(self, names: Collection[Name]) -> Mapping[Name, Home]:
        """Where partitions are, without those whose queue the database does not know."""
        # Not from the first database, because it may be unavailable.
        queues = await self._engine.store.homes.find([*{queue for queue, _ in names}])
        slots = {
            (queue, partition): self._places.slot_in(queue, queues[queue], partition)
            for queue, partition in names
            if queue in queues
        }
        engines = {name: self._following.engine(slot) for name, slot in slots.items()}
        foreign = [name for name, engine in engines.items() if engine is not self._engine]
        # A push may create them there.
        home = {queue for queue, _ in foreign if queues[queue] != SPREAD}
        if home:
            await self._places.claim(dict.fromkeys(home, ""))
        for queue, partition in foreign:
            if queues[queue] == SPREAD:
                await self._spreads.ensure(engines[queue, partition], [queue])
        return {
            name: Home(slots[name], engine.replayer.writer)
            for name, engine in engines.items()
            if engine.replayer is not None
        }

    async def refresh(self) -> None:
        """Read again which database owns which slots."""
        with contextlib.suppress(errors.ServiceError, errors.OutcomeUnknown):
            await self._following.owners.load()
