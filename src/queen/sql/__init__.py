"""The SQL of Queen: statements, functions, migrations, roles and grants."""

import re
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from types import MappingProxyType
from typing import Final

_DIRECTORY: Final = resources.files(__name__)


def _read_calls(text: str) -> Iterator[tuple[str, str, str]]:
    """
    Yield name, mark and text of each call. The mark follows the name, and most calls have none.
    """
    parts = re.split(r"^-- name: (\w+)(?: (hot|batched))?\n", text, flags=re.MULTILINE)
    for name, mark, call in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        yield name, mark or "", call.strip()


def _walk(directory: Traversable) -> Iterator[Traversable]:
    for entry in directory.iterdir():
        if entry.is_dir():
            yield from _walk(entry)
        elif entry.name.endswith(".sql"):
            yield entry


def _read_directory(name: str) -> dict[str, str]:
    """
    Read every SQL file below a directory, by its name without the extension.

    Subdirectories only group files. Two files with one name are an error.
    """
    files = sorted(_walk(_DIRECTORY / name), key=lambda file: file.name)
    texts = {file.name.removesuffix(".sql"): file.read_text("utf-8") for file in files}
    assert len(texts) == len(files), f"two files below {name} have the same name"
    return texts


_CALLS: Final = [each for text in _read_directory("calls").values() for each in _read_calls(text)]

CALLS: Final = MappingProxyType({name: call for name, _, call in _CALLS})
"""Every statement that Python sends, by name."""

BATCHED: Final = frozenset(name for name, mark, _ in _CALLS if mark == "batched")
"""Calls that serve many requests. The engine limits how many of them run at the same time."""

HOT: Final = frozenset(name for name, mark, _ in _CALLS if mark)
"""Short calls that messages wait for, including batched ones. They have the short deadline."""

MIGRATIONS: Final = MappingProxyType(_read_directory("migrations"))
"""Tables, types and indexes, in the order in which they are applied."""

FUNCTIONS: Final = MappingProxyType(_read_directory("functions"))
"""Functions by file name. All are applied again after the migrations."""

ROLES: Final = (_DIRECTORY / "roles.sql").read_text("utf-8")
"""Creates the roles and gives every object to `queen_owner`."""

ROLE_NAMES: Final = tuple(re.findall(r"^-- (queen_\w+) ", ROLES, flags=re.MULTILINE))
"""The roles, as the first comment of the file lists them."""

GRANTS: Final = (_DIRECTORY / "grants.sql").read_text("utf-8")
"""The privileges of each role."""
