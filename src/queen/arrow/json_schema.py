"""
Translate the JSON Schema of a queue to column types.

Only types are translated. Rules about values, such as `minimum` or `pattern`, are checked by the
server at the push. A property without one clear type is stored as JSON text.
"""

# pyright: basic
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
import pyarrow as pa

from queen import errors

Kind = Literal[
    "string", "integer", "number", "boolean", "timestamp", "date", "json", "list", "struct"
]
_SCALARS: Final[Mapping[str, Kind]] = {
    "string": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
}
_FORMATS: Final[Mapping[str, Kind]] = {"date-time": "timestamp", "date": "date"}
_ARROW: Final[Mapping[str, pa.DataType]] = {
    "string": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", "UTC"),
    "date": pa.date32(),
    "json": pa.string(),
}
_UNUSABLE: Final = frozenset(" ,;{}()\n\t=.`\"'")
"""Characters that Delta, Iceberg or SQL don't allow in the name of a field, or need quotes for."""
JSON_TEXT: Final = "JSON text"
"""Description of a field, as which Iceberg (`doc`) and Delta (`comment`) store it."""


class Type(msgspec.Struct, frozen=True, kw_only=True):
    """The type of a value."""

    kind: Kind
    is_nullable: bool = False
    items: "Type | None" = None
    """The type of each element. None: not a list."""
    properties: tuple["Property", ...] = ()
    """The members of a struct."""


class Property(msgspec.Struct, frozen=True, kw_only=True):
    """A property of an object, and its field in the table."""

    name: str
    field: str
    type: Type
    is_required: bool = False


ANYTHING: Final = Type(kind="json", is_nullable=True)


def parse_schema(text: str | None, queue: str) -> Type:
    """Return the type of a queue's payloads. Raises InvalidOption if there are no properties."""
    schema = None if text is None else msgspec.json.decode(text)
    found = ANYTHING if not isinstance(schema, dict) else _Schema(schema).type_of(schema)
    if found.kind != "struct":
        raise errors.InvalidOption(
            f"queue {queue} has no schema with properties, which `typed` needs: set the queue"
            " option schema, or set typed to false"
        )
    return found


def arrow_type(type_: Type) -> pa.DataType:
    """Return the type in Arrow. Fields are optional, because later messages may lack them."""
    if type_.kind == "struct":
        return pa.struct([arrow_field(each) for each in type_.properties])
    if type_.items is not None:
        return pa.list_(pa.field("element", arrow_type(type_.items)))
    return _ARROW[type_.kind]


def arrow_field(property_: Property) -> pa.Field:
    """Return the field of a property."""
    is_json = property_.type.kind == "json"
    metadata = {"doc": JSON_TEXT, "comment": JSON_TEXT} if is_json else None
    return pa.field(property_.field, arrow_type(property_.type), metadata=metadata)


class _Schema:
    """A whole document, which its parts refer to."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root

    def type_of(self, schema: Any, seen: tuple[str, ...] = ()) -> Type:  # noqa: ANN401 - JSON
        """Return the type of a part. ``seen`` has the references that lead to it."""
        if not isinstance(schema, dict):
            return ANYTHING
        if isinstance(reference := schema.get("$ref"), str):
            # A type that contains itself has no finite columns.
            if reference in seen:
                return ANYTHING
            return self.type_of(self._find(reference), (*seen, reference))
        for word in ("anyOf", "oneOf", "allOf"):
            if word in schema and "type" not in schema and "properties" not in schema:
                return self._choice(schema[word], seen)
        if "enum" in schema or "const" in schema:
            given = schema["enum"] if "enum" in schema else [schema["const"]]
            return _enum(given if isinstance(given, list) else [])
        names = schema.get("type", "object" if "properties" in schema else None)
        kinds: set[str] = {names} if isinstance(names, str) else set(names or ())
        return self._named(schema, kinds - {"null"}, seen, is_nullable="null" in kinds)

    def _named(
        self, schema: dict[str, Any], kinds: set[str], seen: tuple[str, ...], *, is_nullable: bool
    ) -> Type:
        if kinds == {"integer", "number"}:
            kinds = {"number"}
        if len(kinds) != 1:
            return ANYTHING
        (name,) = kinds
        if name == "object":
            properties = self._properties(schema, seen)
            if not properties:
                return Type(kind="json", is_nullable=is_nullable)
            return Type(kind="struct", is_nullable=is_nullable, properties=properties)
        if name == "array":
            items = self.type_of(schema.get("items"), seen)
            if items.kind == "json" or "prefixItems" in schema:
                return Type(kind="json", is_nullable=is_nullable)
            return Type(kind="list", is_nullable=is_nullable, items=items)
        kind: Kind = _SCALARS.get(name, "json")
        if kind == "string":
            kind = _FORMATS.get(str(schema.get("format")), "string")
        return Type(kind=kind, is_nullable=is_nullable)

    def _properties(self, schema: dict[str, Any], seen: tuple[str, ...]) -> tuple[Property, ...]:
        given, required = schema.get("properties"), schema.get("required", ())
        found: list[Property] = []
        taken: set[str] = set()
        for name, each in (given if isinstance(given, dict) else {}).items():
            # Spark and others ignore case, so of `id` and `ID` only one can be a field.
            if not name or _UNUSABLE & set(name) or name.casefold() in taken:
                continue
            taken.add(name.casefold())
            found.append(
                Property(
                    name=name,
                    field=name,
                    type=self.type_of(each, seen),
                    is_required=name in required,
                )
            )
        return tuple(found)

    def _choice(self, given: Any, seen: tuple[str, ...]) -> Type:  # noqa: ANN401 - JSON
        """Return the only type of a choice, which may also have null."""
        options = [self.type_of(each, seen) for each in given if each != {"type": "null"}]
        if len(options) != 1:
            return ANYTHING
        has_null = len(given) > 1 or options[0].is_nullable
        return msgspec.structs.replace(options[0], is_nullable=has_null)

    def _find(self, reference: str) -> Any:  # noqa: ANN401 - JSON
        """Return the part that a reference names, or None."""
        found: Any = self._root
        for step in reference.removeprefix("#").split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, dict) else None
        return found if reference.startswith("#") else None


def _enum(values: list[Any]) -> Type:
    """Return the common type of values."""
    types = {type(each) for each in values if each is not None}
    kinds: dict[frozenset[type], Kind] = {
        frozenset({str}): "string",
        frozenset({bool}): "boolean",
        frozenset({int}): "integer",
        frozenset({float}): "number",
        frozenset({int, float}): "number",
    }
    return Type(kind=kinds.get(frozenset(types), "json"), is_nullable=None in values)
