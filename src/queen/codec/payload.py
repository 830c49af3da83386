"""What a payload must be to be stored: JSON in UTF-8, not too deep. Its bytes stay as they are."""

import re
from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import msgspec

from queen.errors import InvalidItem

_RAWS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_NOT_OPENING: Final = bytes(set(range(256)) - set(b"[{\0"))
# Unless one bracket stands right behind another, two levels take seven bytes and more: `[`, `{"":`,
# `}` and `]`.
_ADJOINING: Final = re.compile(rb"\[[ \t\r\n]*\[")
_RAW: Final = msgspec.json.Decoder(msgspec.Raw)
_NOT_MARKS: Final = bytes(set(range(256)) - set(b'[]{}"'))
_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
"""As signed bytes: one level deeper, or one less."""


def are_valid(payloads: Sequence[bytes], max_depth: int) -> bool:
    """Whether all are certainly good: one pass over all of them. False says to check each alone."""
    if len(payloads) == 1:
        return is_valid(payloads[0], max_depth)
    joined = b"[" + b",".join(payloads) + b"]"
    try:
        if not joined.isascii():
            joined.decode("utf-8")
        raws = _RAWS.decode(joined)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return False
    # A payload like `1,2` or `[1` can hide among others; not if each is as long as what was sent.
    if list(map(len, raws)) != list(map(len, payloads)):
        return False
    if 2 * max(map(len, payloads)) <= 7 * max_depth and _ADJOINING.search(joined) is None:
        return True
    return _open_few(payloads, max_depth)


def are_shallow(payloads: Sequence[bytes], max_depth: int) -> bool:
    """Whether all, which are JSON, are certainly not too deep."""
    if max(map(len, payloads)) <= 2 * max_depth:
        return True
    return _open_few(payloads, max_depth)


def _open_few(payloads: Sequence[bytes], max_depth: int) -> bool:
    """As many levels as brackets that open, at the most."""
    opening = b"\0".join(payloads).translate(None, _NOT_OPENING).split(b"\0")
    return len(opening) == len(payloads) and max(map(len, opening)) <= max_depth


def is_valid(payload: bytes | msgspec.Raw, max_depth: int) -> bool:
    """Whether one is certainly good. False says to check it for the reason why not."""
    text = bytes(payload)
    try:
        if not text.isascii():
            text.decode("utf-8")
        _RAW.decode(text)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return False
    if len(text) <= 2 * max_depth:
        return True
    # As many levels as brackets that open, at the most.
    return text.count(b"{") + text.count(b"[") <= max_depth


def check(payload: bytes, max_depth: int) -> None:
    """Raise InvalidItem, saying why, unless this is one JSON value that is not too deep."""
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
    How deep valid JSON is nested: brackets outside of strings, counted.

    Without a loop over bytes in Python: one payload of a megabyte would stop the process for a
    third of a second.
    """
    if b"\\" in payload:
        # Pairs first: what is left of a run of backslashes then escapes the next character.
        payload = payload.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = payload.translate(_STEPS, _NOT_MARKS)
    # Quotes side by side enclose no bracket, so every bracket stays inside or outside of strings.
    outside = marks.replace(b'""', b"").split(b'"')[::2]
    return max(accumulate(array("b", b"".join(outside))), default=0)
