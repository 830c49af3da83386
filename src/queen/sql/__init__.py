"""Every SQL text: the package holds no other."""

import re
from collections.abc import Iterator
from importlib import resources
from types import MappingProxyType
from typing import Final

_FOLDER: Final = resources.files(__name__)


def _read_calls(text: str) -> Iterator[tuple[str, str, str]]:
    """Name, mark and text of each call: a mark stands behind the name, and most have none."""
    parts = re.split(r"^-- name: (\w+)(?: (hot|batched))?\n", text, flags=re.MULTILINE)
    for name, mark, call in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        yield name, mark or "", call.strip()


def _read_folder(name: str) -> dict[str, str]:
    files = sorted(
        (file for file in (_FOLDER / name).iterdir() if file.name.endswith(".sql")),
        key=lambda file: file.name,
    )
    return {file.name.removesuffix(".sql"): file.read_text("utf-8") for file in files}


_CALLS: Final = [each for text in _read_folder("calls").values() for each in _read_calls(text)]

CALLS: Final = MappingProxyType({name: call for name, _, call in _CALLS})
"""What Python sends, by name."""

BATCHED: Final = frozenset(name for name, mark, _ in _CALLS if mark == "batched")
"""Calls that serve many requests at once: the engine bounds how many of them run."""

HOT: Final = frozenset(name for name, mark, _ in _CALLS if mark)
"""Short calls that messages wait for, batched ones among them: they get the short deadline."""

MIGRATIONS: Final = MappingProxyType(_read_folder("migrations"))
"""Tables, types and indexes, in the order in which they are applied."""

FUNCTIONS: Final = MappingProxyType(_read_folder("functions"))
"""One verb a file, all applied again after the migrations."""

ROLES: Final = (_FOLDER / "roles.sql").read_text("utf-8")
"""Makes the roles, and gives everything to its owner."""

GRANTS: Final = (_FOLDER / "grants.sql").read_text("utf-8")
"""What the roles may do."""
