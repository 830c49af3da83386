"""Convert queue options from user mappings to request fields."""

from collections.abc import Mapping
from datetime import timedelta
from difflib import get_close_matches
from typing import Any, Final

import msgspec

from queen import errors
from queen.client.durations import millis_of, seconds_of
from queen.wire.options import QueueOptions

_CAMEL: Final = dict(
    zip(QueueOptions.__struct_fields__, QueueOptions.__struct_encode_fields__, strict=True)
)
_NAMES: Final = {**_CAMEL, **{name: name for name in _CAMEL.values()}}
MILLIS: Final = frozenset({"retryDelay", "maxRetryDelay"})
SECONDS: Final = frozenset(
    {
        "completedRetentionSeconds",
        "dedupWindowSeconds",
        "delayedProcessing",
        "leaseTime",
        "maxWaitTimeSeconds",
        "partitionRetentionSeconds",
        "retentionSeconds",
        "ttl",
        "windowBuffer",
    }
)


def options_of(given: Mapping[str, Any]) -> QueueOptions:
    """Read options in either spelling. Raises InvalidOption with a suggestion for a typo."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name not in _NAMES:
            near = get_close_matches(name, sorted(_NAMES), n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise errors.InvalidOption(f"a queue has no option {name!r}{hint}")
        found[_NAMES[name]] = with_units(_NAMES[name], value)
    try:
        return msgspec.convert(found, QueueOptions)
    except msgspec.ValidationError as error:
        raise errors.InvalidOption(str(error)) from error


def with_units(name: str, value: Any) -> Any:  # noqa: ANN401 - of any option
    """Convert a duration with a unit to the number that the option expects."""
    if name == "rateLimit" and isinstance(value, Mapping):
        limit: dict[str, Any] = {**value}
        if isinstance(period := limit.get("durationMillis"), str | timedelta):
            limit["durationMillis"] = millis_of(period, "durationMillis")
        return limit
    if not isinstance(value, str | timedelta):
        return value
    if name in MILLIS:
        return millis_of(value, name)
    return seconds_of(value, name) if name in SECONDS else value
