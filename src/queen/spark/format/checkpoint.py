"""
Move the checkpoint of a stream back, after the database lost transactions.

After a failover or a restore that lost transactions, their numbers are used again, so a stream
stops. Spark takes the start of a batch from the end of the previous one. So the end of the last
batch is replaced by the last end whose segment still exists, and no batch number is used twice.
"""

# pyright: basic
import contextlib
from typing import Any, Final, NamedTuple

import msgspec
from pyarrow import fs

from queen import errors
from queen.arrow.database import Connection, call, connect
from queen.arrow.planning import find_queue_by_id
from queen.spark.format.stream_offset import StreamOffset

_HEADER_LINES: Final = 2
"""The version of the file, and the settings of the batch."""


class Rewound(NamedTuple):
    """The effect of a rewind."""

    query_id: str
    batch: int
    """The last batch of the checkpoint."""
    kept: int
    """The last batch of which the database still has everything."""


class Checkpoint:
    """The directory that Spark calls ``checkpointLocation``."""

    def __init__(self, location: str) -> None:
        try:
            self._files, self._root = fs.FileSystem.from_uri(location)
        except ValueError:
            self._files, self._root = fs.LocalFileSystem(), location
        self.location = location

    @property
    def query_id(self) -> str:
        try:
            return msgspec.json.decode(self._read("metadata"))["id"]
        except FileNotFoundError:
            raise errors.NotFound(f"{self.location} is not the checkpoint of a stream") from None

    @property
    def has_state(self) -> bool:
        """Whether the stream aggregates, joins or deduplicates."""
        return self._files.get_file_info(f"{self._root}/state").type == fs.FileType.Directory

    def batches(self) -> list[int]:
        """Return the numbers of the batches that Spark still remembers, in order."""
        folder = fs.FileSelector(f"{self._root}/offsets", allow_not_found=True)
        names = (info.base_name for info in self._files.get_file_info(folder))
        return sorted(int(name) for name in names if name.isdecimal())

    def offsets(self, batch: int) -> list[StreamOffset | None]:
        """Return the end of a batch for each source. None for sources of other formats."""
        lines = self._read(f"offsets/{batch}").decode().split("\n")
        return [_offset(line) for line in lines[_HEADER_LINES:]]

    def replace(self, batch: int, offsets: list[StreamOffset | None]) -> None:
        """Replace the end of a batch, in one step on a file system."""
        name = f"offsets/{batch}"
        lines = self._read(name).decode().split("\n")
        for number, offset in enumerate(offsets, _HEADER_LINES):
            if offset is not None:
                lines[number] = msgspec.json.encode(offset.stored()).decode()
        # Its checksum is stored beside it, and Hadoop would reject the new content.
        with contextlib.suppress(FileNotFoundError):
            self._files.delete_file(f"{self._root}/offsets/.{batch}.crc")
        made = f"{self._root}/offsets/.{batch}.rewound.tmp"
        with self._files.open_output_stream(made) as stream:
            stream.write("\n".join(lines).encode())
        self._files.move(made, f"{self._root}/{name}")

    def _read(self, name: str) -> bytes:
        with self._files.open_input_stream(f"{self._root}/{name}") as stream:
            return stream.read()


def rewind(dsn: str, location: str, *, app_id: str | None, is_dry: bool) -> Rewound:
    """
    Move a checkpoint back, unless ``is_dry``. ``app_id``: the txnAppId of the sink, if it has one.

    Raises InvalidOption if the stream has state or another source, and DataLost if no remembered
    batch can be kept.
    """
    checkpoint = Checkpoint(location)
    query_id, batches = checkpoint.query_id, checkpoint.batches()
    if not batches:
        raise errors.NotFound(f"the stream of {location} has no batch yet: start it")
    if None in checkpoint.offsets(batches[-1]):
        raise errors.InvalidOption(
            f"the stream of {location} reads several databases, or something else than a queue,"
            " which can't be moved back: give it another checkpoint, and another txnAppId if it has"
            " one"
        )
    with connect(dsn) as connection:
        published = _published(connection, app_id or query_id, query_id)
        last, kept = batches[-1], None
        for batch in reversed(batches):
            offsets = checkpoint.offsets(batch)
            is_lost = published is not None and batch > published
            if not is_lost and all(_is_there(connection, each) for each in offsets if each):
                kept = batch
                break
    if kept is None:
        raise errors.DataLost(
            f"the database has nothing of the batches {batches[0]} to {last}, which are all that"
            f" {location} remembers: give the stream another checkpoint"
        )
    if kept == last:
        return Rewound(query_id, last, kept)
    if checkpoint.has_state:
        raise errors.InvalidOption(
            "the stream has state, which can't be moved back: delete its checkpoint. A stream with"
            " a txnAppId, such as a window, then repeats its batches and publishes each once"
        )
    if not is_dry:
        checkpoint.replace(last, offsets)
    return Rewound(query_id, last, kept)


def _published(connection: Connection, app_id: str, query_id: str) -> int | None:
    """Return the last batch that the queues of the sink have; None if there is none."""
    rows = call(connection, "last_published", app_id, query_id)
    return rows[0]["version"]


def _is_there(connection: Connection, offset: StreamOffset) -> bool:
    """Whether the database has everything up to this offset."""
    queue = find_queue_by_id(connection, offset.queue)
    if queue is None or queue["numbering"] != offset.numbering:
        return False
    if not offset.stored_at:
        return offset.xid <= 1  # Before the first message.
    at = (offset.queue, *offset.position, offset.stored_at)
    (row,) = call(connection, "witness", *at)
    is_same = queue["server"] is None or queue["server"] == offset.server
    return row["is_there"] or (is_same and row["is_removed"])


def _offset(line: str) -> StreamOffset | None:
    try:
        found: Any = msgspec.json.decode(line)
        is_ours = isinstance(found, dict) and {"queue", "xid", "since"} <= found.keys()
        return StreamOffset.of(found) if is_ours else None
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None
