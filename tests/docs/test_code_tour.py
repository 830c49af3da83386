"""The code tour names existing files and functions, and packages describe their content."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "queen"
PAGE = (ROOT / "docs" / "internals" / "code-tour.md").read_text("utf-8")
STEPS = re.findall(r"^\| \d+ \| `([\w/.]+)` \| `([\w.]+)` \|", PAGE, flags=re.MULTILINE)
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
MENTIONED = re.findall(r"`(\w+\.\w+)` \(`([\w/]+\.py)`\)", PAGE)


def python_names(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef):
            names |= {
                f"{node.name}.{each.name}" for each in node.body if isinstance(each, FUNCTION)
            }
        elif isinstance(node, FUNCTION):
            names.add(node.name)
    return names


@pytest.mark.parametrize(("file", "name"), [*STEPS, *((file, name) for name, file in MENTIONED)])
def test_a_step_of_the_tour_exists(file: str, name: str) -> None:
    path = SOURCE / file
    if path.suffix == ".sql":
        assert re.search(rf"function queen\.{name}\s*\(", path.read_text("utf-8"))
    else:
        assert name in python_names(path)


def test_the_tour_has_four_walks() -> None:
    assert len(STEPS) == 43


@pytest.mark.parametrize(
    "directory",
    [each for each in sorted(SOURCE.rglob("*/")) if list(each.glob("*.py"))],
    ids=lambda each: str(each.relative_to(SOURCE)),
)
def test_a_package_describes_its_content(directory: Path) -> None:
    assert ast.get_docstring(ast.parse((directory / "__init__.py").read_text("utf-8")))
