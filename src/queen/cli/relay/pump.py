"""Move messages from an application's database to a server, each exactly once."""

import asyncio
import logging
import random
import re
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from queen import errors
from queen.engine.runtime.periodic import PeriodicTask
from queen.engine.sources.outbox import OutboxItem
from queen.store.connection.database import Record
from queen.store.relay import Relay
from queen.wire.messages import PushItem, PushOperation, TransactionRequest

if TYPE_CHECKING:
    from queen import Queen

_LOG: Final = logging.getLogger("queen.relay")
_LIMIT: Final = 500
_BYTES: Final = 4 * 2**20
_OFFICE_SECONDS: Final = 3.0
_STEP_SECONDS: Final = 0.01
"""Between two looks while applications put something down."""
_LONG_STEP_SECONDS: Final = 0.1
"""The same, asleep, while a transaction is open that may have put something down before."""
_AWAKE_SECONDS: Final = 1.0
"""Without anything new, before it sleeps."""
_POLL_SECONDS: Final = 10.0
_LONGEST_PAUSE_SECONDS: Final = 10.0
_PLACE: Final = re.compile(r"/operations/(\d+)(?:/|$)")
_DECODE: Final = msgspec.json.Decoder(OutboxItem).decode
_OF_ITEMS: Final = (
    errors.BadRequest,
    errors.InvalidItem,
    errors.InvalidName,
    errors.PayloadTooLarge,
    errors.QueueNotFound,
    errors.SchemaViolation,
)
"""What is wrong with a message; anything else may pass."""
_TOO_LARGE: Final = (errors.BodyTooLarge, errors.TooManyItems)


class Relaying(PeriodicTask):
    """
    Pushes batches, each under a sequence that was written down with it before it was sent.

    One process does this, by an office with an end. Two that believe it is theirs send the same
    batch under the same sequence, and the server stores it once.
    """

    def __init__(self, relay: Relay, queen: "Queen") -> None:
        super().__init__()
        self._relay = relay
        self._queen = queen
        self._holder = random.getrandbits(62)
        self._first_xid = 0
        """All that older transactions put down was seen."""
        self._limit = _LIMIT
        self._failures = 0
        self.moved = 0

    async def run(self) -> float:
        try:
            if not await self._lead(is_awake=False):
                return _OFFICE_SECONDS  # Another relay does it, or has died.
            await self._serve()
        except (errors.QueenError, OSError) as error:
            # The batch stays as it is, and so does its sequence.
            self._failures += 1
            most = min(_LONGEST_PAUSE_SECONDS, 0.2 * 2 ** min(self._failures, 10))
            pause = max(random.uniform(most / 2, most), getattr(error, "retry_after", None) or 0.0)
            _LOG.warning("again in %.1f s: %s", pause, error)
            return pause
        return _POLL_SECONDS * random.uniform(0.8, 1.2)

    async def _serve(self) -> None:
        """Push what there is, and what comes meanwhile; then go to sleep so that none is missed."""
        self._first_xid = 0
        if not await self.step() or not await self._lead(is_awake=True):
            return
        led_at = last_at = time.monotonic()
        while (now := time.monotonic()) < last_at + _AWAKE_SECONDS:
            if now > led_at + _OFFICE_SECONDS / 3:
                if not await self._lead(is_awake=True):
                    return
                led_at = now
            if await self.step():
                last_at = time.monotonic()
            else:
                await asyncio.sleep(_STEP_SECONDS)
        if await self._lead(is_awake=False):
            await self._see_off()

    async def step(self) -> bool:
        """Push one batch; False: there is none."""
        rows = await self._relay.take(self._first_xid, self._limit, _BYTES)
        if not rows:
            return False
        sequence: int = rows[0]["sequence"]
        rows = [row for row in rows if row["id"] is not None]
        items, reasons = _items(rows)
        if reasons:
            await self._refuse(sequence, reasons)
            return True
        try:
            if rows:
                await self._push(rows[0]["producer_id"], sequence, items)
        except _TOO_LARGE as error:
            if len(rows) == 1:
                await self._refuse(sequence, {rows[0]["id"]: str(error)})
            else:
                await self._relay.refuse(sequence, {})
                self._limit = max(1, len(rows) // 2)
            return True
        except _OF_ITEMS as error:
            if (at := _place_of(error, len(rows))) is None:
                # One of them, and nobody says which: one by one.
                await self._relay.refuse(sequence, {})
                self._limit = 1
            else:
                await self._refuse(sequence, {rows[at]["id"]: str(error)})
            return True
        await self._relay.end(sequence)
        self.moved += len(rows)
        self._failures = 0
        self._limit = min(_LIMIT, self._limit * 2)
        if rows and rows[0]["open_xid"] is not None:
            self._first_xid = rows[0]["open_xid"]
        return True

    async def _push(self, producer_id: str, sequence: int, items: Sequence[PushItem]) -> None:
        # Not by /push, which a server may put on its disk: there another server's could overtake.
        body = TransactionRequest(
            operations=[PushOperation(items=[item]) for item in items],
            producer_id=producer_id,
            sequence=sequence,
        )
        try:
            await self._queen.transport.exchange(
                "POST", "/api/v1/transaction", msgspec.json.encode(body)
            )
        except errors.SequenceStale:
            # Another relay has pushed this one, and more.
            _LOG.info("batch %d was pushed by another relay", sequence)

    async def _refuse(self, sequence: int, reasons: dict[int, str]) -> None:
        for id_, reason in reasons.items():
            _LOG.warning("message %d of the outbox cannot be pushed: %s", id_, reason)
        await self._relay.refuse(sequence, reasons)

    async def _lead(self, *, is_awake: bool) -> bool:
        return await self._relay.lead(self._holder, _OFFICE_SECONDS, is_awake=is_awake)

    async def _see_off(self) -> None:
        """Until all who may have seen that this is awake have ended."""
        self._first_xid = 0
        next_xid = await self._relay.next_xid()
        open_xid, pause = 0, _STEP_SECONDS
        while open_xid < next_xid:
            open_xid = await self._relay.open_xid()
            if await self.step():
                self.wake()
                return
            if open_xid < next_xid:
                # Whoever puts something down now calls, and is looked for at once: with the last
                # look behind, a call must not be taken here. What is open for long is not hurried.
                await self.until_woken(pause)
                pause = min(2 * pause, _LONG_STEP_SECONDS)


def _items(rows: Sequence[Record]) -> tuple[list[PushItem], dict[int, str]]:
    """The messages of a batch; and why some are none."""
    items: list[PushItem] = []
    reasons: dict[int, str] = {}
    for row in rows:
        try:
            said = _DECODE(row["item"])
        except msgspec.MsgspecError as error:
            reasons[row["id"]] = str(error)
            continue
        fields = {name: getattr(said, name) for name in said.__struct_fields__}
        items.append(PushItem(payload=msgspec.Raw(row["payload"].encode()), **fields))
    return items, reasons


def _place_of(error: errors.QueenError, count: int) -> int | None:
    """Which message of a batch was refused."""
    if count == 1:
        return 0
    problem = error.problem
    if problem is None:
        return None
    if isinstance(problem.failed_index, int):
        return problem.failed_index if problem.failed_index < count else None
    for each in problem.errors or ():
        if (found := _PLACE.match(each.pointer)) and int(found[1]) < count:
            return int(found[1])
    return None
