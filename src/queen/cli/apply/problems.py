"""Problems of values in the words of a manifest, instead of those of Python."""

import re
from typing import Any, Final, get_args, get_type_hints

import msgspec

_TYPES: Final = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "str": "a string",
    "array": "a list",
    "object": "a mapping",
    "null": "null",
}
_EXPECTED: Final = re.compile(r"Expected `([^`]*)`(.*?)(?:, got `(\w+)`)?$")
_MISSING: Final = re.compile(r"Object missing required field `(\w+)`")


def explained(message: str, type_: Any, value: Any) -> str:  # noqa: ANN401 - of YAML
    """Return a message of msgspec as a sentence. ``type_``: the type of the field, if known."""
    if found := _MISSING.match(message):
        return f"the field {found[1]} is missing"
    if "matching regex" in message:
        return "must not contain control characters"
    if message.startswith("Invalid enum value"):
        choices = ", ".join(str(each) for each in _choices(type_))
        return f"must be one of {choices}" if choices else message
    if message.startswith("Invalid RFC3339"):
        return "must be a time with a time zone, for example 2030-01-31T12:00:00Z"
    found = _EXPECTED.match(message)
    if found is None:
        return message
    names, limit, got = found.groups()
    wanted = " or ".join(_TYPES.get(each, each) for each in names.split(" | ") if each != "null")
    sentence = f"must be {wanted}{limit.removesuffix('.0')}"
    if got == "str" and names.startswith("bool"):
        return f"{sentence}, but {value} is a string"
    return f"{sentence}, not {_TYPES.get(got, got)}" if got else sentence


def field_type(type_: type[msgspec.Struct], name: str) -> Any:  # noqa: ANN401 - any type
    """Return the type of a field by its name on the wire."""
    names = dict(zip(type_.__struct_encode_fields__, type_.__struct_fields__, strict=True))
    return get_type_hints(type_).get(names.get(name, ""))


def _choices(type_: Any) -> list[Any]:  # noqa: ANN401 - any type
    """Return the values of a Literal, also inside a union or a list."""
    found: list[Any] = []
    for each in get_args(type_):
        found += [each] if isinstance(each, str) else _choices(each)
    return found
