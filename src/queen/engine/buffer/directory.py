"""The directory of the file buffer, and the state that all processes of a server share."""

import contextlib
import fcntl
import mmap
import os
import struct
import time
from collections.abc import Generator
from pathlib import Path
from typing import Final, NamedTuple

from queen.engine.buffer import records

_IS_CLOSED: Final = 0
_NUMBERS: Final = struct.Struct("<QQQQQ")
_NUMBERS_AT: Final = 8
_STORED: Final = struct.Struct("<QQ")
_STORED_AT: Final = _NUMBERS_AT + _NUMBERS.size
_SIZE: Final = _STORED_AT + _STORED.size
_GATE: Final = "gate"
_KEEPER: Final = "keeper"
_KNOWN: Final = "known"
FAILED: Final = "failed"
_SUFFIX: Final = ".buf"
_TORN: Final = ".torn"


class State(NamedTuple):
    """State in memory that the processes share."""

    is_closed: bool = False
    """Requests are buffered, and new ones go behind them."""
    generation: int = 0
    """Files of an earlier generation are not written any more."""
    number: int = 0
    """The number of the newest record: nanoseconds since 1970, greater than all before."""
    size_bytes: int = 0
    messages: int = 0
    """Messages that were written since the buffer was last empty."""
    oldest: int = 0
    """The number of the first of their records."""


class Found(NamedTuple):
    """A file, listed while the lock was held."""

    path: Path
    file_id: bytes
    size_bytes: int


class BufferFolder:
    """
    The buffer directory of a server, shared by all its processes.

    A process holds the lock while it writes or removes a file, until the change is on disk. So
    records have one order across all files, and other processes read complete and durable records.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        (path / FAILED).mkdir(mode=0o700, exist_ok=True)
        for folder in (path, path.parent):
            sync_folder(folder)
        gate = os.open(path / _GATE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(gate).st_size < _SIZE:
                os.ftruncate(gate, _SIZE)
            self._state = mmap.mmap(gate, _SIZE)
        finally:
            os.close(gate)
        self._keeper: int | None = None
        with self.locked():
            self._survey()

    def close(self) -> None:
        self._state.close()
        if self._keeper is not None:
            os.close(self._keeper)
            self._keeper = None

    @property
    def is_closed(self) -> bool:
        """Whether any process of this server has buffered requests. Cheap enough for each push."""
        return self._state[_IS_CLOSED] != 0

    @property
    def state(self) -> State:
        return State(self.is_closed, *_NUMBERS.unpack_from(self._state, _NUMBERS_AT))

    @state.setter
    def state(self, state: State) -> None:
        # This byte is written separately: `pack_into` first clears the bytes that it fills, and
        # others read it without the lock. A push that read a cleared byte would overtake buffered
        # ones.
        is_closed, *numbers = state
        if is_closed:
            self._state[_IS_CLOSED] = 1
        _NUMBERS.pack_into(self._state, _NUMBERS_AT, *numbers)
        if not is_closed:
            self._state[_IS_CLOSED] = 0

    @property
    def messages(self) -> int:
        """The number of messages that are not stored yet."""
        return max(0, self.state.messages - _STORED.unpack_from(self._state, _STORED_AT)[0])

    @property
    def oldest(self) -> int:
        """The number of the oldest record that is not stored yet, or 0."""
        return _STORED.unpack_from(self._state, _STORED_AT)[1] or self.state.oldest

    def progress(self, messages: int, oldest: int) -> None:
        """Count stored messages and set the oldest record. For the replayer, without the lock."""
        stored = _STORED.unpack_from(self._state, _STORED_AT)[0]
        _STORED.pack_into(self._state, _STORED_AT, stored + messages, oldest)

    @contextlib.contextmanager
    def locked(self) -> Generator[None]:
        """Hold the lock against all processes and threads. It blocks the thread."""
        lock = self.lock()
        try:
            yield
        finally:
            os.close(lock)

    def lock(self) -> int:
        """A descriptor that holds the lock until it is closed."""
        # A new descriptor each time, so that threads of one process exclude each other.
        lock = os.open(self.path / _GATE, os.O_RDWR | os.O_CLOEXEC)
        fcntl.flock(lock, fcntl.LOCK_EX)
        return lock

    def next_number(self) -> int:
        """
        The next record number, for the holder of the lock.

        Numbers follow the clock, so they rise even if a crash loses the shared state.
        """
        return max(self.state.number + 1, time.time_ns())

    def keep(self) -> bool:
        """Become the process that replays the buffer. Returns False while another process is."""
        if self._keeper is not None:
            return True
        keeper = os.open(self.path / _KEEPER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(keeper, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(keeper)
            return False
        self._keeper = keeper
        return True

    def files(self) -> list[Found]:
        """All files with records, and their written size. For the holder of the lock."""
        found: list[Found] = []
        for path in sorted(self.path.glob(f"*{_SUFFIX}")):
            with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
                # After a torn header the file holds no acknowledged records, so the file name
                # identifies it.
                file_id = records.read_file_id(file) or path.stem.encode()
                found.append(Found(path, file_id, os.fstat(file.fileno()).st_size))
        return found

    def path_of(self, file_id: bytes) -> Path:
        return self.path / f"{file_id.hex()}{_SUFFIX}"

    def remove(self, stored: dict[bytes, int]) -> list[bytes]:
        """
        Remove completely stored files, and end buffering if no file is left.

        ``stored`` has the stored bytes per file, plus one if its end is torn. For the holder of the
        lock. Returns the ids of the removed files once that is durable.
        """
        state = self.state
        gone: list[bytes] = []
        left = 0
        for found in self.files():
            if stored.get(found.file_id, 0) >= found.size_bytes:
                self._put_away(found, is_whole=stored[found.file_id] == found.size_bytes)
                gone.append(found.file_id)
            else:
                left += found.size_bytes
        self.sync()
        state = state._replace(generation=state.generation + 1, size_bytes=left, is_closed=left > 0)
        if not left:
            state = state._replace(messages=0, oldest=0)
            _STORED.pack_into(self._state, _STORED_AT, 0, 0)
        self.state = state
        return gone

    def _put_away(self, found: Found, *, is_whole: bool) -> None:
        if is_whole:
            found.path.unlink(missing_ok=True)
        else:
            # A torn end was never acknowledged. A damaged file stays for an operator.
            found.path.replace(self.path / FAILED / f"{found.path.stem}{_TORN}")

    def sync(self) -> None:
        """Make created and removed names durable."""
        sync_folder(self.path)

    @property
    def is_known(self) -> bool:
        """Whether a server with this directory has connected to its database before."""
        return (self.path / _KNOWN).exists()

    def know(self) -> None:
        """Record that the database has the schema. Later the server can start without it."""
        if not self.is_known:
            (self.path / _KNOWN).touch(mode=0o600)
            self.sync()

    def failed(self) -> list[Path]:
        """Records that could not be stored, one per file."""
        return sorted((self.path / FAILED).glob(f"*{_SUFFIX}"))

    def torn(self) -> list[Path]:
        """Files with a torn or damaged end. The records before it are stored."""
        return sorted((self.path / FAILED).glob(f"*{_TORN}"))

    def _survey(self) -> None:
        """Read the files, and recreate the shared state if a machine crash lost it."""
        files = self.files()
        size_bytes = sum(found.size_bytes for found in files)
        state = self.state
        if not files:
            self.state = State(generation=state.generation, number=state.number)
            _STORED.pack_into(self._state, _STORED_AT, 0, 0)
        elif not state.is_closed or state.size_bytes != size_bytes:
            numbers: list[int] = []
            for found in files:
                with found.path.open("rb") as file:
                    each = records.read(file, records.HEADER_BYTES, found.size_bytes)
                    numbers += [record.number for record in each]
            self.state = State(
                is_closed=True,
                generation=state.generation + 1,
                number=max([state.number, *numbers]),
                size_bytes=size_bytes,
                messages=max(state.messages, len(numbers)),
                oldest=min(numbers, default=0),
            )


def sync_folder(path: Path) -> None:
    """Sync a directory, which makes the names in it durable."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_all(file: int, data: bytes) -> None:
    """Write all bytes, because the kernel may accept fewer per call."""
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
