"""Parse JSON payloads into Arrow structs."""

# pyright: basic, reportAttributeAccessIssue=false
from functools import lru_cache
from typing import Annotated, Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from msgspec import Meta
from pyspark.sql import types as T

from queen import errors

_READ: Final = (
    *(T.BooleanType, T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.FloatType),
    *(T.DoubleType, T.StringType, T.TimestampType, T.TimestampNTZType),
)
_MOST_DIGITS: Final = 18
"""Maximum precision of a decimal. With more, Arrow misreads numbers that are too long."""
_FEW: Final = 8
"""Payloads that are parsed one by one if one of them doesn't fit."""
_DAY: Final = r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_TIME: Final[Any] = Annotated[str, Meta(pattern=rf"^{_DAY}([ T]([01][0-9]|2[0-3])|$)")]
"""Strings that begin like every time that Arrow reads."""


def check_fields(fields: T.StructType, name: str = "schema") -> None:
    """Raise InvalidOption for types that Arrow can't read, or reads differently from Spark."""
    for field in fields.fields:
        at = f"{name}.{field.name}"
        if not field.nullable:
            raise errors.InvalidOption(f"{at}: remove `not null`, because a payload may lack it")
        type_ = field.dataType
        while isinstance(type_, T.ArrayType):
            type_ = type_.elementType
        if isinstance(type_, T.StructType):
            check_fields(type_, at)
        elif isinstance(type_, T.DecimalType):
            if type_.precision > _MOST_DIGITS:
                raise _unread(at, type_)
        elif not isinstance(type_, _READ):
            raise _unread(at, type_)


def _unread(at: str, type_: T.DataType) -> errors.InvalidOption:
    return errors.InvalidOption(
        f"{at}: {type_.simpleString()} is not supported; remove the option schema, and apply"
        " from_json to the string payload"
    )


def parse_payloads(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert payloads to the schema. Payloads that don't fit become null."""
    at = schema.get_field_index("payload")
    if not batch.num_rows:
        return pa.RecordBatch.from_pylist([], schema=schema)
    parsed = _parse(batch.column(at), schema.field(at).type)
    columns = [parsed if each == at else column for each, column in enumerate(batch.columns)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _parse(payloads: pa.Array, wanted: pa.StructType) -> pa.Array:
    try:
        return _parse_lines(payloads, wanted)
    except pa.ArrowInvalid:
        # Arrow doesn't return the payloads that don't fit. A search for each parses others many
        # times, so the payloads that certainly don't fit are left out first.
        may_fit = pa.array(_may_fit(payloads, wanted), pa.bool_())
    parsed = _search(payloads.filter(may_fit), wanted)
    place = pc.if_else(may_fit, pc.subtract(pc.cumulative_sum(may_fit.cast(pa.int64())), 1), None)
    return parsed.take(place)


def _search(payloads: pa.Array, wanted: pa.StructType) -> pa.Array:
    """Split payloads until those that don't fit are found."""
    if not len(payloads):
        return pa.nulls(0, wanted)
    try:
        return _parse_lines(payloads, wanted)
    except pa.ArrowInvalid:
        if len(payloads) == 1:
            return pa.nulls(1, wanted)
        size = 1 if len(payloads) <= _FEW else -(-len(payloads) // 2)
        starts = range(0, len(payloads), size)
        return pa.concat_arrays([_search(payloads[at : at + size], wanted) for at in starts])


def _may_fit(payloads: pa.Array, wanted: pa.StructType) -> list[bool]:
    """Whether each payload may fit. False if it certainly has another type."""
    decode = _decoder(wanted).decode
    found: list[bool] = []
    for text in payloads.view(pa.binary()).to_pylist():
        try:
            decode(text)
            found.append(True)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            # Other errors, such as one of a number's range, are left to Arrow.
            found.append(not str(error).startswith("Expected"))
    return found


@lru_cache(maxsize=16)
def _decoder(wanted: pa.StructType) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_python_type(wanted))


def _python_type(type_: pa.DataType) -> Any:  # noqa: ANN401 - types
    """Return a type that is at least as wide as what Arrow reads."""
    if pa.types.is_struct(type_):
        # A TypedDict would be simpler, but msgspec doesn't find keys in it that are not ASCII.
        names = {f"p{number}": field.name for number, field in enumerate(type_)}
        types = [_python_type(field.type) for field in type_]
        fields: list[Any] = [(name, each, None) for name, each in zip(names, types, strict=True)]
        return msgspec.defstruct("Payload", fields, rename=names, gc=False) | None
    if pa.types.is_list(type_):
        return list[_python_type(type_.value_type)] | None
    if pa.types.is_timestamp(type_):
        return _TIME | None
    if pa.types.is_integer(type_):
        return int | None
    if pa.types.is_floating(type_):
        return float | None
    if pa.types.is_boolean(type_):
        return bool | None
    return str | None if pa.types.is_string(type_) else Any


def _parse_lines(payloads: pa.Array, wanted: pa.StructType) -> pa.Array:
    # Arrow crashes if all lines are `null`, and otherwise reads `null` as an empty object.
    is_null = pc.equal(pc.ascii_trim_whitespace(payloads), "null")
    # A raw newline in JSON can only be white space, because strings escape it.
    texts = pc.if_else(is_null, "{}", pc.replace_substring(payloads, "\n", " "))
    whole = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    lines = pc.binary_join(whole, "\n")[0].as_buffer()
    table = pj.read_json(
        pa.BufferReader(lines),
        read_options=pj.ReadOptions(use_threads=False, block_size=lines.size + 1),
        parse_options=pj.ParseOptions(
            explicit_schema=pa.schema(list(wanted)), unexpected_field_behavior="ignore"
        ),
    )
    if table.num_rows != len(payloads):
        raise pa.ArrowInvalid("a payload is not one object")
    columns = [column.combine_chunks() for column in table.columns]
    return pa.StructArray.from_arrays(columns, fields=list(wanted), mask=is_null)
