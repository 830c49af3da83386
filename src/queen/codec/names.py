"""Valid names of queues, partitions, groups and producers."""

from typing import Final

from queen import errors

QUEUE_MODE: Final = "__QUEUE_MODE__"
"""The consumer group of pops that don't name a group."""


def check_name(what: str, name: str, max_bytes: int) -> None:
    """Raise InvalidName unless the name can be stored, displayed and used in a path."""
    if 2 < len(name) <= max_bytes and name.isascii() and name.isprintable():
        return
    try:
        size_bytes = len(name.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise errors.InvalidName(f"{what} {name!r} has a lone surrogate") from error
    if not 0 < size_bytes <= max_bytes:
        raise errors.InvalidName(f"{what} of {size_bytes} bytes: it must have 1 to {max_bytes}")
    if name in (".", "..") or any(ord(letter) < 32 or ord(letter) == 127 for letter in name):
        raise errors.InvalidName(f"{what} {name!r}: control characters, . and .. are not allowed")


def check_queue_name(what: str, name: str, max_bytes: int) -> None:
    """Check a queue or group name, which must not begin with the reserved prefix __."""
    check_name(what, name, max_bytes)
    if name.startswith("__") or name != name.strip():
        raise errors.InvalidName(f"{what} {name!r}: a leading __ and outer spaces are not allowed")
