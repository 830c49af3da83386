"""Check that timestamps of requests are in the supported range of years in UTC."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec import inspect

from queen import errors
from queen.wire.problems import Detail

_Check = Callable[[Any, str], object]
_CHECKS: Final[dict[type, tuple[tuple[str, str, _Check], ...]]] = {}
"""By struct: the fields with timestamps, their names on the wire, and their checks."""


def check(struct: object, where: str = "") -> None:
    """
    Raise BadRequest if a timestamp of this struct, or of a nested one, is out of range in UTC.

    Items in lists are skipped: there may be many, and the engine checks each of them.
    """
    checks = _CHECKS.get(type(struct))
    if checks is None:
        checks = _CHECKS[type(struct)] = _checks(type(struct))
    for attribute, name, each in checks:
        value = getattr(struct, attribute)
        if value is not None and value is not msgspec.UNSET:
            each(value, f"{where}/{name}")


def in_utc(at: datetime, where: str) -> datetime:
    """Convert a timestamp to UTC, which fails at the ends of years 1 and 9999."""
    try:
        return at.astimezone(UTC)
    except OverflowError as error:
        detail = "the year must be 1 to 9999 in UTC"
        raise errors.BadRequest(
            f"{where}: {detail}", errors=[Detail(pointer=where, detail=detail)]
        ) from error


def _checks(type_: type) -> tuple[tuple[str, str, _Check], ...]:
    if not issubclass(type_, msgspec.Struct):
        return ()
    shape = inspect.type_info(type_)
    assert isinstance(shape, inspect.StructType)
    found: list[tuple[str, str, _Check]] = []
    for field in shape.fields:
        kinds = field.type.types if isinstance(field.type, inspect.UnionType) else (field.type,)
        if any(isinstance(kind, inspect.DateTimeType) for kind in kinds):
            found.append((field.name, field.encode_name, in_utc))
        elif any(isinstance(kind, inspect.StructType) and _checks(kind.cls) for kind in kinds):
            found.append((field.name, field.encode_name, check))
    return tuple(found)
