"""The JSON Schema of a queue becomes columns."""

# pyright: basic
import json
from typing import Any

import pyarrow as pa
import pytest

from queen import errors
from queen.arrow.json_schema import arrow_type, parse_schema

TIME = pa.timestamp("us", "UTC")


def column(schema: Any, **root: Any) -> pa.DataType:  # noqa: ANN401
    """The type of a property with this schema."""
    whole = {"type": "object", "properties": {"p": schema}, **root}
    return arrow_type(parse_schema(json.dumps(whole), "orders")).field("p").type


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        ({"type": "string"}, pa.string()),
        ({"type": "string", "format": "email"}, pa.string()),
        ({"type": "string", "format": "date-time"}, TIME),
        ({"type": "string", "format": "date"}, pa.date32()),
        ({"type": "integer", "minimum": 3}, pa.int64()),
        ({"type": "number"}, pa.float64()),
        ({"type": ["integer", "number"]}, pa.float64()),
        ({"type": "boolean"}, pa.bool_()),
        ({"type": ["integer", "null"]}, pa.int64()),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, pa.int64()),
        ({"allOf": [{"type": "integer"}]}, pa.int64()),
        ({"enum": ["a", "b"]}, pa.string()),
        ({"enum": [1, 2, None]}, pa.int64()),
        ({"enum": [1, 2.5]}, pa.float64()),
        ({"const": True}, pa.bool_()),
        ({"type": "array", "items": {"type": "integer"}}, pa.list_(pa.int64())),
        (
            {"type": "object", "properties": {"x": {"type": "number"}}},
            pa.struct([("x", pa.float64())]),
        ),
    ],
)
def test_a_clear_type_is_a_column(schema: Any, wanted: pa.DataType) -> None:  # noqa: ANN401
    found = column(schema)
    assert found == wanted or (pa.types.is_list(found) and found.value_type == wanted.value_type)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        True,
        {"type": ["string", "integer"]},
        {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        {"enum": ["a", 1]},
        {"type": "object"},
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "array"},
        {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "string"}},
        {"$ref": "#/nowhere"},
        {"$ref": "https://example.com/other"},
    ],
)
def test_anything_else_is_json_text(schema: Any) -> None:  # noqa: ANN401
    whole = {"properties": {"p": schema}}
    found = parse_schema(json.dumps(whole), "orders")

    assert found.properties[0].type.kind == "json"
    assert column(schema) == pa.string()


def test_references_are_followed_until_they_repeat() -> None:
    tree = {
        "type": "object",
        "properties": {"value": {"type": "integer"}, "next": {"$ref": "#/$defs/tree"}},
    }

    found = column({"$ref": "#/$defs/tree"}, **{"$defs": {"tree": tree}})

    assert found.field("value").type == pa.int64()
    assert found.field("next").type == pa.string()


def test_names_that_tables_do_not_allow_have_no_field() -> None:
    names = ["id", "ID", "a.b", "", "a b", "x;y"]
    schema = {"properties": {name: {"type": "string"} for name in names}}

    found = parse_schema(json.dumps(schema), "orders")

    assert [each.name for each in found.properties] == ["id"]


@pytest.mark.parametrize(
    "text", [None, "true", "{}", '{"type": "array"}', '{"properties": {}}', '{"type": "object"}']
)
def test_a_schema_without_properties_is_rejected(text: str | None) -> None:
    with pytest.raises(errors.InvalidOption, match="orders has no schema with properties"):
        parse_schema(text, "orders")
