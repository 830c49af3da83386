"""The folder of the file buffer, which all processes of a server share: its gate and its files."""

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
    """What the processes tell each other, in memory that they share."""

    is_closed: bool = False
    """Something is buffered: whatever comes goes behind it."""
    generation: int = 0
    """Files of an earlier one are not written any more."""
    number: int = 0
    """The newest record's: nanoseconds since 1970, and always above the one before."""
    size_bytes: int = 0
    messages: int = 0
    """All that were written since the gate was last open."""
    oldest: int = 0
    """Number of the first record of them."""


class Found(NamedTuple):
    """A file as it was while nobody wrote."""

    path: Path
    file_id: bytes
    size_bytes: int


class BufferFolder:
    """
    One folder a server, however many processes it has.

    Whoever writes or removes anything holds the lock, from the first byte until it is on disk: so
    records have one order in all files, and what another process reads is whole and durable.
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
        """Whether something is buffered by any process of this server; costs nothing to ask."""
        return self._state[_IS_CLOSED] != 0

    @property
    def state(self) -> State:
        return State(self.is_closed, *_NUMBERS.unpack_from(self._state, _NUMBERS_AT))

    @state.setter
    def state(self, state: State) -> None:
        # A byte of its own: `pack_into` clears what it fills first, and others read it unlocked. A
        # push that saw the gate open for that moment would overtake what is buffered.
        is_closed, *numbers = state
        if is_closed:
            self._state[_IS_CLOSED] = 1
        _NUMBERS.pack_into(self._state, _NUMBERS_AT, *numbers)
        if not is_closed:
            self._state[_IS_CLOSED] = 0

    @property
    def messages(self) -> int:
        """How many are not stored yet."""
        return max(0, self.state.messages - _STORED.unpack_from(self._state, _STORED_AT)[0])

    @property
    def oldest(self) -> int:
        """Number of the oldest record that is not stored yet; 0 when there is none."""
        return _STORED.unpack_from(self._state, _STORED_AT)[1] or self.state.oldest

    def progress(self, messages: int, oldest: int) -> None:
        """So many more were stored, and this record is the next; for the keeper, without a lock."""
        stored = _STORED.unpack_from(self._state, _STORED_AT)[0]
        _STORED.pack_into(self._state, _STORED_AT, stored + messages, oldest)

    @contextlib.contextmanager
    def locked(self) -> Generator[None]:
        """Alone among all processes and threads; blocks, so never in an event loop."""
        lock = self.lock()
        try:
            yield
        finally:
            os.close(lock)

    def lock(self) -> int:
        """A descriptor whose end is the end of the lock."""
        # One of its own each time: two of one process must exclude each other too.
        lock = os.open(self.path / _GATE, os.O_RDWR | os.O_CLOEXEC)
        fcntl.flock(lock, fcntl.LOCK_EX)
        return lock

    def next_number(self) -> int:
        """For the holder of the lock. By the clock, so that a lost gate starts above the files."""
        return max(self.state.number + 1, time.time_ns())

    def keep(self) -> bool:
        """Be the one process that stores what is buffered; False while another one is."""
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
        """All files with records, and how far each is written; for the holder of the lock."""
        found: list[Found] = []
        for path in sorted(self.path.glob(f"*{_SUFFIX}")):
            with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
                # With a torn header nothing follows that was promised; its name will do.
                file_id = records.read_file_id(file) or path.stem.encode()
                found.append(Found(path, file_id, os.fstat(file.fileno()).st_size))
        return found

    def path_of(self, file_id: bytes) -> Path:
        return self.path / f"{file_id.hex()}{_SUFFIX}"

    def remove(self, stored: dict[bytes, int]) -> list[bytes]:
        """
        Remove the files that are stored to their end, and open the gate if no other is left.

        ``stored`` says how far, by file, and one more than that where the end is torn. For the
        holder of the lock. Answers which are gone, durably.
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
            # A torn end was promised to nobody; a damaged file is for people to look at.
            found.path.replace(self.path / FAILED / f"{found.path.stem}{_TORN}")

    def sync(self) -> None:
        """Make new and removed names durable."""
        sync_folder(self.path)

    @property
    def is_known(self) -> bool:
        """Whether a server with this folder has met its database before."""
        return (self.path / _KNOWN).exists()

    def know(self) -> None:
        """The database was met, and has the schema: from now on a server may start without it."""
        if not self.is_known:
            (self.path / _KNOWN).touch(mode=0o600)
            self.sync()

    def failed(self) -> list[Path]:
        """Records that could not be stored, a file each."""
        return sorted((self.path / FAILED).glob(f"*{_SUFFIX}"))

    def torn(self) -> list[Path]:
        """Files whose end is torn or damaged; what stands before that is stored."""
        return sorted((self.path / FAILED).glob(f"*{_TORN}"))

    def _survey(self) -> None:
        """What is there; a gate that was lost with a crash of the machine is made anew."""
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
    """A name in a folder is durable once the folder is."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_all(file: int, data: bytes) -> None:
    """Write everything: the kernel may take less than it is given."""
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
