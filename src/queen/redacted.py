"""Reprs without secrets, because logs and tracebacks have many readers."""

import re
from collections.abc import Collection
from typing import Any, Final

MASK: Final = "****"
_PASSWORDS: Final = (
    (re.compile(r"(?<=://)[^/\s\"'@]*@"), f"{MASK}@"),
    (re.compile(r"(?i)(password=)('[^']*'|[^\s&'\"]+)"), rf"\1{MASK}"),
)


def without_passwords(text: str) -> str:
    """Remove user and password from a URL or a connection string."""
    for shape, mask in _PASSWORDS:
        text = shape.sub(mask, text)
    return text


def redacted(value: Any, secrets: Collection[str] = ()) -> str:  # noqa: ANN401 - of msgspec or a tuple
    """Return the repr of a struct or named tuple, with masked ``secrets`` and without passwords."""
    names = getattr(value, "__struct_fields__", None) or value._fields
    shown = (
        f"{name}={MASK if name in secrets and field else without_passwords(repr(field))}"
        for name in names
        for field in (getattr(value, name),)
    )
    return f"{type(value).__name__}({', '.join(shown)})"
