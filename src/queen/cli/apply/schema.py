"""The JSON Schema of manifests, for completion and checks in editors."""

import gc
from typing import Any, Final

import msgspec

from queen.cli.apply.manifest import Queue, fields_of
from queen.client.options import MILLIS, SECONDS
from queen.wire.access import TokenRequest
from queen.wire.messages import Manager
from queen.wire.resources import ScheduleRequest

_REF: Final = "#/$defs/{name}"
_DURATION: Final = {
    "type": "string",
    "pattern": r"^\s*[0-9]+(\.[0-9]+)?(ms|s|m|h|d)\s*$",
    "description": "A duration with a unit: 500ms, 30s, 5m, 2h, 1d.",
}
_SECTIONS: Final = {
    "queues": (Queue, "Queues by name. An absent option has its default."),
    "schedules": (ScheduleRequest, "Schedules of recurring messages, by name."),
    "keys": (TokenRequest, "API keys by name. Secrets are never part of a manifest."),
}


def schema() -> dict[str, Any]:
    """Build the schema from the structs that check requests."""
    types: list[Any] = [type_ for type_, _ in _SECTIONS.values()]
    (manager, *refs), definitions = msgspec.json.schema_components(
        [Manager, *types], ref_template=_REF
    )
    # Without this, msgspec 0.22 crashes some processes at exit. See server/http/openapi.py.
    gc.freeze()
    for type_ in types:
        _restrict(definitions[type_.__name__], fields_of(type_))
    for name in ("RateLimit", Queue.__name__, ScheduleRequest.__name__):
        _accept_durations(definitions[name]["properties"])
    definitions[Queue.__name__] = {"anyOf": [definitions[Queue.__name__], {"type": "null"}]}
    sections = {
        name: {
            "type": ["object", "null"],
            "description": text,
            "additionalProperties": ref,
        }
        for (name, (_, text)), ref in zip(_SECTIONS.items(), refs, strict=True)
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Queen manifest",
        "description": "Queues, schedules and API keys for `queen apply`.",
        "type": "object",
        "properties": {"manager": manager, **sections},
        "additionalProperties": False,
        "$defs": definitions,
    }


def _restrict(definition: dict[str, Any], names: list[str]) -> None:
    """Remove fields that a manifest cannot set."""
    properties = definition["properties"]
    definition["properties"] = {name: properties[name] for name in names}
    # A payload that is left out is null.
    definition["required"] = [
        name for name in definition.get("required", ()) if name in names and name != "payload"
    ]


def _accept_durations(properties: dict[str, Any]) -> None:
    """Accept texts such as 30s in addition to numbers."""
    for name in {*MILLIS, *SECONDS, "durationMillis", "ttlSeconds"} & properties.keys():
        plain = properties[name]
        choices = plain.pop("anyOf", None) or [dict(plain)]
        kept = {key: plain[key] for key in ("default", "description") if key in plain}
        properties[name] = {"anyOf": [*choices, _DURATION], **kept}
