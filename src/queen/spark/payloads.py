"""Payloads as columns of their own: JSON objects read into Arrow structs."""

# pyright: basic, reportAttributeAccessIssue=false
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj


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
    # A line end is white space between the tokens of JSON: in strings it is escaped.
    texts = pc.replace_substring(payloads, "\n", " ")
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
    return table.combine_chunks().to_struct_array().combine_chunks()
