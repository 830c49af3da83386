"""Stores buffered records in one database, many in a transaction with their progress."""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from queen import errors
from queen.engine.buffer.file_buffer import (
    DOUBTFUL,
    BufferedPush,
    FileBuffer,
    age_seconds,
    encode_push,
    part_of,
)
from queen.engine.buffer.reader import Replayed
from queen.engine.buffer.retry_window import RetryWindow
from queen.engine.core import Core
from queen.engine.push.batches import PendingPush
from queen.engine.push.layout import SegmentLayout
from queen.engine.push.producers import Producer, is_another
from queen.engine.push.pusher import Pusher
from queen.engine.push.writer import Writer, contended
from queen.store.connection.database import Record
from queen.store.messages import Push
from queen.wire.messages import Pushed

_LOG: Final = logging.getLogger("queen.engine")
_SCOPE: Final = ""
"""The scope of producers that stand for progress. Servers from before scopes use the same."""
Progress = Callable[[Replayed], Iterable[tuple[str, int]]]
"""The producers that stand for the progress of a record, and their sequences."""


class _Done(Exception):
    """Some of these records are already stored: a response was lost."""


class RecordWriter:
    """
    Stores records of the file buffer in one database.

    A batch is one transaction that also records its progress. So a batch that runs twice, after a
    lost response or a crash, is stored once.
    """

    def __init__(
        self, core: Core, buffer: FileBuffer, pusher: Pusher, retry_window: RetryWindow
    ) -> None:
        self._writer = Writer(core)
        self._buffer = buffer
        self._store = core.store
        self._catalogue = core.catalogue
        self._pusher = pusher
        self._retry_window = retry_window

    async def last(self, producer_id: str) -> int | None:
        """The last stored sequence of a producer that stands for progress."""
        row = await self._store.messages.last_request(producer_id, _SCOPE)
        return None if row is None else row["sequence"]

    async def end(self, producer_ids: Sequence[str]) -> None:
        """Remove the progress of deleted files."""
        await self._store.messages.end_buffers(producer_ids)

    async def has_stored(self, producer: Producer) -> bool:
        """Whether a request was stored, of the producer that sent it."""
        last = await self._store.messages.last_request(producer.id, producer.scope)
        if last is None or last["sequence"] != producer.sequence:
            return False
        return not is_another(producer, last["digest"])

    async def store(self, batch: Sequence[Replayed], progress: Progress) -> None:
        """Store the records, except those that must be set aside."""
        await self._store_batch([await self._without_doubts(each) for each in batch], progress)

    async def _store_batch(self, batch: Sequence[Replayed], progress: Progress) -> None:
        """Store the records together, or one by one if one of them fails."""
        try:
            await self._store_together(batch, progress)
        except (errors.ServiceError, errors.OutcomeUnknown):
            raise
        except Exception as error:
            if len(batch) > 1 and not isinstance(error, _Done):
                for each in batch:
                    await self._store_batch([each], progress)
                return
            if isinstance(error, _Done):
                raise errors.OutcomeUnknown("some of these records are already stored") from error
            (each,) = batch
            await self._fail(each, each.body, error)
            await self._store_together([each._replace(push=None, body=b"")], progress)

    async def _without_doubts(self, each: Replayed, *, is_counted: bool = True) -> Replayed:
        """Set aside the messages that may already be stored, and return the record without them."""
        if each.push is None:
            return each
        judged = await self._retry_window.judge(each.push, is_counted=is_counted)
        if judged.doubtful is None:
            return each._replace(until=judged.until)
        doubtful = encode_push(judged.doubtful, self._buffer.keyring)
        reason = "whether it was stored at the first attempt is not known any more"
        suffix = DOUBTFUL if is_counted else f"-stale{DOUBTFUL}"
        await self._fail(each, doubtful, reason, suffix=suffix)
        body = encode_push(judged.push, self._buffer.keyring) if judged.push else b""
        return each._replace(push=judged.push, body=body, until=judged.until)

    async def _store_together(self, batch: Sequence[Replayed], progress: Progress) -> None:
        units: list[tuple[Replayed, PendingPush]] = []
        for each in batch:
            if each.push is not None:
                units.append((each, await self._unit_of(each, each.push)))
            elif each.body:
                await self._fail(each, each.body, "this release cannot read it")
        last = {id_: sequence for each in batch for id_, sequence in progress(each)}
        await self._push(
            units,
            [PendingPush((), producer=Producer(*each, scope=_SCOPE)) for each in last.items()],
        )

    async def _unit_of(self, each: Replayed, push: BufferedPush) -> PendingPush:
        """The messages of a record that can be stored. The others are set aside."""
        items = [item.item(age_seconds(each.number)) for item in push.items]
        parts, refused = await self._pusher.prepare(items, is_admitted=True)
        for at, answer in refused.items():
            await self._fail_item(each, push, at, answer)
        producer = push.producer
        if producer is not None and refused:
            producer = producer._replace(digest=None)
        return PendingPush(parts, producer=producer, are_minted=True)

    async def _push(
        self, replayed: Sequence[tuple[Replayed, PendingPush]], progress: Sequence[PendingPush]
    ) -> None:
        async def send(push: Push) -> list[Record]:
            if any(time.time() > each.until for each, _ in replayed):
                raise errors.Overloaded("the buffer took too long to store")
            return await self._store.messages.push(push)

        async def retry(layout: SegmentLayout, rows: Sequence[Record]) -> list[PendingPush]:
            nonlocal replayed
            left = layout.without(rows, self._catalogue)
            if any(unit not in left for unit in progress):
                raise _Done
            replayed = [
                left
                for each, unit in replayed
                if (left := await self._left_of(each, unit)) is not None
            ]
            return [*(unit for _, unit in replayed), *progress]

        # Without their data key, the writer raises and the messages stay in the file until the key
        # is back.
        units = [*(unit for _, unit in replayed), *progress]
        if await self._writer.write(units, send, retry=retry) is None:
            raise contended("the buffer")

    async def _left_of(
        self, each: Replayed, unit: PendingPush
    ) -> tuple[Replayed, PendingPush] | None:
        """The messages of a request that are left to store after an attempt that stored none."""
        assert each.push is not None
        if unit.is_replayed and not await self._is_reused(unit):
            return None
        if unit.done.done():
            error = unit.done.exception()
            if not unit.is_replayed and not isinstance(error, errors.SequenceStale):
                await self._fail(each, each.body, error)
                return None
            # The producer continued on another server, or used its number for another request. This
            # server has acknowledged the request and must store it. Only transactionIds show
            # whether the other server stored it. If the request was sent before, messages without
            # them are set aside.
            each = await self._without_doubts(each, is_counted=False)
            if each.push is None:
                return None
            if each.push.tried_at is not None:
                unit = await self._unit_of(each, each.push)
            return each, PendingPush(unit.parts)
        for part in unit.parts:
            held = part.marked.scheduled if part.marked else []
            for place, answer in (part.marked.refused if part.marked else {}).items():
                await self._fail_item(each, each.push, held[-1 - place].item, answer)
        return each, unit

    async def _is_reused(self, unit: PendingPush) -> bool:
        """Return whether another request was stored under this number."""
        producer = unit.producer
        assert producer is not None
        last = await self._store.messages.last_request(producer.id, producer.scope)
        if last is None or last["sequence"] != producer.sequence:
            return False  # It was stored, and its producer has continued since.
        return is_another(producer, last["digest"])

    async def _fail_item(self, each: Replayed, push: BufferedPush, at: int, answer: Pushed) -> None:
        rest = part_of(push, [push.items[at]])
        body = encode_push(rest, self._buffer.keyring)
        await self._fail(each, body, answer.error or "refused", suffix=f"-{at}")

    async def _fail(
        self, each: Replayed, body: bytes, reason: object, *, suffix: str = "-0"
    ) -> None:
        _LOG.error("a buffered push cannot be stored and was moved to failed: %s", reason)
        await self._buffer.set_aside(f"{each.name}{suffix}", each.number, body)
