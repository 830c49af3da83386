"""Records of an append-only file: length, number and checksum before the bytes of each."""

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
"""A length above this is no length."""


class Record(NamedTuple):
    """One record, and where in its file the next one begins."""

    number: int
    body: bytes
    end: int


def header(file_id: bytes) -> bytes:
    """What a file begins with: the format, and a name that no other file has."""
    return MAGIC + file_id


def encode(number: int, body: bytes) -> bytes:
    """A record as it is written; what the body means is not known here, so it may be sealed."""
    return _HEAD.pack(len(body), number, _checksum(number, body)) + body


def read(file: BinaryIO, start: int, end: int) -> Iterator[Record]:
    """
    The records from a position on, up to the first that is torn or damaged, or to ``end``.

    Nothing behind such a one is read: what was promised was whole and on disk before the promise.
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
    """The name in a file's header; None when the header is torn, and so nothing follows it."""
    file.seek(0)
    start = file.read(HEADER_BYTES)
    if len(start) < HEADER_BYTES or not start.startswith(MAGIC):
        return None
    return start[len(MAGIC) :]


def _checksum(number: int, body: bytes) -> bytes:
    digest = blake2b(number.to_bytes(8, "little"), digest_size=8)
    digest.update(body)
    return digest.digest()
