"""Move messages from an application's database to a server, each exactly once."""

import logging
import random
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from queen import errors
from queen.engine.sources.outbox import LEAD_SECONDS, OutboxTask
from queen.engine.sources.outbox_items import item_of
from queen.store.connection.database import Record
from queen.store.relay import Relay
from queen.wire.messages import PushItem
from queen.wire.transactions import PushOperation, TransactionRequest

if TYPE_CHECKING:
    from queen import Queen

_LOG: Final = logging.getLogger("queen.relay")
_LIMIT: Final = 500
_BYTES: Final = 4 * 2**20
_POLL_SECONDS: Final = 10.0
_LONGEST_PAUSE_SECONDS: Final = 10.0
_PLACE: Final = re.compile(r"/operations/(\d+)(?:/|$)")
_OF_ITEMS: Final = (
    errors.BadRequest,
    errors.InvalidItem,
    errors.InvalidName,
    errors.PayloadTooLarge,
    errors.QueueNotFound,
    errors.SchemaViolation,
)
"""Errors of a message. All other errors may be temporary."""
_TOO_LARGE: Final = (errors.BodyTooLarge, errors.TooManyItems, errors.CrossShard)
"""Errors of a batch whose messages can be pushed one by one."""


class Relaying(OutboxTask):
    """
    Pushes batches, each with a sequence that is stored with the batch before it is sent.

    One process does this, under a leadership that expires. If two processes both act as leader,
    they send the same batch with the same sequence, and the server stores it once.
    """

    step_seconds = 0.01
    long_step_seconds = 0.1

    def __init__(self, relay: Relay, queen: "Queen") -> None:
        super().__init__(relay, most=1)
        self._relay = relay
        self._queen = queen
        self._limit = _LIMIT
        self._failures = 0

    async def run(self) -> float:
        try:
            if not await self.lead(is_awake=False):
                return LEAD_SECONDS  # Another relay leads, or its leadership has not expired.
            await self.serve()
        except (errors.QueenError, OSError) as error:
            # The batch and its sequence stay the same for the retry.
            self._failures += 1
            most = min(_LONGEST_PAUSE_SECONDS, 0.2 * 2 ** min(self._failures, 10))
            pause = max(random.uniform(most / 2, most), getattr(error, "retry_after", None) or 0.0)
            _LOG.warning("push failed, retry in %.1f s: %s", pause, error)
            return pause
        return _POLL_SECONDS * random.uniform(0.8, 1.2)

    async def step(self) -> bool:
        """Push one batch. Returns False if there is none."""
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
                # One of them is invalid, but the error doesn't name it: push one by one.
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
        # Not by /push, which a server may buffer on disk: another server could overtake it.
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
            # Another relay has pushed this batch and a later one.
            _LOG.info("batch %d was pushed by another relay", sequence)

    async def _refuse(self, sequence: int, reasons: dict[int, str]) -> None:
        for id_, reason in reasons.items():
            _LOG.warning("message %d of the outbox cannot be pushed: %s", id_, reason)
        await self._relay.refuse(sequence, reasons)

    async def see_off(self) -> bool:
        self._first_xid = 0
        return await super().see_off()


def _items(rows: Sequence[Record]) -> tuple[list[PushItem], dict[int, str]]:
    """Decode the messages of a batch. Returns the reasons for invalid ones."""
    items: list[PushItem] = []
    reasons: dict[int, str] = {}
    for row in rows:
        try:
            items.append(item_of(row))
        except msgspec.MsgspecError as error:
            reasons[row["id"]] = str(error)
    return items, reasons


def _place_of(error: errors.QueenError, count: int) -> int | None:
    """Return the index of the rejected message in a batch."""
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
