"""Names whose database is known."""

import hashlib

NAMES = ("main", "two", "three")


def home(name: str) -> str:
    """The database where a new queue of this name, or namespace, is stored."""
    digits = hashlib.sha256(name.encode()).hexdigest()[:15]
    slot = 1 + int(digits, 16) % 959
    return NAMES[slot % len(NAMES)]


def named(database: str, count: int = 1) -> list[str]:
    """Names of queues that are stored in a database."""
    return [name for name in (f"q{n}" for n in range(1000)) if home(name) == database][:count]


(ONE,), (TWO,), (THREE,) = map(named, NAMES)
"""A queue in each database."""
