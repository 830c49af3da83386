"""Fields of queues, schedules and API keys as JSON values, and their differences."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from queen.cli.apply.manifest import fields_of
from queen.wire.access import Token, TokenRequest
from queen.wire.options import QueueConfiguration, QueueOptions, plain
from queen.wire.resources import ScheduleDetail, ScheduleRequest

MASKED: Final = "(masked)"
MESSAGE: Final = ("payload", "headers", "ttlSeconds", "priority")
"""The fields of a schedule that are masked if its queue is encrypted."""
_OPTIONS: Final = [*fields_of(QueueOptions), "managedBy"]
_SCHEDULE: Final = [*fields_of(ScheduleRequest), "managedBy"]


class FieldChange(msgspec.Struct, frozen=True):
    """A field and its values. A value is None if the field is not set."""

    field: str
    old: Any
    new: Any


def queue_fields(queue: QueueConfiguration) -> dict[str, Any]:
    """Return all fields of a queue that a manifest can set, and its manager."""
    return {"namespace": queue.namespace, "task": queue.task, **option_fields(queue.options)}


def option_fields(options: QueueOptions) -> dict[str, Any]:
    """Return all options, by their names on the wire."""
    found: dict[str, Any] = msgspec.to_builtins(options)
    return {name: found[name] for name in _OPTIONS if name in found}


def schedule_fields(schedule: ScheduleRequest | ScheduleDetail) -> dict[str, Any]:
    """Return all fields of a schedule that a manifest can set, and its manager."""
    names = zip(schedule.__struct_fields__, schedule.__struct_encode_fields__, strict=True)
    found = {camel: getattr(schedule, name) for name, camel in names if camel in _SCHEDULE}
    found["payload"] = msgspec.json.decode(found["payload"])
    found["headers"] = found["headers"] or None
    return found


def key_fields(key: Token | TokenRequest) -> dict[str, Any]:
    """Return all fields of an API key that a manifest can set, and its manager; lists sorted."""
    ends: datetime | None = key.expires_at
    scopes: list[dict[str, str]] | None = msgspec.to_builtins(key.scopes)
    return {
        "role": key.role,
        # The server also returns the permissions of a role.
        "permissions": sorted({*key.permissions}) if key.permissions and not key.role else None,
        "scopes": scopes and sorted(scopes, key=lambda each: sorted(each.items())),
        "expiresAt": ends and msgspec.to_builtins(ends.astimezone(UTC)),
        "requestsPerSecond": key.requests_per_second,
        "managedBy": key.managed_by,
    }


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[FieldChange]:
    """Return the fields of ``new`` that have another value in ``old``, or none there."""
    return [
        FieldChange(name, plain(old.get(name)), plain(value))
        for name, value in new.items()
        if not is_same(old.get(name), value)
    ]


def masked(fields: Iterable[FieldChange]) -> list[FieldChange]:
    """Hide the values of a message."""
    return [
        FieldChange(each.field, MASKED, MASKED) if each.field in MESSAGE else each
        for each in fields
    ]


def is_same(one: Any, other: Any) -> bool:  # noqa: ANN401 - of JSON
    """Whether two values are the same JSON. Python's `1 == True` is not, but `1 == 1.0` is."""
    types = one.__class__, other.__class__
    if types == (dict, dict):
        return one.keys() == other.keys() and all(is_same(one[key], other[key]) for key in one)
    if types == (list, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    if types in ((int, float), (float, int)):
        return float(one) == float(other)  # PostgreSQL returns 1e30 as an integer.
    return types[0] is types[1] and one == other
