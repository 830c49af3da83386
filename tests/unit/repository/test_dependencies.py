"""Dependencies: packages whose internals we use have an upper bound, and installs have hashes."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).parents[3]
SOURCES: Final = sorted((ROOT / "src" / "queen").rglob("*.py"))
MADE_TO_BE_SUBCLASSED: Final = {"msgspec.Struct"}
"""Documented for subclassing: a release that breaks subclasses would break all users."""


def requirements() -> dict[str, list[str]]:
    """Each requirement of the wheel, by distribution name."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    found: dict[str, list[str]] = {}
    for text in chain(project["dependencies"], *extras.values()):
        name = re.split(r"[^A-Za-z0-9._-]", text, maxsplit=1)[0].lower()
        found.setdefault(name, []).append(text)
    return found


def used_internals(tree: ast.Module) -> Iterator[str]:
    """Dotted names of third-party internals: private modules, and classes that we subclass."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.split(".")[0]] = alias.name
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    foreign = {
        name: full
        for name, full in names.items()
        if full.split(".")[0] not in {"queen", *sys.stdlib_module_names}
    }
    for full in foreign.values():
        if any(part.startswith("_") for part in full.split(".")[1:]):
            yield full
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for base in map(ast.unparse, node.bases):
                head, _, rest = base.partition("[")[0].partition(".")
                full = foreign.get(head, "") + ("." + rest if rest else "")
                if head in foreign and full not in MADE_TO_BE_SUBCLASSED:
                    yield full


def test_internals_of_other_packages_are_found() -> None:
    tree = ast.parse(
        "import asyncpg, json\n"
        "from uvicorn._types import Event\n"
        "from uvicorn.protocols.http import Base\n"
        "class Protocol(Base): pass\n"
        "class Connection(asyncpg.Connection[int]): pass\n"
        "class Encoder(json.JSONEncoder): pass\n"
    )
    assert sorted(used_internals(tree)) == [
        "asyncpg.Connection", "uvicorn._types.Event", "uvicorn.protocols.http.Base",
    ]  # fmt: skip


def test_packages_whose_internals_we_use_have_an_upper_bound() -> None:
    known = requirements()
    distributions = packages_distributions()
    used = {full: file for file in SOURCES for full in used_internals(ast.parse(file.read_text()))}
    assert any(full.startswith("uvicorn.") for full in used)
    unbounded = {
        f"{file.relative_to(ROOT)} uses {full}, but {text!r} has no upper bound"
        for full, file in used.items()
        for name in distributions[full.split(".")[0]]
        for text in known.get(name.lower(), [f"{name} (not in pyproject.toml)"])
        if "<" not in text
    }
    assert not unbounded


@pytest.mark.parametrize("name", ["httptools", "websockets"])
def test_parsers_of_requests_have_an_upper_bound(name: str) -> None:
    assert all("<" in text for text in requirements()[name])


def test_every_install_checks_hashes() -> None:
    lines = [
        line.strip()
        for file in ("Makefile", ".ci/run", ".ci/packages")
        for line in (ROOT / file).read_text().splitlines()
        if "pip install" in line
    ]
    assert lines
    # Queen itself has no hash, and installs no dependencies.
    unchecked = [each for each in lines if "--require-hashes" not in each]
    assert all("--no-deps --no-build-isolation --editable ." in each for each in unchecked)
