"""Records of an append-only file: each has its length, number and checksum before its bytes."""

import struct
from collections.abc import Iterator
from hashlib import blake2b
from typing import BinaryIO, Final, NamedTuple

MAGIC: Final = b"QUEENBUF1\n"
FILE_ID_BYTES: Final = 16
HEADER_BYTES: Final = len(MAGIC) + FILE_ID_BYTES
_HEAD: Final = struct.Struct("<IQ8s")
OVERHEAD_BYTES: Final = _HEAD.size
MAX_BODY_BYTES: Final = 2**31
"""A greater length means that the record is damaged."""


class Record(NamedTuple):
    """One record, and the position of the next one in the file."""

    number: int
    body: bytes
    end: int


def header(file_id: bytes) -> bytes:
    """The beginning of a file: the format and the unique id of the file."""
    return MAGIC + file_id


def encode(number: int, body: bytes) -> bytes:
    """Encode a record. The body is opaque here and may be encrypted."""
    return _HEAD.pack(len(body), number, _checksum(number, body)) + body


def read(file: BinaryIO, start: int, end: int) -> Iterator[Record]:
    """
    The records from a position up to the first torn or damaged one, or to ``end``.

    Later records are ignored. Every acknowledged record was complete and on disk, so it precedes a
    torn one.
    """
    file.seek(start)
    position = start
    while position + OVERHEAD_BYTES <= end:
        head = file.read(OVERHEAD_BYTES)
        if len(head) < OVERHEAD_BYTES:
            return
        size, number, checksum = _HEAD.unpack(head)
        if size > MAX_BODY_BYTES or position + OVERHEAD_BYTES + size > end:
            return
        body = file.read(size)
        if len(body) < size or _checksum(number, body) != checksum:
            return
        position += OVERHEAD_BYTES + size
        yield Record(number, body, position)


def read_file_id(file: BinaryIO) -> bytes | None:
    """The id in a file's header, or None if the header is torn and the file holds no records."""
    file.seek(0)
    start = file.read(HEADER_BYTES)
    if len(start) < HEADER_BYTES or not start.startswith(MAGIC):
        return None
    return start[len(MAGIC) :]


def _checksum(number: int, body: bytes) -> bytes:
    digest = blake2b(number.to_bytes(8, "little"), digest_size=8)
    digest.update(body)
    return digest.digest()
