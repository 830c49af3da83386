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
"""By struct: the fields that hold instants or structs with some, their names on the wire, how."""


def check(struct: object, where: str = "") -> None:
    """
    Raise BadRequest if an instant of this struct, or of one in it, has no UTC.

    Items in lists are not looked at: there are many, and the engine judges each on its own.
    """
    checks = _CHECKS.get(type(struct))
    if checks is None:
        checks = _CHECKS[type(struct)] = _checks(type(struct))
    for attribute, name, each in checks:
        value = getattr(struct, attribute)
        if value is not None and value is not msgspec.UNSET:
            each(value, f"{where}/{name}")


def in_utc(at: datetime, where: str) -> datetime:
    """The same instant in UTC; year 1 and year 9999 have hours that are beyond it."""
    try:
        return at.astimezone(UTC)
    except OverflowError as error:
        detail = "in UTC it must be in the years 1 to 9999"
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
