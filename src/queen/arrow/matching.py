"""
Find the values in many JSON texts of the same layout at once.

All texts are compared with the constants of the layout, eight or sixteen bytes at a time. Numbers
are parsed in the same way. Positions of texts that differ are meaningless, so each function works
with any bytes.
"""

# pyright: basic, reportAttributeAccessIssue=false
from typing import Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from queen.arrow.json_schema import Type

Path = tuple[str, ...]
"""The names of properties that lead to a value."""
_PAIR: Final = 16
_MOST_STEPS: Final = 64
"""Pairs of words of a string. Longer ones are left to the other parser."""
_MOST_DIGITS: Final = 18
_ONES: Final = np.uint64(0x0101010101010101)
_HIGHS: Final = np.uint64(0x8080808080808080)
_QUOTES: Final = np.uint64(0x2222222222222222)
_ONE: Final = np.uint64(1)
_BYTE: Final = np.uint64(0xFF)
_POWERS: Final = 10 ** np.arange(_MOST_DIGITS + 1, dtype=np.uint64)
_DOUBLE_POWERS: Final = _POWERS.astype(np.float64)
_EXACT_DIGITS: Final = 15
"""Digits of an integer that a double represents."""


class Slot(NamedTuple):
    """A value between two constants."""

    token: Literal["string", "number", "literal"]
    path: Path
    type: Type | None
    """None if the schema doesn't name the property."""


class Values(NamedTuple):
    """The values in a slot."""

    start: np.ndarray
    end: np.ndarray
    parsed: np.ndarray | None = None
    """Numbers, and whether a literal is true. None if Arrow has to convert the texts."""
    is_null: np.ndarray | None = None


class Scratch:
    """Memory that is used again, because new memory is slow."""

    def __init__(self) -> None:
        self._memory = bytearray()

    def reserve(self, size: int) -> bytearray:
        """Return at least this many bytes."""
        if len(self._memory) < size:
            self._memory = bytearray(size)
        return self._memory


class Texts:
    """The bytes of some texts, readable as words at any position."""

    def __init__(self, texts: pa.Array, padding: int, scratch: Scratch) -> None:
        """Copy the texts to ``scratch``. The next texts replace them."""
        _, positions, data = texts.buffers()
        bounds = np.frombuffer(positions, np.int32, len(texts) + 1, texts.offset * 4)
        first, end = int(bounds[0]), int(bounds[-1])
        self._size = end - first
        whole = self._size + padding
        memory = scratch.reserve(whole)
        self.data = memoryview(memory)[:whole]
        self.data[: self._size] = memoryview(data)[first:end].cast("B")
        # Quotes, because a search for the end of a string must end.
        self.data[self._size :] = b'"' * padding
        self.starts = bounds[:-1].astype(np.int64) - first
        self.ends = bounds[1:].astype(np.int64) - first
        self.words = np.ndarray((whole - 7,), "<u8", self.data, strides=(1,))
        self.pairs = np.ndarray((whole - 15,), np.complex128, self.data, strides=(1,))
        """Two words each. Reading both at once takes as long as reading one."""
        self._body = np.frombuffer(self.data, np.uint8, self._size)
        self._has_escapes = memory.find(b"\\", 0, self._size) >= 0

    def is_plain(self) -> np.ndarray | bool:
        """Which texts have no escapes and no control characters. True: all."""
        if not self._has_escapes and self._body.min(initial=255) >= 32:
            return True
        found = np.ones(len(self.starts), bool)
        odd = np.flatnonzero((self._body < 32) | (self._body == ord("\\")))
        found[np.searchsorted(self.ends, odd, "right")] = False
        return found

    def is_valid(self) -> bool:
        """Whether all bytes are UTF-8."""
        if self._body.max(initial=0) < 128:
            return True
        try:
            str(self.data[: self._size], "utf-8")
        except UnicodeDecodeError:
            return False
        return True


class Match:
    """How far texts match a layout, and which of them differ."""

    def __init__(self, texts: Texts) -> None:
        self._words = texts.words
        self._pairs = texts.pairs
        self._ends = texts.ends
        self._at = texts.starts
        self._differs = np.zeros(len(texts.starts), bool)

    def is_whole(self) -> np.ndarray:
        """Which texts match up to their end."""
        return ~self._differs & (self._at == self._ends)

    def skip_constant(self, constant: bytes) -> None:
        """Compare the next bytes with a constant."""
        for offset in range(0, len(constant), 16):
            part = constant[offset : offset + 16]
            at = self._at + offset if offset else self._at
            if len(part) <= 8:
                self._compare(self._words[at], part)
                continue
            both = self._pairs[at].view(np.uint64)
            self._compare(both[::2], part[:8])
            self._compare(both[1::2], part[8:])
        self._at = self._at + len(constant)

    def skip_value(self, slot: Slot) -> Values:
        """Return the next values."""
        kind = "string" if slot.type is None else slot.type.kind
        if slot.token == "literal":
            return self._skip_literal()
        if slot.token == "number":
            return self._skip_number(kind)
        start = self._at
        if kind == "timestamp":
            self._skip_time()
        elif kind == "date":
            self._compare(self._words[start], b"    -  -", b"\0\0\0\0\xff\0\0\xff")
            self._skip_string(10)
            self._differs |= self._at - start != 10
        else:
            self._skip_string()
        return Values(start, self._at)

    def _compare(self, words: np.ndarray, text: bytes, mask: bytes = b"\xff" * 8) -> None:
        difference = words ^ _number(text)
        if len(text) < 8 or mask[0] == 0:
            difference &= _number(mask[: len(text)])
        self._differs |= difference != 0

    def _skip_string(self, known: int = 0) -> None:
        """Go to the next quote, at least ``known`` bytes further."""
        at = self._at + known
        count = _quote(self._words[at])
        is_open = count == 8
        # Strings that have ended stay where they are.
        for _ in range(_MOST_STEPS):
            at = at + count
            open_count = np.count_nonzero(is_open)
            if open_count < len(at) // 4:
                if open_count:
                    self._finish_strings(at, np.flatnonzero(is_open))
                break
            count = _quote_in_pairs(self._pairs[at])
            is_open = count == _PAIR
        else:
            self._differs |= is_open
        self._at = at

    def _finish_strings(self, at: np.ndarray, rows: np.ndarray) -> None:
        """Go to the next quote in some texts."""
        for _ in range(_MOST_STEPS):
            count = _quote_in_pairs(self._pairs[at[rows]])
            at[rows] += count
            rows = rows[count == _PAIR]
            if not len(rows):
                return
        self._differs[rows] = True

    def _skip_digits(self, words: np.ndarray, width: int = 8) -> tuple[np.ndarray, np.ndarray]:
        """
        Skip digits, and return their number and their value.

        ``words`` has the first digits, in as many bytes as ``width``.
        """
        count = _digits(words)
        value = _value(words, count)
        at = self._at + count
        rows = np.flatnonzero(count == width) if (count == width).any() else ()
        for _ in range(3):
            if not len(rows):
                break
            words = self._words[at[rows]]
            more = _digits(words)
            value[rows] = value[rows] * _POWERS[more] + _value(words, more)
            at[rows] += more
            rows = rows[more == 8]
        count, self._at = at - self._at, at
        return count, value

    def _skip_number(self, kind: str) -> Values:
        start = self._at
        pairs = self._pairs[start].view(np.uint64)
        is_negative = (pairs[::2] & _BYTE) == ord("-")
        has_signs = bool(is_negative.any())
        if has_signs:
            self._at = start + is_negative
            pairs = self._pairs[self._at].view(np.uint64)
        words = pairs[::2].copy()
        count, value = self._skip_digits(words)
        is_zero = (words & _BYTE) == ord("0")
        self._differs |= (count == 0) | (is_zero & (count > 1)) | (count > _MOST_DIGITS)
        if kind == "integer":  # A point differs from the next constant.
            parsed = value.view(np.int64)
        else:
            # The bytes after the digits, which are in the same two words.
            shift = (np.minimum(count, 8) << 3).astype(np.uint64)
            rest = (words >> shift) | (pairs[1::2] << (np.uint64(64) - shift))
            if count.max(initial=0) > 8:
                rest = self._words[self._at]
            digits, value = self._skip_fraction(rest, value)
            if kind != "number" or (count + digits).max(initial=0) > _EXACT_DIGITS:
                return Values(start, self._at)
            # Both are exact, so the quotient is rounded once, as by any other parser.
            parsed = value.astype(np.float64) / _DOUBLE_POWERS[digits]
        if has_signs:
            parsed = np.where(is_negative, -parsed, parsed)
        return Values(start, self._at, parsed)

    def _skip_fraction(self, words: np.ndarray, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Skip a point and digits, if any. Returns their number, and all digits as an integer."""
        end = self._at
        is_point = (words & _BYTE) == ord(".")
        if not is_point.any():
            return np.zeros(len(end), np.int64), value
        self._at = end + 1
        digits, fraction = self._skip_digits(words >> np.uint64(8), width=7)
        self._differs |= is_point & ((digits == 0) | (digits > _MOST_DIGITS))
        if digits.max(initial=0) > _MOST_DIGITS or not is_point.all():
            digits = np.where(is_point, np.minimum(digits, _MOST_DIGITS), 0)
            fraction = np.where(is_point, fraction, 0)
            self._at = np.where(is_point, self._at, end)
        return digits, value * _POWERS[digits] + fraction

    def _skip_literal(self) -> Values:
        start = self._at
        words = self._words[start]
        head, five = words & np.uint64(0xFFFFFFFF), words & np.uint64(0xFFFFFFFFFF)
        is_null, is_true = head == _number(b"null"), head == _number(b"true")
        is_false = five == _number(b"false")
        self._differs |= ~(is_null | is_true | is_false)
        self._at = start + 4 + is_false
        return Values(start, self._at, is_true, is_null)

    def _skip_time(self) -> None:
        """Compare the punctuation of a time: a fraction of up to six digits, and UTC."""
        start = self._at
        both = self._pairs[start].view(np.uint64)
        self._compare(both[::2], b"    -  -", b"\0\0\0\0\xff\0\0\xff")
        self._compare(both[1::2], b"  T  :  ", b"\0\0\xff\0\0\xff\0\0")
        last = self._words[start + 16]
        self._compare(last, b":")
        self._skip_string(20)
        tail = self._words[self._at - 8]
        is_zulu = tail >> np.uint64(56) == ord("Z")
        is_offset = tail >> np.uint64(16) == _number(b"+00:00")
        fraction = self._at - start - np.where(is_zulu, 20, 25)
        is_point = (last >> np.uint64(24)) & _BYTE == ord(".")
        has_digits = is_point & (fraction > 1) & (fraction < 8)
        self._differs |= ~((is_zulu | is_offset) & ((fraction == 0) | has_digits))


def _value(words: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Return the value of leading digits, pairwise: those of two, four and eight."""
    digits = (words << ((8 - count) << 3).astype(np.uint64)) & np.uint64(0x0F0F0F0F0F0F0F0F)
    twos = ((digits * np.uint64(2561)) >> np.uint64(8)) & np.uint64(0x00FF00FF00FF00FF)
    fours = ((twos * np.uint64(6553601)) >> np.uint64(16)) & np.uint64(0x0000FFFF0000FFFF)
    return (fours * np.uint64(42949672960001)) >> np.uint64(32)


def _quote(words: np.ndarray) -> np.ndarray:
    """Return the number of bytes before the first quote, 8 if there is none."""
    found = words ^ _QUOTES
    return _leading((found - _ONES) & ~found & _HIGHS)


def _quote_in_pairs(pairs: np.ndarray) -> np.ndarray:
    """Return the number of bytes before the first quote, 16 if there is none."""
    counts = _quote(pairs.view(np.uint64))
    first, second = counts[::2], counts[1::2]
    return first + second * (first == 8)


def _digits(words: np.ndarray) -> np.ndarray:
    """Return the number of leading digits, up to 8."""
    return _leading(((words.view(np.uint8) - np.uint8(48)) < 10).view(np.uint64) ^ _ONES)


def _leading(marks: np.ndarray) -> np.ndarray:
    """Return the number of bytes before the first marked one, 8 if there is none."""
    lowest = marks & (~marks + _ONE)
    return (np.bitwise_count(lowest - _ONE) >> 3).astype(np.int64)


def _number(text: bytes) -> np.uint64:
    return np.uint64(int.from_bytes(text, "little"))
