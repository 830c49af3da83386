"""
Ids of messages, partitions and deliveries, and the positions that they encode.

The id of a partition or delivery is an integer of 63 bits: a slot, then a number that is unique in
its database. Clients get it as text, ``slot.number``.
"""

import contextlib
import hashlib
import re
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from itertools import pairwise
from typing import Final, NamedTuple
from uuid import UUID

from queen import errors

SLOT_BITS: Final = 10
NUMBER_BITS: Final = 53
PARTITION_BITS: Final = 48
"""Bits of a partition's number. Message ids have no room for more."""
OFFSET_BITS: Final = 54

# From the highest bit: number of the partition 48 bits, version 4, high part of the offset 12,
# variant 2, slot 10, unused 10, low part of the offset 42.
_LOW_BITS: Final = 42
_NUMBER: Final = (1 << NUMBER_BITS) - 1
_OURS: Final = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.ASCII
)
_DIGITS: Final = re.compile(r"[0-9a-f]+", re.ASCII)
_FRONT: Final = 24
_TOKEN_DIGITS: Final = 32
_REFERENCE: Final = re.compile(r"([0-9]{1,4})\.([1-9][0-9]{0,15})", re.ASCII)
_sha256 = hashlib.sha256
with contextlib.suppress(ImportError):
    # OpenSSL's takes twice as long for such a short text.
    _sha256 = import_module("_sha2" if sys.version_info >= (3, 12) else "_sha256").sha256


class Place(NamedTuple):
    """Where a message is stored. It never changes."""

    partition_id: int
    offset: int


class Lease(NamedTuple):
    """A delivery and the token that proves its ownership. Together they are the leaseId."""

    delivery_id: int
    token: UUID
    claimed_ms: int = 0
    """When the messages were delivered, by the clock of that process. For metrics only."""

    def __str__(self) -> str:
        return f"{reference(self.delivery_id)}.{self.claimed_ms}.{self.token.hex}"

    @classmethod
    def parse(cls, lease_id: str) -> "Lease":
        """Raise LeaseLost if the text cannot be a lease id."""
        try:
            slot, number, claimed_ms, token = lease_id.split(".")
            if len(token) != _TOKEN_DIGITS:
                raise ValueError(token)
            # Twice as fast as by `hex`, which allows other forms.
            uuid = UUID(int=int(token, 16))
            delivery_id, since = _id(int(slot), int(number)), int(claimed_ms)
        except ValueError as error:
            raise errors.LeaseLost(f"{lease_id!r} is not a lease") from error
        if delivery_id is None:
            raise errors.LeaseLost(f"{lease_id!r} is not a lease")
        return cls(delivery_id, uuid, since)


def message_id(partition_id: int, offset: int) -> str:
    """The id of the message at a position."""
    value = (
        (partition_id & _NUMBER) << 80
        | 8 << 76
        | (offset >> _LOW_BITS) << 64
        | 0b10 << 62
        | (partition_id >> NUMBER_BITS) << 52
        | (offset & (1 << _LOW_BITS) - 1)
    )
    digits = f"{value:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def id_runs(first: int, end: int) -> list[tuple[int, int]]:
    """Split a range of offsets where ids differ in more than their last twelve digits."""
    edges = [first, *range(((first >> _LOW_BITS) + 1) << _LOW_BITS, end, 1 << _LOW_BITS), end]
    return list(pairwise(edges))


def message_ids(partition_id: int, first: int, end: int) -> list[bytes]:
    """The ids of consecutive messages, as ASCII."""
    if first >> _LOW_BITS != end >> _LOW_BITS:
        return [message_id(partition_id, offset).encode() for offset in range(first, end)]
    # The ids differ only in their last twelve digits.
    head = message_id(partition_id, first)[:24].encode()
    low = (1 << _LOW_BITS) - 1
    return [
        b"%b%012x" % (head, offset) for offset in range(first & low, (first & low) + end - first)
    ]


def place_of(message_id: str) -> Place | None:
    """The position that an id encodes, or None if the string is not a message id."""
    if not _OURS.fullmatch(message_id):
        return None
    value = int(message_id.replace("-", ""), 16)
    if value >> _LOW_BITS & (1 << 10) - 1:
        return None
    offset = (value >> 64 & 0xFFF) << _LOW_BITS | value & (1 << _LOW_BITS) - 1
    slot = value >> 52 & (1 << SLOT_BITS) - 1
    return Place(slot << NUMBER_BITS | value >> 80, offset)


def places_of(message_ids: Sequence[str]) -> tuple[int, list[int]] | None:
    """
    The partition and offsets of ids in one partition, or None if one needs `place_of`.

    Returns the same as `place_of` for each id. For the acks of a large batch it is faster, because
    it compares all but the last twelve digits in one step.
    """
    first = place_of(message_ids[0])
    if first is None:
        return None
    if len(message_ids) == 1:
        return first.partition_id, [first.offset]
    front = message_ids[0][:_FRONT]
    tails = [each[_FRONT:] for each in message_ids if each.startswith(front)]
    if len(tails) < len(message_ids) or set(map(len, tails)) != {12}:
        return None
    if not _DIGITS.fullmatch("".join(tails)):
        return None
    lows = [int(tail, 16) for tail in tails]
    if max(lows) >> _LOW_BITS:
        return None
    high = first.offset >> _LOW_BITS << _LOW_BITS
    return first.partition_id, [high | low for low in lows] if high else lows


def reference(id_: int) -> str:
    """The id of a partition, delivery or dead letter as clients get it: ``slot.number``."""
    return f"{id_ >> NUMBER_BITS}.{id_ & _NUMBER}"


def id_of(ref: str) -> int | None:
    """The id that a reference encodes, or None if the string is not a reference."""
    match = _REFERENCE.fullmatch(ref)
    return _id(int(match[1]), int(match[2])) if match else None


def _id(slot: int, number: int) -> int | None:
    """The id of a number in a slot, or None if one of them is out of bounds."""
    if 0 <= slot < 1 << SLOT_BITS and 0 <= number <= _NUMBER:
        return slot << NUMBER_BITS | number
    return None


def dedup_keys(partition_id: int, transaction_ids: Iterable[str]) -> list[bytes]:
    """The 16-byte keys of clients' transactionIds. `queen.dedup_key` is the same in SQL."""
    start, hash_ = partition_id.to_bytes(8), _sha256
    return [hash_(start + each.encode()).digest()[:16] for each in transaction_ids]


def dedup_key(partition_id: int, transaction_id: str) -> bytes:
    (key,) = dedup_keys(partition_id, [transaction_id])
    return key
