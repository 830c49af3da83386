"""CONTRIBUTING.md lists every tier of tests and every command that it describes."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
TARGETS = dict(re.findall(r"^([a-z-]+):(?!=)([^\n]*)", MAKEFILE, flags=re.MULTILINE))
KINDS = ("test", "bench", "check-")
"""The beginnings of the commands that tables list."""


def first_cells() -> set[str]:
    """The code in the first cells of all tables."""
    cells = re.findall(r"^\| ([^|]*) \|", PAGE, flags=re.MULTILINE)
    return {code for cell in cells for code in re.findall(r"`([^`]+)`", cell)}


def test_every_tier_is_in_the_table() -> None:
    tiers = {f"tests/{path.parent.name}" for path in ROOT.glob("tests/*/test_*.py")}
    tiers |= {f"tests/{path.parents[1].name}" for path in ROOT.glob("tests/*/*/test_*.py")}
    assert {cell for cell in first_cells() if cell.startswith("tests/")} == tiers


def test_every_command_is_in_a_table() -> None:
    listed = {cell.removeprefix("make ") for cell in first_cells() if cell.startswith("make ")}
    assert {name for name in listed if name.startswith(KINDS)} == {
        name for name in TARGETS if name.startswith(KINDS)
    }
    assert listed <= set(TARGETS)


def test_the_parts_of_check_are_those_of_the_makefile() -> None:
    assert set(re.findall(r"`make (check-\w+)`", PAGE)) == set(TARGETS["check"].split())


def test_the_steps_of_ci_are_those_of_its_script() -> None:
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    steps = [
        target
        for line in re.findall(r"^make ([^\n]*)", script, flags=re.MULTILINE)
        for target in line.split()
        if not target.startswith("-")
    ]
    assert f"`.ci/run`, which is `make {' '.join(steps)}`" in PAGE
