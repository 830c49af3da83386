"""
Parse payloads into typed columns, with a reason for each payload that doesn't fit.

The decoder is strict: `"42"` and 1.5 are not integers, and a value that a column can't represent
doesn't fit. Properties that the schema doesn't name are ignored.
"""

# pyright: basic, reportAttributeAccessIssue=false
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Meta, Raw

from queen.arrow.json_schema import Type, arrow_field, arrow_type
from queen.arrow.layouts import Layout
from queen.arrow.matching import Scratch, Texts

_BLOCK: Final = 32768
"""Payloads that are parsed at once. More would exceed the cache of a processor."""
_LEAST_ROWS: Final = 256
"""Payloads that are worth learning a layout."""
_LAYOUTS: Final = 8
"""Layouts per block."""
_SAMPLES: Final = 4
_MOST_OFTEN: Final = 0.5
_SKIPPED: Final = 16
"""Blocks that are not parsed by layouts after one in which most payloads had none."""

_MOST_REASON: Final = 500
_MOST_EXACT: Final = 2**53
"""Up to here, a double represents all integers."""
_LEAST, _MOST = -(2**63), 2**63 - 1
_INTEGER: Final = Annotated[int, Meta(ge=_LEAST, le=_MOST)]
_PYTHON: Final[dict[str, Any]] = {
    "string": str,
    "number": float,
    "boolean": bool,
    "timestamp": Annotated[datetime, Meta(tz=True)],
    "date": date,
    "json": Raw,
}


class Parsed(NamedTuple):
    """The columns of some payloads."""

    data: pa.StructArray
    """Null if the payload doesn't fit."""
    misfit: pa.StringArray
    """Why the payload doesn't fit. Null if it does."""


class PayloadParser:
    """Parses payloads of one type."""

    def __init__(self, type_: Type) -> None:
        self._type = type_
        self._decode = msgspec.json.Decoder(_python_type(type_, _INTEGER)).decode
        # For integers with a fraction of zero, which JSON Schema allows.
        self._decode_floats = msgspec.json.Decoder(_python_type(type_, int | float)).decode

        self._layout: Layout | None = None
        self._scratch = Scratch()
        self._skipped_blocks = 0

    def parse(self, texts: pa.StringArray) -> Iterator[Parsed]:
        """Yield the columns of payloads, in the same order, some thousands at a time."""
        for start in range(0, max(len(texts), 1), _BLOCK):
            yield self._parse_block(texts[start : start + _BLOCK])

    def parse_exactly(self, texts: pa.Array) -> Parsed:
        """Return the columns of payloads, decoded one by one."""
        values: list[Any] = []
        reasons: list[str | None] = []
        for text in texts.view(pa.binary()).to_pylist():
            value, reason = self._read(text)
            values.append(value)
            reasons.append(reason)
        if all(each is None for each in values):
            data = pa.nulls(len(values), arrow_type(self._type))
        else:
            data = _column(values, self._type)
        return Parsed(data, pa.array(reasons, pa.string()))

    def _parse_block(self, texts: pa.Array) -> Parsed:
        """Parse payloads by their layouts, and those without one of the layouts one by one."""
        rest = np.arange(len(texts))
        data: list[pa.Array] = []
        rows: list[np.ndarray] = []
        while len(rest) >= _LEAST_ROWS and len(data) < _LAYOUTS and not self._skipped_blocks:
            some = texts if len(rest) == len(texts) else texts.take(pa.array(rest))
            parsed = self._parse_by_layout(some, None if data else self._layout)
            if parsed is None:
                break
            found, is_match = parsed
            data.append(found)
            rows.append(np.where(is_match, rest, -1))
            rest = rest[~is_match]
        # If each payload has another layout, learning costs more than it saves.
        if self._skipped_blocks:
            self._skipped_blocks -= 1
        elif len(rest) > len(texts) // 2:
            self._skipped_blocks = _SKIPPED
        others = self.parse_exactly(texts.take(pa.array(rest)))
        place = np.full(len(texts), -1)
        place[rest] = np.arange(len(rest))
        misfit = others.misfit.take(pa.array(place, mask=place < 0))
        if others.data.null_count < len(others.data) or not data:
            data.append(others.data)
            rows.append(rest)
        return Parsed(_joined(data, rows, len(texts)), misfit)

    def _parse_by_layout(
        self, texts: pa.Array, known: Layout | None
    ) -> tuple[pa.Array, np.ndarray] | None:
        """Return the data of payloads that have the layout of one of the first, if it fits."""
        layout = known or self._learn(texts)
        if layout is None:
            return None
        whole = Texts(texts, layout.padding, self._scratch)
        if not whole.is_valid():
            return None
        data, is_match = layout.parse(whole, whole.is_plain())
        if is_match.mean() > _MOST_OFTEN:
            self._layout = layout  # The next payloads probably have it too.
        return data, is_match

    def _learn(self, texts: pa.Array) -> Layout | None:
        samples = texts[:_SAMPLES].view(pa.binary()).to_pylist()
        fitting = (text for text in samples if self._read(text)[1] is None)
        return next((found for text in fitting if (found := Layout.learn(text, self._type))), None)

    def _read(self, text: bytes) -> tuple[Any, str | None]:
        """Return the value of a payload, or why it doesn't fit."""
        try:
            return self._decode(text), None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            failure = str(error)
            if "got `float`" not in failure:
                return None, _reason(failure)
        try:
            return _whole(self._decode_floats(text), self._type), None
        except (msgspec.DecodeError, UnicodeDecodeError, _Fraction):
            return None, _reason(failure)


class _Fraction(Exception):
    """A number is not an integer, or may have been rounded."""


def _python_type(type_: Type, integer: Any) -> Any:  # noqa: ANN401 - types
    if type_.kind == "struct":
        # A TypedDict would be simpler, but msgspec doesn't find keys in it that are not ASCII.
        fields: list[Any] = []
        for number, each in enumerate(type_.properties):
            field = (_attribute(number), _python_type(each.type, integer))
            fields.append(field if each.is_required else (*field, None))
        names = {_attribute(number): each.name for number, each in enumerate(type_.properties)}
        python = msgspec.defstruct("Payload", fields, kw_only=True, rename=names, gc=False)
    elif type_.items is not None:
        python = list[_python_type(type_.items, integer)]
    elif type_.kind == "integer":
        python = integer
    else:
        python = _PYTHON[type_.kind]
    # JSON text may be null in any case, and msgspec allows no union with it.
    return python | None if type_.is_nullable and type_.kind != "json" else python


def _whole(value: Any, type_: Type) -> Any:  # noqa: ANN401 - JSON
    """Return a value with integers instead of doubles. Raises _Fraction."""
    if value is None:
        return None
    if type_.kind == "integer":
        if isinstance(value, float) and not (value.is_integer() and abs(value) <= _MOST_EXACT):
            raise _Fraction
        if not _LEAST <= value <= _MOST:
            raise _Fraction
        return int(value)
    if type_.kind == "struct":
        for number, member in enumerate(type_.properties):
            name = _attribute(number)
            setattr(value, name, _whole(getattr(value, name), member.type))
        return value
    if type_.items is not None:
        return [_whole(each, type_.items) for each in value]
    return value


def _reason(error: str) -> str:
    """Return the path and the reason, such as `$.total: Expected `float`, got `str``."""
    reason, _, path = error.rpartition(" - at ")
    if not reason:
        return path[:_MOST_REASON]
    return f"{path.strip('`')}: {reason}"[:_MOST_REASON]


def _column(values: Sequence[Any], type_: Type) -> pa.Array:
    """Convert values to an Arrow array."""
    if type_.kind == "struct":
        columns = [
            _column(_attributes(values, _attribute(number)), member.type)
            for number, member in enumerate(type_.properties)
        ]
        fields = [arrow_field(member) for member in type_.properties]
        return pa.StructArray.from_arrays(columns, fields=fields, mask=_is_null(values))
    if type_.items is not None:
        ends = np.cumsum([0, *(len(each or ()) for each in values)])
        items = _column([item for each in values for item in each or ()], type_.items)
        return pa.ListArray.from_arrays(
            pa.array(ends, pa.int32()), items, type=arrow_type(type_), mask=_is_null(values)
        )
    if type_.kind == "json":
        texts = [None if each is None else str(each, "utf-8", "replace") for each in values]
        values = [None if each == "null" else each for each in texts]
    return pa.array(values, arrow_type(type_))


def _joined(data: Sequence[pa.Array], rows: Sequence[np.ndarray], count: int) -> pa.Array:
    """Return data in the order of its rows. Rows without any are null."""
    if len(data) == 1 and len(data[0]) == count:
        return data[0]
    place = np.full(count + 1, -1)
    at = np.concatenate(rows)
    place[at] = np.arange(len(at))  # Those with row -1 go to the end, which is cut off.
    place = place[:count]
    return pa.concat_arrays(data).take(pa.array(place, mask=place < 0))


def _attribute(number: int) -> str:
    """Return the name of a decoded property, because a JSON name may not be one of Python."""
    return f"p{number}"


def _attributes(values: Sequence[Any], name: str) -> list[Any]:
    return [None if each is None else getattr(each, name) for each in values]


def _is_null(values: Sequence[Any]) -> pa.BooleanArray:
    return pa.array([each is None for each in values], pa.bool_())
