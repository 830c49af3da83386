"""Pushes accepted while the database is unavailable: durable on disk before the response."""

import asyncio
import contextlib
import errno
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import msgspec
from msgspec import structs

from queen import errors
from queen.codec.encryption.keys import Keyring
from queen.engine.buffer import records
from queen.engine.buffer.directory import FAILED, BufferFolder, sync_folder, write_all
from queen.engine.encryption.rotation import keyring_of
from queen.engine.push.producers import Producer
from queen.settings import Settings
from queen.wire.messages import PushItem

_PLAIN: Final = b"\0"
"""The first byte of a body is its encoding. This one is unencrypted."""
_SEALED: Final = b"\1"
"""Encrypted by a master key if there is one, because encrypted queues are unknown in an outage."""
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_LEAST_TTL_SECONDS: Final = 0.001
DOUBTFUL: Final = "-doubtful"
"""The suffix of files with failed requests that may already be stored."""


class BufferedItem(msgspec.Struct, frozen=True, array_like=True):
    """An item of a push as it was received."""

    queue: str
    partition: str
    payload: bytes
    transaction_id: str
    """Generated if the item had none."""
    trace_id: str | None = None
    headers: dict[str, str] | None = None
    delay_seconds: float | None = None
    available_at: datetime | None = None
    ttl_seconds: float | None = None
    priority: int | None = None
    known_seconds: float = 0.0
    """How long its queue remembered transactionIds when it arrived. 0 if it had none."""

    @classmethod
    def of(cls, item: PushItem, known_seconds: float, minted: str) -> Self:
        """``minted``: the transactionId for an item without one."""
        fields = {name: getattr(item, name) for name in _LIKE_THE_ITEM}
        id_ = item.transaction_id or minted
        return cls(
            item.queue,
            item.partition,
            bytes(item.payload),
            id_,
            **fields,
            known_seconds=known_seconds,
        )

    def item(self, age_seconds: float) -> PushItem:
        """The item, with delay and TTL reduced by the time in the buffer."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in _LIKE_THE_ITEM}
        if self.delay_seconds is not None:
            fields["delay_seconds"] = max(0.0, self.delay_seconds - age_seconds)
        if self.ttl_seconds is not None:
            # An item whose TTL has passed is still stored. It expires in the database, which counts
            # it.
            fields["ttl_seconds"] = max(_LEAST_TTL_SECONDS, self.ttl_seconds - age_seconds)
        return PushItem(
            queue=self.queue,
            partition=self.partition,
            payload=msgspec.Raw(self.payload),
            transaction_id=self.transaction_id,
            **fields,
        )


_LIKE_THE_ITEM: Final = BufferedItem.__struct_fields__[4:-1]


class BufferedPush(msgspec.Struct, frozen=True, array_like=True):
    """A request that the server accepted with status 202."""

    items: list[BufferedItem]
    producer_id: str | None = None
    sequence: int | None = None
    tried_at: int | None = None
    """When it was sent to the database, if no response arrived, in nanoseconds since 1970."""
    scope: str = ""
    """The scope of the producer. Releases before scopes wrote none."""
    digest: bytes | None = None

    @classmethod
    def of(cls, items: list[BufferedItem], producer: Producer | None, tried_at: int | None) -> Self:
        if producer is None:
            return cls(items, tried_at=tried_at)
        id_, sequence, scope, digest, _ = producer
        return cls(items, id_, sequence, tried_at, scope, digest)

    @property
    def producer(self) -> Producer | None:
        if self.producer_id is None:
            return None
        return Producer(self.producer_id, self.sequence or 0, self.scope, self.digest)


def part_of(push: BufferedPush, items: list[BufferedItem]) -> BufferedPush:
    """
    Items that are stored apart from the others of their request.

    The producer's number covers the others, so only their transactionIds identify these items.
    """
    return BufferedPush(items, tried_at=push.tried_at)


_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(BufferedPush).decode


def encode_push(push: BufferedPush, keyring: Keyring) -> bytes:
    text = _ENCODE(push)
    return _SEALED + keyring.seal_record(text) if keyring else _PLAIN + text


def decode_push(body: bytes, keyring: Keyring) -> BufferedPush:
    """Raises EncryptionUnavailable if the key that encrypted it is missing."""
    if body[:1] == _SEALED:
        return _DECODE(keyring.open_record(body[1:]))
    if body[:1] != _PLAIN:
        raise ValueError("this release cannot read the format of the record")
    return _DECODE(memoryview(body)[1:])


class _Waiting(NamedTuple):
    body: bytes
    messages: int
    is_behind: bool
    done: asyncio.Future[bool]


class _NotUndone(Exception):
    """A write failed, and its bytes could not be removed from the file durably."""


class FileBuffer:
    """
    The writer of one process. Many requests share one write and one fsync.

    Requests that arrive during a write form the next batch.
    """

    def __init__(self, folder: BufferFolder, settings: Settings) -> None:
        self.folder = folder
        self.keyring = keyring_of(settings)
        self._max_bytes = settings.file_buffer_max_bytes
        self._max_messages = settings.file_buffer_events_per_file
        self._max_queued_bytes = settings.max_queued_bytes
        self._waiting: list[_Waiting] = []
        self._waiting_bytes = 0
        self._task: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="queen-buffer")
        self._file: int | None = None
        self._generation = 0
        self._messages = 0
        self._end = 0

    @classmethod
    def open(cls, settings: Settings, database: str | None = None) -> Self | None:
        """
        The buffer for these settings, or None if it is turned off.

        ``database``: the name of a database other than the first, which has its own directory.
        """
        if settings.file_buffer_dir is None:
            return None
        folder = Path(settings.file_buffer_dir)
        if database is not None:
            folder /= f"database-{database}"
        try:
            return cls(BufferFolder(folder), settings)
        except OSError as error:
            raise errors.BadSettings(
                f"FILE_BUFFER_DIR: cannot use {settings.file_buffer_dir}: {error.strerror}"
            ) from error

    async def close(self) -> None:
        """Finish the accepted requests."""
        if self._task is not None:
            await self._task
        await asyncio.to_thread(self._thread.shutdown)
        self._drop_file()
        self.folder.close()

    async def append(self, push: BufferedPush, *, is_behind: bool = False) -> bool:
        """
        Write a request durably before this returns.

        Raises DatabaseUnavailable if it will never be stored, OutcomeUnknown if it may be.
        ``is_behind``: write it only behind buffered requests, and return False if there are none.
        """
        body = encode_push(push, self.keyring)
        if self._waiting_bytes + len(body) > self._max_queued_bytes:
            raise errors.DatabaseUnavailable(
                "the database is unavailable and the file buffer is busy; try later"
            )
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(body, len(push.items), is_behind, done))
        self._waiting_bytes += len(body)
        if self._task is None:
            self._task = asyncio.create_task(self._flush())
        return await done

    async def set_aside(self, name: str, number: int, body: bytes) -> None:
        """Keep a request that cannot be stored, so that an operator can inspect and retry it."""
        await asyncio.to_thread(self._set_aside, name, records.encode(number, body))

    async def retry_failed(self, *, is_doubted: bool = True) -> int:
        """
        Buffer failed requests again and return their number of messages.

        ``is_doubted``: skip requests that may already be stored. Otherwise they may be stored
        twice.
        """
        messages = 0
        for path in self.folder.failed():
            is_doubtful = path.stem.endswith(DOUBTFUL)
            if is_doubtful and is_doubted:
                continue
            try:
                pushes = await asyncio.to_thread(_read_failed, path, self.keyring)
            except (ValueError, msgspec.MsgspecError, errors.EncryptionUnavailable):
                continue  # It stays for a later release, for its key, or for an operator.
            for push in pushes:
                await self.append(structs.replace(push, tried_at=None) if is_doubtful else push)
                messages += len(push.items)
            path.unlink(missing_ok=True)
        return messages

    async def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            taken, self._waiting = self._waiting, []
            self._waiting_bytes = 0
            try:
                results = await loop.run_in_executor(self._thread, self._write, taken)
            except Exception as error:
                results = [_unknown(error) for _ in taken]
            for each, result in zip(taken, results, strict=True):
                if each.done.done():
                    continue  # Its caller was cancelled.
                if isinstance(result, bool):
                    each.done.set_result(result)
                else:
                    each.done.set_exception(result)
        self._task = None

    def _write(self, taken: Sequence[_Waiting]) -> list[errors.QueenError | bool]:
        """Write the requests that fit and sync. Returns for each whether it is on disk."""
        try:
            lock = self.folder.lock()
        except OSError as error:
            return [_refusal(error) for _ in taken]
        try:
            return self._write_locked(taken)
        finally:
            os.close(lock)

    def _write_locked(self, taken: Sequence[_Waiting]) -> list[errors.QueenError | bool]:
        results: list[errors.QueenError | bool] = [True] * len(taken)
        fitting: list[int] = []
        room = self._max_bytes - self.folder.state.size_bytes
        for index, each in enumerate(taken):
            size = len(each.body) + records.OVERHEAD_BYTES
            if each.is_behind and not self.folder.is_closed:
                results[index] = False
            elif size > room:
                results[index] = errors.DatabaseUnavailable(
                    "the database is unavailable and the file buffer is full; try again later"
                )
            else:
                room -= size
                fitting.append(index)
        try:
            self._put(*(taken[index] for index in fitting))
        except _NotUndone as error:
            for index in fitting:
                results[index] = _unknown(error)
        except OSError as error:
            is_lone = len(fitting) == 1 or error.errno not in _NO_ROOM
            for index in fitting:
                results[index] = _refusal(error) if is_lone else self._put_alone(taken[index])
        return results

    def _put_alone(self, each: _Waiting) -> errors.QueenError | bool:
        """Write one request after there was no room for all of them."""
        try:
            self._put(each)
        except _NotUndone as error:
            return _unknown(error)
        except OSError as error:
            return _refusal(error)
        return True

    def _put(self, *taken: _Waiting) -> None:
        """Write and sync. Raises OSError if the file is unchanged, else _NotUndone."""
        if not taken:
            return
        file = self._open_file()
        state = self.folder.state
        first = self.folder.next_number()
        data = b"".join(
            [records.encode(number, each.body) for number, each in enumerate(taken, first)]
        )
        messages = sum(each.messages for each in taken)
        written = state._replace(
            is_closed=True,
            number=first + len(taken) - 1,
            size_bytes=state.size_bytes + len(data),
            messages=state.messages + messages,
            oldest=state.oldest or first,
        )
        # Set this first: if the process is killed now, its record must not be overtaken.
        self.folder.state = state._replace(is_closed=True)
        is_written = False
        try:
            write_all(file, data)
            is_written = True
            os.fsync(file)
        except OSError as error:
            is_undone = self._take_back()
            if not is_undone:
                # The bytes may be replayed. Keep the buffer closed, or they would stay until the
                # next outage.
                with contextlib.suppress(OSError):
                    left = os.fstat(file).st_size - self._end
                    written = written._replace(size_bytes=state.size_bytes + left)
                self.folder.state = written
            if is_written or not is_undone:
                # After a failed fsync, a second one on this file could succeed without writing the
                # data.
                self._drop_file()
            if not is_undone:
                raise _NotUndone(error) from error
            self.folder.state = state
            raise
        self._end += len(data)
        self._messages += messages
        self.folder.state = written

    def _take_back(self) -> bool:
        """Remove rejected records. Returns False if they may reappear after a power failure."""
        assert self._file is not None
        try:
            os.ftruncate(self._file, self._end)
            os.fsync(self._file)
        except OSError:
            return False
        return True

    def _open_file(self) -> int:
        state = self.folder.state
        if self._file is not None and (
            self._generation == state.generation and self._messages < self._max_messages
        ):
            return self._file
        self._drop_file()
        file_id = os.urandom(records.FILE_ID_BYTES)
        path = self.folder.path_of(file_id)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        file = os.open(path, flags, 0o600)
        try:
            write_all(file, records.header(file_id))
            os.fsync(file)
            self.folder.sync()
        except OSError:
            os.close(file)
            with contextlib.suppress(OSError):
                path.unlink()
            raise
        self._file, self._end = file, records.HEADER_BYTES
        self._generation, self._messages = state.generation, 0
        self.folder.state = state._replace(size_bytes=state.size_bytes + records.HEADER_BYTES)
        return file

    def _drop_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _set_aside(self, name: str, record: bytes) -> None:
        # The same record gets the same name, so repeating this creates one file.
        path = self.folder.path / FAILED / f"{name}.buf"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        file = os.open(path, flags, 0o600)
        try:
            write_all(file, records.header(bytes(records.FILE_ID_BYTES)) + record)
            os.fsync(file)
        finally:
            os.close(file)
        sync_folder(path.parent)


def age_seconds(number: int) -> float:
    """The age of a record by this machine's clock."""
    return max(0.0, (time.time_ns() - number) / 1e9)


def _read_failed(path: Path, keyring: Keyring) -> list[BufferedPush]:
    with path.open("rb") as file:
        size_bytes = os.fstat(file.fileno()).st_size
        found = [*records.read(file, records.HEADER_BYTES, size_bytes)]
    if not found or found[-1].end != size_bytes:
        raise ValueError("the file is damaged")
    return [decode_push(record.body, keyring) for record in found]


def _refusal(error: BaseException) -> errors.QueenError:
    return errors.DatabaseUnavailable(
        f"the database is unavailable and the file buffer failed: {error}"
    )


def _unknown(error: BaseException) -> errors.QueenError:
    return errors.OutcomeUnknown(
        f"The file buffer failed ({error}), so this push is stored later or never. Repeat it with"
        " the same transactionId or producer sequence."
    )
