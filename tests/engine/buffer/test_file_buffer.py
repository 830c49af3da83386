"""A push that is confirmed as buffered is completely on disk. A rejected push is never stored."""

import asyncio
import errno
import os
import resource
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from queen.codec.encryption.keys import Keyring
from queen.engine.buffer import records
from queen.engine.buffer.directory import BufferFolder
from queen.engine.buffer.file_buffer import (
    BufferedItem,
    BufferedPush,
    FileBuffer,
    decode_push,
    encode_push,
)
from queen.engine.buffer.reader import merged
from queen.errors import DatabaseUnavailable, OutcomeUnknown
from queen.settings import Settings
from tests.support.server import SOURCE


@pytest.fixture
async def buffer(tmp_path: Path) -> AsyncIterator[FileBuffer]:
    buffer = FileBuffer.open(Settings(file_buffer_dir=str(tmp_path / "buffer")))
    assert buffer is not None
    yield buffer
    await buffer.close()


def a_push(name: str, size_bytes: int = 10) -> BufferedPush:
    return BufferedPush([BufferedItem("orders", "Default", b"1" * size_bytes, name)])


def names(folder: BufferFolder) -> list[str]:
    """The transactionIds of all complete records in all files, by file number."""
    found: list[tuple[int, str]] = []
    for each in folder.files():
        with each.path.open("rb") as file:
            found += [
                (record.number, item.transaction_id)
                for record in records.read(file, records.HEADER_BYTES, each.size_bytes)
                for item in decode_push(record.body, Keyring({})).items
            ]
    return [name for _, name in sorted(found)]


async def outcomes(buffer: FileBuffer, *pushes: BufferedPush) -> list[BaseException | bool]:
    """The outcomes of concurrent pushes."""
    return await asyncio.gather(*map(buffer.append, pushes), return_exceptions=True)


def test_delay_and_time_to_live_count_while_a_message_is_buffered() -> None:
    item = BufferedItem("orders", "Default", b"1", "t", delay_seconds=30, ttl_seconds=60)

    early, late = item.item(20), item.item(100)

    assert (early.delay_seconds, early.ttl_seconds) == (10, 40)
    assert late.delay_seconds == 0
    assert late.ttl_seconds is not None
    assert 0 < late.ttl_seconds < 1


async def test_many_requests_share_one_fsync(
    buffer: FileBuffer, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    fsync = os.fsync

    def counted(file: int) -> None:
        synced.append(file)
        fsync(file)

    monkeypatch.setattr(os, "fsync", counted)
    await buffer.append(a_push("first"))
    # The file header, its directory entry, and the record.
    assert len(synced) == 3
    assert set(await outcomes(buffer, *(a_push(f"{n}") for n in range(100)))) == {True}
    assert len(synced) <= 5
    assert names(buffer.folder) == ["first", *map(str, range(100))]
    assert (buffer.folder.is_closed, buffer.folder.state.messages) == (True, 101)


async def test_short_writes_are_continued(
    buffer: FileBuffer, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, view: write(file, bytes(view)[:7]))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    await buffer.append(a_push("long", 5_000))
    monkeypatch.undo()
    assert names(buffer.folder) == ["long"]


async def test_after_a_failed_fsync_the_push_is_rejected_and_the_file_is_not_reused(
    buffer: FileBuffer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await buffer.append(a_push("before"))
    (first,) = buffer.folder.files()

    fsync = os.fsync

    def failing_once(file: int) -> None:
        monkeypatch.setattr(os, "fsync", fsync)
        raise OSError(errno.EIO, "injected")

    monkeypatch.setattr(os, "fsync", failing_once)
    refused = await outcomes(buffer, a_push("a"), a_push("b"))
    monkeypatch.undo()

    assert [type(each) for each in refused] == [DatabaseUnavailable] * 2
    assert names(buffer.folder) == ["before"]
    await buffer.append(a_push("after"))
    assert names(buffer.folder) == ["before", "after"]
    assert first.path.stat().st_size == first.size_bytes
    assert len(buffer.folder.files()) == 2


async def test_a_directory_that_cannot_be_synced_rejects_pushes(
    buffer: FileBuffer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing() -> None:
        raise OSError(errno.EIO, "injected")

    monkeypatch.setattr(buffer.folder, "sync", failing)
    with pytest.raises(DatabaseUnavailable):
        await buffer.append(a_push("a"))
    monkeypatch.undo()
    assert (buffer.folder.files(), buffer.folder.is_closed) == ([], False)


async def test_a_full_disk_rejects_pushes_that_do_not_fit_and_accepts_those_that_do(
    buffer: FileBuffer,
) -> None:
    await buffer.append(a_push("first"))
    (found,) = buffer.folder.files()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (found.size_bytes + 1_000, limits[1]))
    try:
        small, large, other = await outcomes(
            buffer, a_push("small"), a_push("large", 5_000), a_push("other")
        )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert (small, type(large), other) == (True, DatabaseUnavailable, True)
    await buffer.append(a_push("last"))
    assert names(buffer.folder) == ["first", "small", "other", "last"]


async def test_the_buffer_has_a_maximum_size(tmp_path: Path) -> None:
    settings = Settings(file_buffer_dir=str(tmp_path), file_buffer_max_bytes=1_000)
    buffer = FileBuffer.open(settings)
    assert buffer is not None
    answers = await outcomes(buffer, *(a_push(f"{n}", 200) for n in range(10)))
    taken = [str(n) for n, answer in enumerate(answers) if answer is True]
    assert 0 < len(taken) < 5
    assert names(buffer.folder) == taken
    assert buffer.folder.state.size_bytes <= 1_000
    await buffer.close()


async def test_files_of_an_earlier_process_close_the_gate(
    buffer: FileBuffer, tmp_path: Path
) -> None:
    await buffer.append(a_push("a"))
    (found,) = buffer.folder.files()
    with found.path.open("ab") as file:
        file.write(b"torn")
    (buffer.folder.path / "gate").unlink()  # As after a crash of the machine.

    folder = BufferFolder(buffer.folder.path)

    assert folder.is_closed
    assert (folder.messages, names(folder)) == (1, ["a"])
    folder.close()


async def test_more_files_than_a_process_may_open_are_read_in_order(tmp_path: Path) -> None:
    settings = Settings(file_buffer_dir=str(tmp_path), file_buffer_events_per_file=1)
    buffer = FileBuffer.open(settings)
    assert buffer is not None
    for number in range(60):
        await buffer.append(a_push(str(number)))
    files = buffer.folder.files()
    starts = {found.file_id: records.HEADER_BYTES for found in files}
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 20, hard))
    try:
        pushes = [each.push for each in merged(files, starts, buffer.keyring)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    await buffer.close()
    assert [push.items[0].transaction_id for push in pushes if push] == list(map(str, range(60)))


async def test_a_damaged_failed_request_stays_and_blocks_no_other(
    buffer: FileBuffer,
) -> None:
    for number, name in enumerate(("damaged", "whole"), 1):
        await buffer.set_aside(name, number, encode_push(a_push(name), buffer.keyring))
    damaged, _ = buffer.folder.failed()
    damaged.write_bytes(damaged.read_bytes()[:-1])

    assert await buffer.retry_failed() == 1
    assert buffer.folder.failed() == [damaged]
    assert names(buffer.folder) == ["whole"]


async def test_a_failed_request_without_its_key_stays_and_blocks_no_other(
    buffer: FileBuffer,
) -> None:
    sealed = encode_push(a_push("a"), Keyring({"lost": bytes(32)}))
    await buffer.set_aside("a", 1, sealed)
    await buffer.set_aside("b", 2, encode_push(a_push("b"), buffer.keyring))

    assert await buffer.retry_failed() == 1
    assert [path.stem for path in buffer.folder.failed()] == ["a"]


async def test_a_file_has_a_maximum_number_of_messages(tmp_path: Path) -> None:
    settings = Settings(file_buffer_dir=str(tmp_path), file_buffer_events_per_file=2)
    buffer = FileBuffer.open(settings)
    assert buffer is not None
    for n in range(5):
        await buffer.append(a_push(f"{n}"))
    assert len(buffer.folder.files()) == 3
    assert names(buffer.folder) == [*"01234"]
    await buffer.close()


_ON_A_SMALL_DISK = """
import asyncio, sys
from queen.engine.buffer.file_buffer import FileBuffer
from queen.errors import DatabaseUnavailable, OutcomeUnknown
from queen.settings import Settings
from tests.engine.buffer.test_file_buffer import a_push, names

async def main():
    buffer = FileBuffer.open(Settings(file_buffer_dir=sys.argv[1]))
    taken, refused = [], 0
    for n in range(200):
        try:
            await buffer.append(a_push(str(n), 1_000))
            taken.append(str(n))
        except DatabaseUnavailable:
            refused += 1
    assert 20 < len(taken) < 64 and refused == 200 - len(taken), (len(taken), refused)
    assert names(buffer.folder) == taken
    await buffer.close()

asyncio.run(main())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system needs root")
def test_a_full_disk_confirms_only_what_it_has(tmp_path: Path) -> None:
    command = f'mount -t tmpfs -o size=64k none {tmp_path} && exec "$@"'
    run = [sys.executable, "-c", _ON_A_SMALL_DISK, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": f"{SOURCE}:{SOURCE.parent}"}
    answer = subprocess.run(
        ["unshare", "--mount", "sh", "-c", command, "sh", *run],
        env=environment,
        capture_output=True,
        text=True,
    )
    if "mount" in answer.stderr and "denied" in answer.stderr:
        pytest.skip("this machine does not let us mount")
    assert answer.returncode == 0, answer.stderr


class Disk:
    """Makes system calls fail, each from its next call on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patches = monkeypatch

    def fail(self, call: str, error: int, *, after_bytes: int | None = None) -> None:
        """``after_bytes``: a write puts this number of bytes on disk before it fails."""
        write = os.write

        def failing(file: int, argument: object = None) -> int:
            if after_bytes is not None:
                write(file, bytes(argument)[:after_bytes])  # pyright: ignore[reportArgumentType]
            raise OSError(error, "injected")

        self._patches.setattr(os, call, failing)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.mark.parametrize(
    ("call", "error"),
    [("write", errno.ENOSPC), ("write", errno.EIO), ("fsync", errno.EIO)],
)
@pytest.mark.parametrize("undoing", ["ftruncate", "fsync"])
async def test_a_record_that_cannot_be_removed_is_reported_as_unknown(
    buffer: FileBuffer,
    disk: Disk,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    error: int,
    undoing: str,
) -> None:
    await buffer.append(a_push("before"))
    disk.fail(call, error, after_bytes=100_000 if call == "write" else None)
    disk.fail(undoing, errno.EIO)
    answers = await outcomes(buffer, a_push("a"), a_push("b"))
    monkeypatch.undo()

    assert [type(each) for each in answers] == [OutcomeUnknown] * 2
    # It may be on disk, so the gate stays closed until the replay, and no record is stored twice.
    assert buffer.folder.is_closed
    await buffer.append(a_push("after"))
    left = names(buffer.folder)
    assert left in (["before", "a", "b", "after"], ["before", "after"])


async def test_an_unknown_first_record_closes_the_gate(
    buffer: FileBuffer, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await buffer.append(a_push("before"))
    (found,) = buffer.folder.files()
    with buffer.folder.locked():
        buffer.folder.remove({found.file_id: found.size_bytes})
    assert not buffer.folder.is_closed

    def fail_later(file: int) -> None:
        if os.fstat(file).st_size > records.HEADER_BYTES and not os.path.isdir(
            f"/proc/self/fd/{file}"
        ):
            raise OSError(errno.EIO, "injected")

    monkeypatch.setattr(os, "fsync", fail_later)
    disk.fail("ftruncate", errno.EIO)
    (answer,) = await outcomes(buffer, a_push("a"))
    monkeypatch.undo()

    assert isinstance(answer, OutcomeUnknown)
    assert (buffer.folder.is_closed, names(buffer.folder)) == (True, ["a"])
    assert buffer.folder.state.size_bytes == sum(each.size_bytes for each in buffer.folder.files())


async def test_a_rejected_push_is_gone_if_the_process_dies_immediately(
    buffer: FileBuffer, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await buffer.append(a_push("before"))
    disk.fail("write", errno.ENOSPC, after_bytes=100_000)
    (answer,) = await outcomes(buffer, a_push("a"))
    monkeypatch.undo()

    assert isinstance(answer, DatabaseUnavailable)
    successor = BufferFolder(buffer.folder.path)
    assert names(successor) == ["before"]
    successor.close()


_WRITES_STATE = """
import sys
from pathlib import Path
from queen.engine.buffer.directory import BufferFolder

folder = BufferFolder(Path(sys.argv[1]))
state = folder.state._replace(is_closed=True)
print("begun", flush=True)
for number in range(300_000):
    folder.state = state._replace(number=number)
"""


async def test_other_processes_see_a_closed_gate_as_closed(
    buffer: FileBuffer,
) -> None:
    """If it appeared open for a moment, a push could overtake buffered ones."""
    await buffer.append(a_push("a"))
    writer = subprocess.Popen(  # noqa: ASYNC220 - no other task runs
        [sys.executable, "-c", _WRITES_STATE, str(buffer.folder.path)],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stdout=subprocess.PIPE,
    )
    with writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"begun\n"
        seen_open = 0
        while writer.poll() is None:
            seen_open += sum(not buffer.folder.is_closed for _ in range(10_000))
    assert (writer.returncode, seen_open) == (0, 0)
