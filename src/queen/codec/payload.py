"""What a payload must be to be stored: JSON in UTF-8, not too deep. Its bytes stay as they are."""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from queen.errors import InvalidItem

_RAWS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_NOT_OPENING: Final = bytes(set(range(256)) - set(b"[{\0"))
# Unless one bracket stands right behind another, two levels take seven bytes and more: `[`, `{"":`,
# `}` and `]`.
_ADJOINING: Final = re.compile(rb"\[[ \t\r\n]*\[")
_RAW: Final = msgspec.json.Decoder(msgspec.Raw)


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
    """How deep valid JSON is nested: brackets outside of strings, counted."""
    depth = deepest = 0
    is_string = is_escaped = False
    for byte in payload:
        if is_string:
            if is_escaped:
                is_escaped = False
            elif byte == 0x5C:
                is_escaped = True
            elif byte == 0x22:
                is_string = False
        elif byte == 0x22:
            is_string = True
        elif byte in b"{[":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"}]":
            depth -= 1
    return deepest
