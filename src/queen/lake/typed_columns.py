"""
The typed columns of a lake's table: `data` with the properties of a payload, and `misfit`.

A field keeps its type forever. If the type of a property changes, its values get a new field, named
after the type, such as `total_string`. So no change of a schema loses data or stops an archive.
"""

# pyright: basic, reportAttributeAccessIssue=false
from collections.abc import Callable, Iterator
from itertools import chain, count
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa

from queen import errors
from queen.arrow.json_schema import JSON_TEXT, Property, Type, arrow_type
from queen.arrow.payloads import PayloadParser

DATA: Final = "data"
MISFIT: Final = "misfit"
_WIDER: Final = {pa.int32(): pa.int64(), pa.float32(): pa.float64()}
"""Types of fields that another tool created, and that the table can change without new files."""


class TypedColumns(NamedTuple):
    """How to write typed columns, sent to tasks."""

    type: Type
    schema: pa.Schema
    """All columns of a file."""

    def parser(self) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        """Return a function that adds the typed columns to messages."""
        parser = PayloadParser(self.type)

        def parse(batch: pa.RecordBatch) -> pa.RecordBatch:
            parts = list(parser.parse(batch.column("payload")))
            data, misfit = (pa.concat_arrays(each) for each in zip(*parts, strict=True))
            typed = {DATA: align(data, self.schema.field(DATA).type), MISFIT: misfit}
            columns = [
                typed[name] if name in typed else batch.column(name) for name in self.schema.names
            ]
            return pa.RecordBatch.from_arrays(columns, schema=self.schema)

        return parse


def fit(type_: Type, table: pa.Schema, place: str) -> Type:
    """Return the type with the fields of this table, existing or new. Raises InvalidOption."""
    if MISFIT in table.names and not pa.types.is_string(table.field(MISFIT).type):
        raise _not_ours(place, MISFIT, "a string")
    if DATA not in table.names:
        return type_
    found = _fit(type_, table.field(DATA).type)
    if found is None:
        raise _not_ours(place, DATA, "a struct")
    return found


def wanted_columns(type_: Type) -> pa.Schema:
    """Return the columns that a table needs for payloads of this type."""
    return pa.schema([pa.field(DATA, arrow_type(type_)), pa.field(MISFIT, pa.string())])


def has_columns(table: pa.Schema, wanted: pa.Schema) -> bool:
    """Whether a table has all wanted columns and fields."""
    return _covers(pa.struct(list(table)), pa.struct(list(wanted)))


def align(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return an array with the fields of a type. Missing ones are null."""
    if array.type.equals(wanted, check_metadata=True):
        return array
    if pa.types.is_struct(wanted):
        places = [find_field(array.type, field) for field in wanted]
        columns = [
            pa.nulls(len(array), field.type)
            if place is None
            else align(array.field(place), field.type)
            for place, field in zip(places, wanted, strict=True)
        ]
        return pa.StructArray.from_arrays(columns, fields=list(wanted), mask=array.is_null())
    if pa.types.is_list(wanted) and not pa.types.is_large_list(array.type):
        items = align(array.values, wanted.value_type)
        return pa.ListArray.from_arrays(array.offsets, items, type=wanted, mask=array.is_null())
    return array.cast(wanted)


def find_field(fields: pa.Schema | pa.StructType, wanted: pa.Field) -> int | None:
    """Return the place of a field: by its number, if the table has numbers, or by its name."""
    number = _number(wanted)
    for place, field in enumerate(fields):
        there = _number(field)
        is_same = field.name == wanted.name if None in (number, there) else there == number
        if is_same:
            return place
    return None


def _number(field: pa.Field) -> bytes | None:
    return (field.metadata or {}).get(b"PARQUET:field_id")


def small_type(type_: pa.DataType) -> pa.DataType:
    """Return a type with 32-bit offsets, as messages have them. Files are the same with both."""
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(small_type(field.type)) for field in type_])
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        item = type_.value_field
        return pa.list_(item.with_type(small_type(item.type)))
    return pa.string() if pa.types.is_large_string(type_) else type_


def _fit(type_: Type, table: pa.DataType, *, is_json: bool = False) -> Type | None:
    """Return the type with existing or new fields, or None if the table's type is another."""
    if type_.kind == "struct":
        if not pa.types.is_struct(table):
            return None
        return msgspec.structs.replace(type_, properties=_properties(type_, table))
    if type_.items is not None:
        if not pa.types.is_list(table):
            return None
        items = _fit(type_.items, table.value_type)
        return None if items is None else msgspec.structs.replace(type_, items=items)
    is_same = arrow_type(type_) == _WIDER.get(table, table) and (type_.kind == "json") == is_json
    return type_ if is_same else None


def _properties(type_: Type, table: pa.StructType) -> tuple[Property, ...]:
    """Choose the field of each property. Names are compared as Spark does, without case."""
    fields = {field.name.casefold(): field for field in table}
    names = {each.name.casefold() for each in type_.properties}
    return tuple(_choose(each, fields, names) for each in type_.properties)


def _choose(property_: Property, fields: dict[str, pa.Field], names: set[str]) -> Property:
    for name in _names(property_):
        if name != property_.name and name.casefold() in names:
            continue
        field = fields.get(name.casefold())
        if field is None:
            return msgspec.structs.replace(property_, field=name)
        found = _fit(property_.type, field.type, is_json=_is_json(field))
        if found is not None:
            return msgspec.structs.replace(property_, field=field.name, type=found)
    raise AssertionError


def _names(property_: Property) -> Iterator[str]:
    named = f"{property_.name}_{property_.type.kind}"
    return chain((property_.name, named), (f"{named}_{number}" for number in count(2)))


def _is_json(field: pa.Field) -> bool:
    given = (field.metadata or {}).values()
    return JSON_TEXT.encode() in given


def _covers(table: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_struct(wanted):
        return pa.types.is_struct(table) and all(
            table.get_field_index(field.name) >= 0
            and _covers(table.field(field.name).type, field.type)
            for field in wanted
        )
    if pa.types.is_list(wanted):
        return pa.types.is_list(table) and _covers(table.value_type, wanted.value_type)
    return table == wanted


def _not_ours(place: str, column: str, expected: str) -> errors.InvalidOption:
    return errors.InvalidOption(
        f"the table {place} has a column {column} that is not {expected}, so it can't be typed:"
        " rename that column, or archive under another name and location"
    )
