"""Names whose database is known."""

import hashlib

NAMES = ("main", "two", "three")


def slot_of(name: str) -> int:
    """The slot of a new queue with this name or namespace."""
    digits = hashlib.sha256(name.encode()).hexdigest()[:15]
    return 1 + int(digits, 16) % 959


def home(name: str) -> str:
    """The database of a new queue with this name or namespace."""
    return NAMES[slot_of(name) % len(NAMES)]


def named(database: str, count: int = 1) -> list[str]:
    """Names of queues that are stored in a database."""
    return [name for name in (f"q{n}" for n in range(1000)) if home(name) == database][:count]


(ONE,), (TWO,), (THREE,) = map(named, NAMES)
"""A queue in each database."""
