"""
Parse many JSON texts of the same layout at once.

A producer writes its messages with the same keys in the same order, so their texts differ only in
the values. A `Layout` is learned from one text: the constant parts, and the slots between them. All
texts are then compared with the constants, eight bytes at a time, and the values are cut out of the
slots. Every byte of a text is either compared or checked as part of a value. A text that differs in
any way is not accepted, and another parser judges it.
"""

# pyright: basic, reportAttributeAccessIssue=false
import re
from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from queen.arrow.json_schema import Type, arrow_field, arrow_type
from queen.arrow.matching import Match, Path, Slot, Texts, Values

_TOKEN: Final = re.compile(
    rb'"[^"\\\x00-\x1f]*"|-?[0-9][0-9.eE+-]*|true|false|null|[{}:,]|[ \t\r\n]+'
)
_SLOT_BYTES: Final = 64
_INTEGERS: Final = {"timestamp": pa.int64(), "date": pa.int32()}
_FIRST: Final = {"timestamp": -62_135_596_800_000_000, "date": -719_162}
"""The first moment of the year 1. Arrow also accepts the year 0."""
_DATE: Final = r"\d{3}[1-9]-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])"
_VALID: Final = {
    "date": f"^{_DATE}$",
    "timestamp": rf"^{_DATE}T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|\+00:00)$",
}
"""Only texts that are certainly valid. The other parser judges the rest."""


class Layout:
    """The constants and slots of texts that have the same keys in the same order."""

    def __init__(self, type_: Type, learner: "_Learner") -> None:
        self._type = type_
        constants = [*learner.constants, bytes(learner.constant)]
        self._constants = constants
        self._slots = learner.slots
        self._objects = learner.objects
        # A text that differs leads beyond its end, by the constants and some bytes per slot.
        self.padding = sum(map(len, constants)) + _SLOT_BYTES * (len(self._slots) + 1)
        """Bytes after the texts that are read, but not matched."""

    @classmethod
    def learn(cls, text: bytes, type_: Type) -> "Layout | None":
        """Return the layout of a text that fits the type. None if it has escapes or arrays."""
        learner = _Learner(type_)
        position = 0
        while position < len(text):
            token = _TOKEN.match(text, position)
            if token is None or not learner.read(token[0]):
                return None
            position = token.end()
        return cls(type_, learner)

    def parse(self, texts: Texts, is_plain: np.ndarray | bool) -> tuple[pa.Array, np.ndarray]:
        """Return the data of texts that have this layout, and which ones these are."""
        match = Match(texts)
        values: list[Values] = []
        for constant, slot in zip(self._constants, self._slots, strict=False):
            match.skip_constant(constant)
            values.append(match.skip_value(slot))
        match.skip_constant(self._constants[-1])
        is_match = match.is_whole() & is_plain
        columns: dict[Path, pa.Array] = {}
        parts = _Parts(texts, self._slots, values, is_match)
        for number, slot in enumerate(self._slots):
            if slot.type is None:
                continue
            if values[number].parsed is not None:
                columns[slot.path], is_match = _numbers(slot.type, values[number], is_match)
            else:
                columns[slot.path], is_match = parts.column(number, slot.type, is_match)
        return self._struct(self._type, (), columns, is_match), is_match

    def _struct(
        self, type_: Type, path: Path, columns: Mapping[Path, pa.Array], is_match: np.ndarray
    ) -> pa.Array:
        arrays = []
        for member in type_.properties:
            at = (*path, member.name)
            if at in columns:
                arrays.append(columns[at])
            elif at in self._objects:
                arrays.append(self._struct(member.type, at, columns, is_match))
            else:
                arrays.append(pa.nulls(len(is_match), arrow_type(member.type)))
        fields = [arrow_field(member) for member in type_.properties]
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=pa.array(~is_match))


class _Learner:
    """Splits a text, which is known to be valid, into constants and slots."""

    def __init__(self, type_: Type) -> None:
        self.constants: list[bytes] = []
        self.slots: list[Slot] = []
        self.constant = bytearray()
        self.objects: set[Path] = set()
        self._open: list[tuple[Path, Type | None]] = []
        self._keys: set[Path] = set()
        self._path: Path = ()
        self._types: dict[Path, Type | None] = {(): type_}
        self._is_key = False

    def read(self, token: bytes) -> bool:
        """Add a token. Returns False if texts with it have no layout."""
        if token == b"{":
            return self._open_object()
        if token == b"}":
            self._path, _ = self._open.pop()
        elif token == b",":
            self._path, self._is_key = self._open[-1][0], True
        elif token[:1] == b'"' and self._is_key:
            return self._add_key(token)
        elif token not in (b":", b",") and token.strip():
            return self._add_value(token)
        self.constant += token
        return True

    def _open_object(self) -> bool:
        type_ = self._types.get(self._path)
        if type_ is not None and type_.kind != "struct":
            return False  # JSON text.
        self._open.append((self._path, type_))
        self.objects.add(self._path)
        self._is_key = True
        self.constant += b"{"
        return True

    def _add_key(self, token: bytes) -> bool:
        parent, type_ = self._open[-1]
        name = token[1:-1].decode()
        self._path, self._is_key = (*parent, name), False
        if self._path in self._keys:
            return False
        self._keys.add(self._path)
        members = {} if type_ is None else {each.name: each.type for each in type_.properties}
        self._types[self._path] = members.get(name)
        self.constant += token
        return True

    def _add_value(self, token: bytes) -> bool:
        type_ = self._types.get(self._path)
        if not self._open or (type_ is not None and type_.kind in ("struct", "list")):
            return False
        is_string = token[:1] == b'"'
        is_literal = token in (b"true", b"false", b"null")
        kind = "string" if is_string else "literal" if is_literal else "number"
        self.constants.append(bytes(self.constant) + (b'"' if is_string else b""))
        self.slots.append(Slot(kind, self._path, type_))
        self.constant = bytearray(b'"' if is_string else b"")
        return True


class _Parts:
    """The texts in the slots, as one array of strings."""

    def __init__(
        self, texts: Texts, slots: list[Slot], values: list[Values], is_match: np.ndarray
    ) -> None:
        number = len(is_match)
        kinds = [
            "" if slot.type is None or each.parsed is not None else slot.type.kind
            for slot, each in zip(slots, values, strict=True)
        ]
        places = [place for place, kind in enumerate(kinds) if kind]
        width = 2 * len(places)
        self._order = {place: 2 * order for order, place in enumerate(places)}
        # Values and the bytes between them alternate, because Arrow's positions have no gaps.
        positions = np.empty((number, width), np.int32)
        for place, order in self._order.items():
            # A string of JSON text has its quotes.
            quote = int(kinds[place] == "json" and slots[place].token == "string")
            positions[:, order] = values[place].start - quote
            positions[:, order + 1] = values[place].end + quote
        self._differs = None if is_match.all() else ~is_match
        if self._differs is not None:
            positions[self._differs] = texts.starts[self._differs, None]
        self._firsts = np.arange(0, number * width, width or 1, dtype=np.int32)
        buffers = [None, pa.py_buffer(positions), pa.py_buffer(texts.data)]
        self._parts = pa.Array.from_buffers(pa.string(), max(positions.size - 1, 0), buffers)

    def column(self, place: int, type_: Type, is_match: np.ndarray) -> tuple[pa.Array, np.ndarray]:
        """Return the values of a slot, and which of them are valid."""
        kind, wanted = type_.kind, arrow_type(type_)
        if kind in ("string", "json"):
            # Where texts don't match, the struct is null, so that the string doesn't matter.
            return self._parts.take(pa.array(self._firsts + self._order[place])), is_match
        which = pa.array(self._firsts + self._order[place], mask=self._differs)
        values = self._parts.take(which)
        try:
            found = values.cast(wanted)
            if kind == "number":
                return found, is_match
            numbers = found.view(_INTEGERS[kind])
            if (pc.min(numbers).as_py() or 0) >= _FIRST[kind]:
                return found, is_match
            is_certain = pc.greater_equal(numbers, _FIRST[kind])
        except pa.ArrowInvalid:
            is_certain = pc.match_substring_regex(values, _VALID[kind])
        is_certain = pc.fill_null(is_certain, False)
        values = pc.if_else(is_certain, values, pa.scalar(None, pa.string()))
        return values.cast(wanted), is_match & is_certain.to_numpy(zero_copy_only=False)


def _numbers(type_: Type, values: Values, is_match: np.ndarray) -> tuple[pa.Array, np.ndarray]:
    """Return numbers and literals, and which of them are valid."""
    if values.is_null is None:
        return pa.array(values.parsed), is_match
    is_null, is_true = values.is_null, values.parsed
    if type_.kind == "json":
        assert is_true is not None
        picked = pa.array(is_true.astype(np.int8), mask=is_null)
        return pa.array(["false", "true"]).take(picked), is_match
    is_valid = is_match if type_.is_nullable else is_match & ~is_null
    if type_.kind == "boolean":
        return pa.array(is_true, mask=is_null if is_null.any() else None), is_valid
    return pa.nulls(len(is_null), arrow_type(type_)), is_valid & is_null
