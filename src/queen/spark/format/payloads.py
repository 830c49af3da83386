"""Parse JSON payloads into Arrow structs."""

# pyright: basic, reportAttributeAccessIssue=false
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from pyspark.sql import types as T

from queen import errors

_READ: Final = (
    *(T.BooleanType, T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.FloatType),
    *(T.DoubleType, T.StringType, T.TimestampType, T.TimestampNTZType),
)
_MOST_DIGITS: Final = 18
"""Maximum precision of a decimal. With more, Arrow misreads numbers that are too long."""


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
    parsed = _parse(batch.column(at), schema.field(at).type)
    columns = [parsed if each == at else column for each, column in enumerate(batch.columns)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _parse(payloads: pa.Array, wanted: pa.StructType) -> pa.Array:
    if not len(payloads):
        return pa.nulls(0, wanted)
    try:
        return _parse_lines(payloads, wanted)
    except pa.ArrowInvalid:
        # Some payloads don't fit: split until they are found.
        if len(payloads) == 1:
            return pa.nulls(1, wanted)
        middle = len(payloads) // 2
        halves = [_parse(payloads[:middle], wanted), _parse(payloads[middle:], wanted)]
        return pa.concat_arrays(halves)


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
