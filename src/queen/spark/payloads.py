"""Payloads as columns of their own: JSON objects read into Arrow structs."""

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
"""Of a decimal: a number that is too long for one of more becomes another one."""


def check_fields(fields: T.StructType, name: str = "schema") -> None:
    """Raise InvalidOption for types that Arrow does not read as Spark does, or not at all."""
    for field in fields.fields:
        at = f"{name}.{field.name}"
        if not field.nullable:
            raise errors.InvalidOption(f"{at}: a payload may lack it, so it cannot be `not null`")
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
        f"{at}: {type_.simpleString()} is not read here; take payload as a string, without the"
        " option schema, and apply from_json to it"
    )


def parse_payloads(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with its payloads as the schema has them; null where one does not fit."""
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
        # Some do not fit: halve until they are found.
        if len(payloads) == 1:
            return pa.nulls(1, wanted)
        middle = len(payloads) // 2
        halves = [_parse(payloads[:middle], wanted), _parse(payloads[middle:], wanted)]
        return pa.concat_arrays(halves)


def _parse_lines(payloads: pa.Array, wanted: pa.StructType) -> pa.Array:
    # Of lines that are all `null` Arrow's reader dies, and among others it reads an empty object.
    is_null = pc.equal(pc.ascii_trim_whitespace(payloads), "null")
    # A line end is white space between the tokens of JSON: in strings it is escaped.
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
