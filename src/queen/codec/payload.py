"""Validation of payloads: JSON in UTF-8, up to a maximum depth. Their bytes stay unchanged."""

import re
from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import msgspec

from queen.errors import InvalidItem

_RAWS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_NOT_OPENING: Final = bytes(set(range(256)) - set(b"[{\0"))
# Unless two brackets adjoin, two levels take at least seven bytes: `[`, `{"":`, `}` and `]`.
_ADJOINING: Final = re.compile(rb"\[[ \t\r\n]*\[")
_RAW: Final = msgspec.json.Decoder(msgspec.Raw)
_NOT_MARKS: Final = bytes(set(range(256)) - set(b'[]{}"'))
_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
"""As signed bytes: one level deeper, or one level up."""


def are_valid(payloads: Sequence[bytes], max_depth: int) -> bool:
    """Check all payloads in one pass. True is certain. After False, check each one."""
    if len(payloads) == 1:
        return is_valid(payloads[0], max_depth)
    joined = b"[" + b",".join(payloads) + b"]"
    try:
        if not joined.isascii():
            joined.decode("utf-8")
        raws = _RAWS.decode(joined)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return False
    # Payloads like `1,2` or `[1` can join their neighbours. Then the lengths differ.
    if list(map(len, raws)) != list(map(len, payloads)):
        return False
    if 2 * max(map(len, payloads)) <= 7 * max_depth and _ADJOINING.search(joined) is None:
        return True
    return _open_few(payloads, max_depth)


def are_shallow(payloads: Sequence[bytes], max_depth: int) -> bool:
    """Return whether all payloads, which must be JSON, stay within the depth. True is certain."""
    if max(map(len, payloads)) <= 2 * max_depth:
        return True
    return _open_few(payloads, max_depth)


def _open_few(payloads: Sequence[bytes], max_depth: int) -> bool:
    """The depth is at most the number of opening brackets."""
    opening = b"\0".join(payloads).translate(None, _NOT_OPENING).split(b"\0")
    return len(opening) == len(payloads) and max(map(len, opening)) <= max_depth


def is_valid(payload: bytes | msgspec.Raw, max_depth: int) -> bool:
    """Check one payload. True is certain. After False, `check` finds the reason."""
    text = bytes(payload)
    try:
        if not text.isascii():
            text.decode("utf-8")
        _RAW.decode(text)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return False
    if len(text) <= 2 * max_depth:
        return True
    # The depth is at most the number of opening brackets.
    return text.count(b"{") + text.count(b"[") <= max_depth


def check(payload: bytes, max_depth: int) -> None:
    """Raise InvalidItem, with the reason, unless this is one JSON value within the depth."""
    try:
        payload.decode("utf-8")
        _RAW.decode(payload)
    except UnicodeDecodeError as error:
        raise InvalidItem(f"the payload is not UTF-8: {error}") from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidItem(f"the payload is not JSON: {error}") from error
    if payload.count(b"{") + payload.count(b"[") > max_depth and _depth(payload) > max_depth:
        raise InvalidItem(f"the payload is nested deeper than {max_depth} levels")


def _depth(payload: bytes) -> int:
    """
    The nesting depth of valid JSON, counted from the brackets outside of strings.

    Python must not loop over the bytes: a payload of one megabyte would block the process for a
    third of a second.
    """
    if b"\\" in payload:
        # Pairs of backslashes first, so that a remaining backslash escapes the next character.
        payload = payload.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = payload.translate(_STEPS, _NOT_MARKS)
    # Adjoining quotes enclose no bracket, so removing them moves no bracket into or out of a
    # string.
    outside = marks.replace(b'""', b"").split(b'"')[::2]
    return max(accumulate(array("b", b"".join(outside))), default=0)
