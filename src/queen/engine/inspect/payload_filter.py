"""Search conditions like ``customer.id=42``: a value at a path of the payload."""

import json
from typing import Any, Final, Self, cast

import msgspec

from queen import errors

MOST_STEPS: Final = 16


class Where(msgspec.Struct, frozen=True):
    """A path and its expected value, which is JSON or else a string."""

    path: tuple[str, ...]
    told: str
    wanted: Any
    words: tuple[tuple[bytes, ...], ...]
    """The encoded names of the path. A number may be an array index, which is not in the text."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raise BadRequest unless the text is ``path=value``."""
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
        """Return whether the payload has the value at the path."""
        # Most messages don't contain the words. Only the others are decoded.
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
        # 1 does not equal true, but "1" equals 1 when a string is compared with a number.
        same = value == self.wanted and isinstance(value, bool) == isinstance(self.wanted, bool)
        return same or (isinstance(value, str) and value == self.told)


def spellings(text: str) -> tuple[bytes, ...]:
    """How JSON can encode a string: unescaped or escaped."""
    escaped = json.dumps(text)[1:-1]
    plain = json.dumps(text, ensure_ascii=False)[1:-1]
    return tuple({each.encode() for each in (text, escaped, plain)})
