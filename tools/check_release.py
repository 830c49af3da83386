"""
Check the files of a release: the wheel has the dashboard, the bill of materials has no tools.

Usage::

    python -m tools.check_release dist
"""

import json
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parents[1]
NOT_RUNTIME = ("test",)
"""Extras that don't run in production."""
IN_WHEEL = ("queen/server/dashboard/index.html", "queen/sql/roles.sql", "queen/py.typed")


def problems(directory: Path) -> Iterator[str]:
    """Yield each reason why these files can't be published."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    release = f"{project['project']['name']}-{project['project']['version']}"
    wheel = directory / f"{release}-py3-none-any.whl"
    for path in (wheel, directory / f"{release}.tar.gz", directory / "sbom.json"):
        if not path.exists():
            yield f"{path} is missing"
            return
    with ZipFile(wheel) as archive:
        yield from (f"{wheel} lacks {name}" for name in {*IN_WHEEL} - {*archive.namelist()})
    listed = components(json.loads((directory / "sbom.json").read_text("utf-8")))
    needed = runtime_names(project)
    tools = names(project["dependency-groups"]["dev"]) - needed
    yield from (f"sbom.json lacks {name}" for name in sorted(needed - listed))
    yield from (f"sbom.json lists {name}, a tool" for name in sorted(tools & listed))


def components(sbom: dict[str, list[dict[str, str]]]) -> set[str]:
    """Return the names of the packages in a bill of materials."""
    return {_normal(each["name"]) for each in sbom["components"]}


def runtime_names(project: dict[str, dict[str, dict[str, list[str]]]]) -> set[str]:
    """Return the packages that Queen and its extras for production name."""
    extras = project["project"]["optional-dependencies"]
    lists = [each for name, each in extras.items() if name not in NOT_RUNTIME]
    every = [*project["project"]["dependencies"], *(each for some in lists for each in some)]
    return names(every) - {"queenmq"}


def names(requirements: Iterable[str]) -> set[str]:
    """Return the names of packages without versions and extras."""
    return {_normal(re.split(r"[^\w.-]", each)[0]) for each in requirements}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    found = [*problems(Path(sys.argv[1]))]
    print("\n".join(found) or f"{sys.argv[1]} is complete")
    sys.exit(bool(found))
