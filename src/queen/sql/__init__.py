"""Every SQL text: the package holds no other."""

import re
from importlib import resources
from types import MappingProxyType
from typing import Final

_FOLDER: Final = resources.files(__name__)


def _read_calls(text: str) -> dict[str, str]:
    parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], (part.strip() for part in parts[2::2]), strict=True))


def _read_folder(name: str) -> dict[str, str]:
    files = sorted(
        (file for file in (_FOLDER / name).iterdir() if file.name.endswith(".sql")),
        key=lambda file: file.name,
    )
    return {file.name.removesuffix(".sql"): file.read_text("utf-8") for file in files}


CALLS: Final = MappingProxyType(
    {
        name: call
        for text in _read_folder("calls").values()
        for name, call in _read_calls(text).items()
    }
)
"""What Python sends, by name."""

MIGRATIONS: Final = MappingProxyType(_read_folder("migrations"))
"""Tables, types and indexes, in the order in which they are applied."""

FUNCTIONS: Final = MappingProxyType(_read_folder("functions"))
"""One verb a file, all applied again after the migrations."""

ROLES: Final = (_FOLDER / "roles.sql").read_text("utf-8")
"""Makes the roles, and gives everything to its owner."""

GRANTS: Final = (_FOLDER / "grants.sql").read_text("utf-8")
"""What the roles may do."""
