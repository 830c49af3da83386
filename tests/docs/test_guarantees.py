"""Tests that the docs name exist, and their marks are those of the docs."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs/why/guarantees.md", ROOT / "docs/internals/testing.md"]
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`")
ROW = re.compile(r"^\| (.+?) \| `(tests/[\w/]+\.py)::(test_\w+)` \|$", flags=re.MULTILINE)


@cache
def marks(file: str) -> dict[str, set[str]]:
    """Return the tests of a file, each with its marks and those of the file."""
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    of_file = {
        mark
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
        for mark in re.findall(r"pytest\.mark\.(\w+)", ast.unparse(node))
    }
    return {
        node.name: of_file
        | {
            mark
            for each in node.decorator_list
            for mark in re.findall(r"pytest\.mark\.(\w+)", ast.unparse(each))
        }
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_named_test_exists(page: Path) -> None:
    named = NAMED.findall(page.read_text("utf-8"))
    missing = [f"{file}::{name}" for file, name in named if name and name not in marks(file)]
    assert (len(named) > 5, missing) == (True, [])
    assert [file for file, _ in named if not (ROOT / file).exists()] == []


def tier(file: str, name: str) -> str:
    """Return the tier that runs a test, as a row names it."""
    found = [each for each in ("nightly", "slow") if each in marks(file)[name]]
    return f"({found[0]})" if found else ""


def test_rows_name_the_tier_of_their_test() -> None:
    rows = ROW.findall(PAGES[0].read_text("utf-8"))
    named = [(name, "".join(re.findall(r"\(\w+\)$", promise))) for promise, _, name in rows]
    assert len(rows) > 40
    assert named == [(name, tier(file, name)) for _, file, name in rows]


def functions(directory: str) -> int:
    """Count the test functions below a directory."""
    return sum(
        len(re.findall(r"^(?:async )?def test_", path.read_text("utf-8"), flags=re.MULTILINE))
        for path in (ROOT / directory).rglob("test_*.py")
    )


def test_the_numbers_of_tests_are_lower_bounds() -> None:
    page = PAGES[1].read_text("utf-8")
    tiers = re.findall(r"^\| `(tests/\w+)` \| (\d+) \|", page, flags=re.MULTILINE)
    (total,) = re.findall(r"more than ([\d,]+) test functions", page)
    assert {tier for tier, _ in tiers} == {
        f"tests/{each.name}"
        for each in (ROOT / "tests").iterdir()
        if each.is_dir() and functions(f"tests/{each.name}")
    }
    counts = {tier: functions(tier) for tier, _ in tiers}
    assert {tier: count for tier, count in tiers if counts[tier] < int(count)} == {}
    assert sum(counts.values()) > int(total.replace(",", ""))


def test_the_number_of_damaged_histories_is_right() -> None:
    (number,) = re.findall(r"(\d+) damaged histories", PAGES[1].read_text("utf-8"))
    text = (ROOT / "tests/system/checker/test_checker.py").read_text("utf-8")
    assert text.count("\n@mutant(") == int(number)
