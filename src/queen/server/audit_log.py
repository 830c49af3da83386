"""Write audit records: several per statement, and repeated reads as a count."""

import asyncio
import contextlib
from typing import Final, NamedTuple

import msgspec

from queen import errors, tasks
from queen.engine.runtime.batcher import Batcher
from queen.store.audit import Audit, Entry
from queen.wire.access import AuditRecord

_ENCODE: Final = msgspec.json.Encoder().encode
_WINDOW_SECONDS: Final = 60.0
_MOST_DISTINCT: Final = 30
"""Reads and rejected calls of one caller that are recorded one by one within a window."""
_BATCH_RECORDS: Final = 500
_BATCH_BYTES: Final = 2**20
_QUEUED_RECORDS: Final = 10_000
_QUEUED_BYTES: Final = 64 * 2**20


class _Unit(NamedTuple):
    """A record that is not written yet."""

    entry: Entry
    is_written: asyncio.Future[None]

    @property
    def keys(self) -> tuple[str]:
        return ("audit",)

    @property
    def size_bytes(self) -> int:
        return len(self.entry.record)

    def end(self) -> None:
        if not self.is_written.done():
            self.is_written.set_result(None)

    def fail(self, error: BaseException) -> None:
        if not self.is_written.done():
            self.is_written.set_exception(error)


class AuditLog:
    """
    The audit log as one process writes it.

    A record is stored before `append` returns. Records that arrive while a statement runs share the
    next one, so that a process occupies at most one connection.

    Reads and rejected calls change nothing. The first ones of a caller within a window are recorded
    one by one; repeated and further ones are counted, and recorded when the window ends.
    """

    def __init__(self, store: Audit, *, window_seconds: float = _WINDOW_SECONDS) -> None:
        self._store = store
        self._window_seconds = window_seconds
        self._batcher = Batcher[_Unit](
            self._flush,
            max_flushes=1,  # More would only wait for the end of the hash chain.
            max_units=_BATCH_RECORDS,
            max_bytes=_BATCH_BYTES,
            max_queued=_QUEUED_RECORDS,
            max_queued_bytes=_QUEUED_BYTES,
        )
        self._seen: dict[str, set[tuple[object, ...]]] = {}
        self._counted: dict[tuple[str, str, int], AuditRecord] = {}
        self._window: asyncio.Task[None] | None = None

    async def append(self, record: AuditRecord) -> None:
        """Store a record. Raises QueenError if it may not have been stored."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._batcher.submit(_Unit(_entry(record), written))
        await written

    async def append_or_count(self, record: AuditRecord) -> None:
        """Store the record of a read or a rejected call, or count it with others of its caller."""
        seen = self._seen.setdefault(record.actor, set())
        call = (record.action, record.path, record.queue, record.status, record.source)
        if self._window is None:
            self._window = asyncio.create_task(self._end_window())
        if call in seen or len(seen) >= _MOST_DISTINCT:
            self._count(record)
            return
        seen.add(call)
        try:
            await self.append(record)
        except BaseException:
            seen.discard(call)  # The next one must be recorded.
            raise

    async def close(self) -> None:
        """Store the counts, and finish pending records."""
        await tasks.stop(self._window)
        with contextlib.suppress(errors.QueenError):
            await self._store_counted()
        await self._batcher.close()

    def _count(self, record: AuditRecord) -> None:
        key = (record.actor, record.action, record.status)
        before = self._counted.get(key)
        self._counted[key] = msgspec.structs.replace(
            record,
            queue=None,
            path=record.action.partition(" ")[2],
            request_id="",
            count=record.count + (0 if before is None else before.count),
        )

    async def _end_window(self) -> None:
        while True:
            await asyncio.sleep(self._window_seconds)
            self._seen.clear()
            with contextlib.suppress(errors.QueenError):
                await self._store_counted()
            if not self._seen and not self._counted:
                self._window = None
                return

    async def _store_counted(self) -> None:
        records, self._counted = self._counted, {}
        for record in records.values():
            try:
                await self.append(record)
            except errors.DatabaseUnavailable:
                self._count(record)  # Not stored: the next window retries it.

    async def _flush(self, units: list[_Unit]) -> None:
        try:
            await self._store.append_all([unit.entry for unit in units])
        except errors.QueenError:
            raise  # Possibly stored: a retry could store it twice.
        except Exception:
            if len(units) == 1:
                raise
            # PostgreSQL rejected one of them, and therefore all.
            for unit in units:
                try:
                    await self._flush([unit])
                except Exception as error:
                    unit.fail(error)
        for unit in units:
            unit.end()


def _entry(record: AuditRecord) -> Entry:
    return Entry(record.actor, record.action, record.queue, _ENCODE(record).decode())
