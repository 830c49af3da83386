"""Durations as people write them: 30, 0.5, "30s", "5m", "2h", "1d"."""

import re
from typing import Final

from queen import errors

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_WORDS: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", re.ASCII)


def seconds_of(duration: float | str) -> float:
    """Seconds; raises BadRequest for what is no duration."""
    if not isinstance(duration, str):
        return float(duration)
    match = _WORDS.fullmatch(duration.strip())
    if match is None:
        raise errors.BadRequest(f'{duration!r} is no duration; write 30 or "30s", "5m", "2h"')
    return float(match[1]) * _UNITS[match[2]]
