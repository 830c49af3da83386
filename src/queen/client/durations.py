"""Durations as people write them: 30, 0.5, "30s", "5m", "2h", "1d", timedelta(minutes=5)."""

import math
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from queen import errors

Duration = float | str | timedelta
"""A number is seconds, unless the parameter's name ends in milliseconds."""

SHORT_SECONDS: Final = 600.0
"""The largest plain number for a period or a first delay."""
LONG_SECONDS: Final = 3600.0
"""The largest plain number for a timeout, a delay or an interval."""
KEPT_SECONDS: Final = 7 * 86_400.0
"""The largest plain number for the time that something is kept."""

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_WORDS: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", re.ASCII)


def seconds_of(duration: Duration, name: str = "", *, most: float | None = None) -> float:
    """
    The duration in seconds; raises BadRequest if it is not one.

    ``most`` bounds plain numbers only. Other job queues take milliseconds, so a larger number is
    rejected instead of being read as hours.
    """
    if isinstance(duration, timedelta):
        return duration.total_seconds()
    if isinstance(duration, str):
        match = _WORDS.fullmatch(duration.strip())
        if match is None:
            raise _invalid(duration, name)
        return float(match[1]) * _UNITS[match[2]]
    seconds = _number(duration, name)
    if most is not None and seconds > most:
        raise errors.BadRequest(
            f"{name}={duration!r} would be {duration} seconds. Plain numbers above {most:g} are"
            f" rejected because they are usually milliseconds. Write {name}='{duration}ms' for"
            f" milliseconds or {name}='{duration}s' for seconds."
        )
    return seconds


def millis_of(duration: Duration, name: str) -> int:
    """The duration in milliseconds, which is also the unit of a plain number."""
    if isinstance(duration, timedelta | str):
        return round(seconds_of(duration, name) * 1000)
    return round(_number(duration, name))


def explicit_or(given: Mapping[str, Any], explicit: str, name: str, *, most: float) -> float | None:
    """Seconds from a field whose name has the unit, else from its short form; None without both."""
    if (seconds := given.get(explicit)) is not None:
        return seconds_of(seconds, explicit)
    duration = given.get(name)
    return None if duration is None else seconds_of(duration, name, most=most)


def _number(duration: object, name: str) -> float:
    if isinstance(duration, bool) or not isinstance(duration, int | float):
        raise _invalid(duration, name)
    if not math.isfinite(duration):
        raise _invalid(duration, name)
    return float(duration)


def _invalid(duration: object, name: str) -> errors.BadRequest:
    given = f"{name}={duration!r}" if name else repr(duration)
    return errors.BadRequest(
        f"{given} is not a duration. Write a number with a unit, for example"
        ' "500ms", "30s", "5m", "2h" or "1d".'
    )
