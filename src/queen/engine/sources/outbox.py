"""Moves messages that applications enqueued in their transactions to the log, once and soon."""

import asyncio
import logging
import random
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from queen import errors
from queen.engine.core import Core
from queen.engine.push.batches import PartitionBatch
from queen.engine.push.pusher import Pusher
from queen.engine.runtime.periodic import PeriodicTask
from queen.engine.sources.forwarder import Forwarder
from queen.engine.sources.outbox_items import item_of
from queen.store.connection.database import Record
from queen.store.outbox import Outbox
from queen.wire.messages import PushItem

_LOG: Final = logging.getLogger("queen.engine")
_LIMIT: Final = 1_000
LEAD_SECONDS: Final = 3.0
"""How long a process leads without a renewal."""
_AWAKE_SECONDS: Final = 1.0
"""Time without new messages before the mover sleeps."""
_POLL_SECONDS: Final = 60.0
"""The interval while it sleeps. If a notification was lost, the heartbeat wakes it earlier."""


class OutboxTask(PeriodicTask):
    """
    Empties an outbox. One process per database, the leader, does it.

    While messages arrive, it searches continuously. Then it records that it sleeps. It keeps
    searching until every transaction that may not have seen that record has ended, so it misses no
    message.
    """

    step_seconds: float
    """Between two searches while applications enqueue messages."""
    long_step_seconds: float
    """Between two searches while an open transaction may have enqueued messages earlier."""

    def __init__(self, outbox: Outbox, *, most: int, pause_seconds: float = 0.0) -> None:
        """``most``: a step of fewer messages is followed by a pause."""
        super().__init__(pause_seconds=pause_seconds)
        self._outbox = outbox
        self._most = most
        self._holder = random.getrandbits(62)
        self._first_xid = 0
        """All messages of older transactions were seen."""
        self.moved: int = 0

    @abstractmethod
    async def step(self) -> int:
        """Move one batch of messages. Returns 0 if there is none."""

    async def serve(self) -> None:
        """Move the messages, including those that arrive meanwhile."""
        self._first_xid = 0
        is_busy = await self.step() > 0
        while is_busy and await self.lead(is_awake=True):
            is_busy = (
                await self.move_until_quiet()
                and await self.lead(is_awake=False)
                and await self.see_off()
            )

    async def move_until_quiet(self) -> bool:
        """Move messages until none arrive. Returns False if another process leads now."""
        led_at = last_at = time.monotonic()
        while (now := time.monotonic()) < last_at + _AWAKE_SECONDS:
            if now > led_at + LEAD_SECONDS / 3:
                if not await self.lead(is_awake=True):
                    return False
                led_at = now
            if moved := await self.step():
                last_at = time.monotonic()
            if moved < self._most:
                await asyncio.sleep(self.step_seconds)
        return True

    async def lead(self, *, is_awake: bool) -> bool:
        return await self._outbox.lead(self._holder, LEAD_SECONDS, is_awake=is_awake)

    async def see_off(self) -> bool:
        """
        Wait for the end of all transactions that may have seen this task awake.

        Returns True as soon as one of them left messages. The others still have to be waited for.
        """
        next_xid = await self._outbox.next_xid()
        open_xid, pause = 0, self.step_seconds
        while open_xid < next_xid:
            open_xid = await self._outbox.open_xid()
            if await self.step():
                return True
            if open_xid < next_xid:
                # Transactions that enqueue now send a notification, which starts a search. The last
                # search must not consume such a notification. Long transactions are searched less
                # often.
                await self.until_woken(pause)
                pause = min(2 * pause, self.long_step_seconds)
        return False


class OutboxMover(OutboxTask):
    """
    Moves the outbox. A message leaves it in the transaction that pushes the message.

    Messages for other databases leave it in the transaction that gives them to the forwarder.
    """

    step_seconds = 0.005
    long_step_seconds = 2.0

    def __init__(self, core: Core, pusher: Pusher, forwarder: Forwarder) -> None:
        self._store = core.store
        self._settings = settings = core.settings
        self._pusher = pusher
        self._forwarder = forwarder
        self._sealer = core.sealer
        core.signals.on_outbox_filled.subscribe(self.wake)
        core.signals.on_database_returned.subscribe(self.wake)
        most = min(_LIMIT, settings.max_items)
        super().__init__(core.store.outbox, most=most, pause_seconds=self._poll_seconds())

    def _poll_seconds(self) -> float:
        is_pooled = self._store.database.is_pooled
        seconds = self._settings.safety_poll_ms / 1000 if is_pooled else _POLL_SECONDS
        return seconds * random.uniform(0.8, 1.2)

    async def run(self) -> float:
        await self.serve()
        return self._poll_seconds()

    async def step(self) -> int:
        """Move up to `_most` messages. Returns how many of those found can be moved now."""
        found = await self._store.outbox.read(self._first_xid, self._most)
        if not found:
            return 0
        try:
            are_moved, count = await self._move(found)
        except (errors.ServiceError, errors.OutcomeUnknown):
            raise
        except Exception as error:
            are_moved, count = await self._move_each(found, error)
        # If another process moved some of them, the rest stays and is older than open transactions.
        if are_moved and len(found) < self._most:
            self._first_xid = found[0]["open_xid"]
        return count

    async def _move_each(self, rows: Sequence[Record], error: Exception) -> tuple[bool, int]:
        """One message blocks all others: isolate it, and move the others."""
        if len(rows) == 1:
            await self._set_aside({rows[0]["id"]: str(error) or type(error).__name__})
            return True, 1
        are_moved, count = True, 0
        for row in rows:
            try:
                is_moved, one = await self._move([row])
            except (errors.ServiceError, errors.OutcomeUnknown):
                raise
            except Exception as own:
                is_moved, one = await self._move_each([row], own)
            are_moved, count = are_moved and is_moved, count + one
        return are_moved, count

    async def _move(self, rows: Sequence[Record]) -> tuple[bool, int]:
        """Move these together. Returns whether this process did, and how many wait for no key."""
        items: dict[int, PushItem] = {}
        reasons: dict[int, str] = {}
        for row in rows:
            try:
                items[row["id"]] = item_of(row)
            except msgspec.MsgspecError as error:
                reasons[row["id"]] = str(error)
        if reasons:
            await self._set_aside(reasons)
        if not self._forwarder.is_connected:
            are_moved, count = await self._push(items)
            return are_moved, count + len(reasons)
        elsewhere = await self._forwarder.elsewhere({each.queue for each in items.values()})
        foreign = {id_: each for id_, each in items.items() if each.queue in elsewhere}
        are_moved = await self._forward(foreign)
        here = {id_: each for id_, each in items.items() if id_ not in foreign}
        try:
            are_pushed, count = await self._push(here)
        except errors.SlotMoved:
            # The forwarder waits for a queue that is moving, without stopping the others.
            await self._forwarder.reload()
            are_pushed, count = await self._forward(here), len(here)
        return are_moved and are_pushed, count + len(foreign) + len(reasons)

    async def _forward(self, items: Mapping[int, PushItem]) -> bool:
        """Give messages to the forwarder. Returns False if another process was faster."""
        if not items:
            return True
        return await self._forwarder.take_over({id_: each.queue for id_, each in items.items()})

    async def _push(self, items: Mapping[int, PushItem]) -> tuple[bool, int]:
        """Push to queues of this database. The result is that of `_move`."""
        # Without their key they stay in the outbox until it is back.
        _, locked = await self._sealer.keys({each.queue: 0 for each in items.values()})
        ids = [id_ for id_, each in items.items() if each.queue not in locked]
        if not ids:
            return True, 0
        parts, refused = await self._pusher.prepare([items[id_] for id_ in ids], is_admitted=True)
        if refused:
            await self._set_aside({ids[at]: each.error or "" for at, each in refused.items()})
        are_moved = await self._append(
            [id_ for at, id_ in enumerate(ids) if at not in refused], parts
        )
        return are_moved, len(ids)

    async def _set_aside(self, reasons: dict[int, str]) -> None:
        _LOG.warning("%d messages of the outbox cannot be pushed", len(reasons))
        await self._store.outbox.set_aside(reasons)

    async def _append(self, ids: Sequence[int], parts: Sequence[PartitionBatch]) -> bool:
        """Push them and delete them from the outbox. Returns False if some were already deleted."""
        moved = await self._pusher.store_with(
            parts, lambda push: self._store.outbox.append(ids, push), refusal_kind="outbox"
        )
        self.moved += moved or 0
        return moved is not None  # None: another process was faster.
