"""Reads the buffer: all files of a server as one sequence, in batches for a transaction."""

import heapq
import itertools
import math
from collections.abc import Generator, Sequence
from typing import Final, NamedTuple

import msgspec

from queen.codec.encryption.keys import Keyring
from queen.engine.buffer import records
from queen.engine.buffer.directory import Found
from queen.engine.buffer.file_buffer import BufferedPush, decode_push

_BATCH_BYTES: Final = 4 * 2**20


class Replayed(NamedTuple):
    """A record to store."""

    found: Found
    number: int
    end: int
    body: bytes
    push: BufferedPush | None
    """None if this release cannot read the record, or must not store it."""
    until: float = math.inf
    """Deadline for sending it, in seconds since 1970. After that it could be stored twice."""

    @property
    def name(self) -> str:
        return f"{self.found.file_id.hex()}-{self.number}"


Reading = Generator[Replayed, None, None]


def _records(found: Found, start: int, keyring: Keyring) -> Reading:
    """The records of a file, which is open only while one is read: there may be thousands."""
    with found.path.open("rb") as file:
        first = next(records.read(file, start, found.size_bytes), None)
    if first is None:
        return
    yield _replayed(found, first, keyring)
    with found.path.open("rb") as file:
        for record in records.read(file, first.end, found.size_bytes):
            yield _replayed(found, record, keyring)


def _replayed(found: Found, record: records.Record, keyring: Keyring) -> Replayed:
    try:
        push = decode_push(record.body, keyring)
    except (ValueError, msgspec.MsgspecError):
        push = None
    return Replayed(found, record.number, record.end, record.body, push)


def merged(files: Sequence[Found], starts: dict[bytes, int], keyring: Keyring) -> Reading:
    """The records of all files in the order in which they were written."""
    readers = [_records(found, starts[found.file_id], keyring) for found in files]
    try:
        yield from heapq.merge(*readers, key=lambda each: each.number)
    finally:
        for reader in readers:
            reader.close()


def next_batch(
    reading: Reading, ahead: list[Replayed], most: int
) -> tuple[list[Replayed], list[Replayed]]:
    """The records for one transaction, and the record after them if it was already read."""
    batch: list[Replayed] = []
    sequences: dict[str, int] = {}
    size_bytes = 0
    for each in itertools.chain(ahead, reading):
        is_full = len(batch) >= most or size_bytes >= _BATCH_BYTES
        # The database checks all requests of a batch against the same state. So the numbers of one
        # producer must rise.
        is_rising = _is_rising(each.push, sequences)
        if batch and (is_full or not is_rising):
            return batch, [each]
        batch.append(each)
        size_bytes += len(each.body)
    return batch, []


def _is_rising(push: BufferedPush | None, sequences: dict[str, int]) -> bool:
    """Return whether a request follows those of its producer in the batch."""
    producer = push.producer if push is not None else None
    if producer is None:
        return True
    # By the id only: a request from before scopes is checked against all scopes.
    if producer.sequence <= sequences.get(producer.id, -1):
        return False
    sequences[producer.id] = producer.sequence
    return True


def end_of(found: Found, last: int) -> int:
    """The end of the record with this number, or of the last one below it."""
    end = records.HEADER_BYTES
    with found.path.open("rb") as file:
        for record in records.read(file, records.HEADER_BYTES, found.size_bytes):
            if record.number > last:
                break
            end = record.end
    return end
