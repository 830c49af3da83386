"""Pushes recurring messages by cron expressions: each tick once, across all processes."""

import logging
import random
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from queen import errors
from queen.codec.names import check_name
from queen.engine.core import Core
from queen.engine.push.pusher import Pusher, first_problem
from queen.engine.runtime.periodic import PeriodicTask
from queen.engine.sources import cron as ticks
from queen.store.connection.database import Record
from queen.store.schedules import Move
from queen.wire.messages import Payload, PushItem, Wire

_LOG: Final = logging.getLogger("queen.engine")
_OFFICE_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 30.0
"""The longest sleep, in case a notification was lost."""
_POOLED_POLL_SECONDS: Final = 5.0
"""The longest sleep without notifications of new schedules."""
_AGAIN_SECONDS: Final = 10.0
"""Before a failed tick is retried."""
_MOVED_SECONDS: Final = 1.0
"""Before a tick is retried whose queue has moved."""
_EARLY_SECONDS: Final = 0.001
_SCHEDULES: Final = 50
"""Schedules per transaction, and ticks per schedule."""
_TICKS: Final = 20
_MOST_NAME_BYTES: Final = 200
"""Leaves room for a timestamp after the name."""
_MOST_ERROR: Final = 1_000
_NOT_ITS_FAULT: Final = (errors.DatabaseUnavailable, errors.Draining, errors.OutcomeUnknown)
SCHEDULE_HEADER: Final = "queen-schedule"
TICK_HEADER: Final = "queen-tick"


class Recurring(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The message of a schedule, without its queue and partition."""

    payload: Payload
    headers: dict[str, str] | None = None
    ttl_seconds: float | None = None
    priority: int | None = None


_DECODE: Final = msgspec.json.Decoder(Recurring).decode


class Schedules(PeriodicTask):
    """
    Pushes due ticks. One process per database, the leader, does it.

    A schedule moves to its next tick in the transaction that pushes the message of this one.
    """

    def __init__(self, core: Core, pusher: Pusher) -> None:
        self._store = core.store
        self._settings = core.settings
        self._catalogue = core.catalogue
        self._pusher = pusher
        self._sealer = core.sealer
        self._signals = core.signals
        core.signals.on_schedules_changed.subscribe(self.wake)
        self._holder = random.getrandbits(62)
        super().__init__(pause_seconds=self._poll_seconds())

    async def put(
        self,
        name: str,
        *,
        queue: str,
        cron: str,
        message: Recurring,
        partition: str = "Default",
        time_zone: str = "UTC",
        missed: str = "once",
        is_paused: bool | None = None,
        queues: Iterable[str] = (),
        manager: tuple[str | None] | None = None,
    ) -> Record:
        """
        Create or change a schedule.

        ``queues``: the queues that an existing schedule may belong to, besides this one.
        ``manager``: its new owner, or None to keep the present one.
        """
        check_name("schedule", name, _MOST_NAME_BYTES)
        now = await self._now()
        next_at = ticks.first_tick(cron, time_zone, now)
        known = await self._catalogue.queues([queue])
        if queue not in known and not self._settings.auto_create:
            raise errors.QueueNotFound(f"queue {queue} does not exist")
        if refused := await self._pusher.admit([_item(name, queue, partition, message, now)]):
            raise first_problem(refused)
        row = await self._store.schedules.put(
            name,
            queue=queue,
            partition=partition,
            cron=cron,
            time_zone=time_zone,
            missed=missed,
            message=await self._sealed(queue, msgspec.json.encode(message)),
            is_paused=is_paused,
            next_at=next_at,
            queues=[queue, *queues],
            manager=manager,
        )
        if row is None:
            raise errors.VersionMismatch(f"schedule {name} was changed at the same time")
        self._signals.schedules_changed()
        return row

    async def pause(self, name: str, *, is_paused: bool) -> Record:
        """Pause a schedule, or resume it with the next tick from now."""
        row = await self.one(name)
        next_at = None
        if not is_paused:
            next_at = ticks.next_tick(row["cron"], row["time_zone"], await self._now())
        changed = await self._store.schedules.pause(name, is_paused=is_paused, next_at=next_at)
        if changed is None:
            raise _missing(name)
        self._signals.schedules_changed()
        return changed

    async def delete(self, name: str) -> None:
        """Delete a schedule. Messages that were pushed stay."""
        if not await self._store.schedules.delete(name):
            raise _missing(name)

    async def find(self, name: str) -> Record | None:
        """The schedule of a name, if there is one."""
        check_name("schedule", name, _MOST_NAME_BYTES)
        return await self._store.schedules.one(name)

    async def one(self, name: str) -> Record:
        row = await self.find(name)
        if row is None:
            raise _missing(name)
        return row

    async def item(self, row: Record) -> PushItem:
        """A message of a schedule for now, independent of its ticks."""
        message = await self.message(row)
        item = _item(row["name"], row["queue"], row["partition"], message, await self._now())
        return msgspec.structs.replace(item, transaction_id=None)

    async def message(self, row: Record) -> Recurring:
        """The message of a schedule. Raises EncryptionUnavailable."""
        opened, _ = await self._sealer.open_one(0, row["message"], None)
        return _DECODE(opened)

    async def run(self) -> float:
        while True:
            found = await self._store.schedules.due(self._holder, _OFFICE_SECONDS, _SCHEDULES)
            if not found or found[0]["name"] is None:
                break
            await self._fire_all(found)
        wait = found[0]["wait_seconds"] + _EARLY_SECONDS if found else _POLL_SECONDS
        return min(wait, self._poll_seconds())

    def _poll_seconds(self) -> float:
        is_pooled = self._store.database.is_pooled
        return (_POOLED_POLL_SECONDS if is_pooled else _POLL_SECONDS) * random.uniform(0.8, 1.2)

    async def _now(self) -> datetime:
        return (await self._store.database.fetch("now"))[0]["now"]

    async def _sealed(self, queue: str, message: bytes) -> bytes:
        keys, problems = await self._sealer.keys({queue: 1})
        for problem in problems.values():
            raise problem
        for key in keys.values():
            # No partition has the id 0, so only a schedule can use this ciphertext.
            (message,) = key.seal(0, [message])
        return message

    async def _fire_all(self, rows: Sequence[Record]) -> None:
        """Fire them together, or one by one if one of them fails."""
        try:
            await self._fire(rows)
        except _NOT_ITS_FAULT:
            raise
        except Exception as error:
            if len(rows) > 1:
                for row in rows:
                    await self._fire_all([row])
                return
            (row,) = rows
            if isinstance(error, errors.SlotMoved) and error.slots:
                # From now on the search leaves it out, until this database owns the slot again.
                await self._store.schedules.defer(row["name"], row["next_at"], _MOVED_SECONDS, None)
                return
            _LOG.warning("schedule %s could not be pushed: %s", row["name"], error)
            text = (str(error) or type(error).__name__)[:_MOST_ERROR]
            await self._store.schedules.defer(row["name"], row["next_at"], _AGAIN_SECONDS, text)

    async def _fire(self, rows: Sequence[Record]) -> None:
        items: list[PushItem] = []
        moves: list[Move] = []
        most = min(_TICKS, self._settings.max_items)
        for row in rows:
            now, next_at = row["now"], row["next_at"]
            rule = row["cron"], row["time_zone"]
            found, next_ = ticks.due(*rule, next_at, now, missed=row["missed"], most=most)
            if found:
                message = await self.message(row)
                where = row["name"], row["queue"], row["partition"]
                items += [_item(*where, message, tick) for tick in found]
            moves.append(Move(row["name"], next_at, found[-1] if found else None, next_))
        parts, refused = await self._pusher.prepare(items, is_admitted=True) if items else ([], {})
        if refused:
            raise first_problem(refused)
        # None: another process was faster, or the schedule was changed. The next search finds out.
        await self._pusher.store_with(
            parts, lambda push: self._store.schedules.fire(moves, push), refusal_kind="schedule"
        )


def _item(name: str, queue: str, partition: str, message: Recurring, instant: datetime) -> PushItem:
    """The message of one tick, with a unique transactionId."""
    tick = instant.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"
    return PushItem(
        queue=queue,
        partition=partition,
        payload=message.payload,
        transaction_id=f"{name}@{tick}",
        headers={**(message.headers or {}), SCHEDULE_HEADER: name, TICK_HEADER: tick},
        ttl_seconds=message.ttl_seconds,
        priority=message.priority,
    )


def _missing(name: str) -> errors.NotFound:
    return errors.NotFound(f"schedule {name} does not exist")
