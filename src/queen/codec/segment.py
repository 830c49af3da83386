"""Segments: the body and ends are, byte for byte, an Arrow string array."""

import struct
import sys
from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise, repeat
from typing import Final

from queen.errors import MessagesDamaged

Buffer = bytes | bytearray | memoryview

_INT32: Final = struct.Struct("<i")
_ENDS_OF_ONE: Final = struct.Struct("<ii")
_IS_LITTLE: Final = sys.byteorder == "little"


def ends_of(values: Sequence[Buffer]) -> bytes:
    """The n+1 little-endian int32 positions of concatenated values, from 0."""
    return _ends_of_sizes(map(len, values))


def ends_with_more(ends: bytes, size_bytes: int) -> bytes:
    """
    The ends after each value grew by ``size_bytes``.

    Adds all of them as one long integer. An end stays below 2^31 and never carries into the next. A
    thousand ends cost as much as ten in a loop.
    """
    more = _ends_of_equals(len(ends) // 4 - 1, size_bytes)
    return (int.from_bytes(ends, "little") + more).to_bytes(len(ends), "little")


@lru_cache(maxsize=4096)
def _ends_of_equals(count: int, size_bytes: int) -> int:
    return int.from_bytes(_ends_of_sizes(repeat(size_bytes, count)), "little")


def _ends_of_sizes(sizes: Iterable[int]) -> bytes:
    ends = array("i", accumulate(sizes, initial=0))
    if not _IS_LITTLE:
        ends.byteswap()
    return ends.tobytes()


def encode(payloads: Sequence[Buffer]) -> tuple[bytes, bytes]:
    """The body and ends of a segment with these payloads."""
    if len(payloads) == 1:
        return bytes(payloads[0]), _ENDS_OF_ONE.pack(0, len(payloads[0]))
    return b"".join(payloads), ends_of(payloads)


def encode_extras(extras: Iterable[bytes | None]) -> bytes | None:
    """Encode the optional fields of all messages as one value, or None if no message has any."""
    values = [extra or b"" for extra in extras]
    if not any(values):
        return None
    return ends_of(values) + b"".join(values)


class Segment:
    """A stored segment. Payloads are slices of it and are not parsed."""

    __slots__ = ("_ends", "_extras", "body", "count", "xid")

    def __init__(
        self, *, xid: int, count: int, body: bytes, ends: bytes, extras: bytes | None
    ) -> None:
        self.xid = xid
        self.count = count
        self.body = body
        self._ends = ends
        self._extras = extras

    def check(self) -> None:
        """Raise MessagesDamaged if the positions of the messages don't fit the stored bytes."""
        _check_ends(self._ends, self.count, len(self.body))
        if self._extras is not None:
            head = 4 * (self.count + 1)
            _check_ends(self._extras[:head], self.count, len(self._extras) - head)

    @property
    def is_redacted(self) -> bool:
        """Whether this is a redacted message: a segment of its own, without a payload."""
        return self.count == 1 and not self.body

    @property
    def ends(self) -> bytes:
        return self._ends

    @property
    def stored_extras(self) -> bytes | None:
        """The extras of all messages in their stored form."""
        return self._extras

    @property
    def size_bytes(self) -> int:
        return len(self.body) + len(self._ends) + len(self._extras or b"") + 200

    def payload_bytes(self, first: int, end: int) -> int:
        """The total size of the messages first … end - 1."""
        (start,) = _INT32.unpack_from(self._ends, 4 * first)
        (stop,) = _INT32.unpack_from(self._ends, 4 * end)
        return stop - start

    def payloads(self, first: int, end: int) -> list[bytes]:
        """The payloads of the messages first … end - 1, counted from the segment's base."""
        ends = array("i", self._ends[4 * first : 4 * end + 4])
        if not _IS_LITTLE:
            ends.byteswap()
        body = self.body
        return [body[start:stop] for start, stop in pairwise(ends)]

    def extras(self, first: int, end: int) -> list[bytes | None]:
        """The extras of those messages as JSON. A message without extras has None."""
        stored = self._extras
        if stored is None:
            return [None] * (end - first)
        ends = array("i", stored[4 * first : 4 * end + 4])
        if not _IS_LITTLE:
            ends.byteswap()
        base = 4 * (self.count + 1)
        return [stored[base + start : base + stop] or None for start, stop in pairwise(ends)]


def _check_ends(stored: bytes, count: int, size_bytes: int) -> None:
    if len(stored) != 4 * (count + 1):
        raise MessagesDamaged(f"{len(stored)} bytes hold the positions of {count} messages")
    ends = array("i", stored)
    if not _IS_LITTLE:
        ends.byteswap()
    if ends[0] != 0 or ends[-1] != size_bytes:
        raise MessagesDamaged(f"messages end at byte {ends[-1]} of {size_bytes}")
    positions = ends.tolist()
    if positions != sorted(positions):
        raise MessagesDamaged("positions of messages are out of order")
