"""The slots of names."""

import functools
import hashlib
from typing import Final

_HASHED: Final = 959
RESERVED: Final = range(960, 1024)
"""Slots for pinned partitions. No name is hashed to them."""


@functools.lru_cache(maxsize=65_536)
def hashed(name: str) -> int:
    """
    The slot of a new queue without a namespace, or of a partition in a spread queue.

    `queen.hashed_slot` is the same in SQL.
    """
    digits = hashlib.sha256(name.encode()).hexdigest()[:15]
    return 1 + int(digits, 16) % _HASHED
