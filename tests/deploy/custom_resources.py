"""Validation of custom resources, with the schemas in tests/deploy/schemas."""

import functools
import json
from pathlib import Path
from typing import Any, cast

import jsonschema_rs

from tests.deploy.files import Object

SCHEMAS = Path(__file__).parent / "schemas"


@functools.cache
def schemas() -> dict[tuple[str, str], jsonschema_rs.Validator]:
    """Validators by apiVersion and kind."""
    found: dict[tuple[str, str], jsonschema_rs.Validator] = {}
    for path in SCHEMAS.glob("*.json"):
        definition = json.loads(path.read_text("utf-8"))
        schema = _closed(definition["schema"])
        schema["properties"]["metadata"] = {"type": "object"}
        key = (definition["apiVersion"], definition["kind"])
        found[key] = jsonschema_rs.validator_for(schema)
    return found


def validate(item: Object) -> None:
    """Raise if a custom resource has an unknown field or a wrong value."""
    schemas()[item["apiVersion"], item["kind"]].validate(item)


def _closed(schema: Any) -> Any:  # noqa: ANN401 - of JSON
    """Forbid unknown properties, as the API server reports them with strict validation."""
    if isinstance(schema, list):
        return [_closed(each) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    node = cast("dict[str, Any]", schema)
    closed = {key: _closed(value) for key, value in node.items()}
    is_open = node.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in node
    if node.get("type") == "object" and "properties" in node and not is_open:
        closed["additionalProperties"] = False
    return closed
