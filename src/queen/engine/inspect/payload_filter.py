"""``customer.id=42``: a value at a path of the payload, as people ask for it in a search."""

import json
from typing import Any, Final, Self, cast

import msgspec

from queen import errors

MOST_STEPS: Final = 16


class Where(msgspec.Struct, frozen=True):
    """Where the payload must have which value: JSON, or else a text."""

    path: tuple[str, ...]
    told: str
    wanted: Any
    words: tuple[tuple[bytes, ...], ...]
    """How the names of the path are written; a number may be that of an item, written nowhere."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raise BadRequest for what is no ``path=value``."""
        path, sign, told = text.partition("=")
        steps = tuple(path.strip().split("."))
        if not sign or not all(steps) or len(steps) > MOST_STEPS:
            raise errors.BadRequest(
                f"where {text!r}: write customer.id=42, with at most {MOST_STEPS} steps"
            )
        try:
            wanted: Any = json.loads(told)
        except (ValueError, RecursionError):
            wanted = told
        words = tuple(spellings(step) for step in steps if not step.isdecimal())
        return cls(steps, told, wanted, words)

    def holds(self, payload: bytes) -> bool:
        """Whether the payload has the value there."""
        # Most messages don't even have the words: only the others are worth decoding.
        if not all(any(each in payload for each in written) for written in self.words):
            return False
        try:
            value: Any = json.loads(payload)
        except ValueError:  # Redacted.
            return False
        for step in self.path:
            if isinstance(value, dict):
                value = cast("dict[str, Any]", value).get(step)
            elif isinstance(value, list) and step.isdecimal() and len(step) < 10:
                items = cast("list[Any]", value)
                value = items[int(step)] if int(step) < len(items) else None
            else:
                return False
        # 1 is not true, and "1" is meant as well where a string is compared with a figure.
        same = value == self.wanted and isinstance(value, bool) == isinstance(self.wanted, bool)
        return same or (isinstance(value, str) and value == self.told)


def spellings(text: str) -> tuple[bytes, ...]:
    """How a text may be written in JSON: plain, or escaped."""
    escaped = json.dumps(text)[1:-1]
    plain = json.dumps(text, ensure_ascii=False)[1:-1]
    return tuple({each.encode() for each in (text, escaped, plain)})
