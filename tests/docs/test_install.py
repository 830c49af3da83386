"""The installation page and version requirements in the docs match pyproject.toml."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from queen.store.connection.primary import OLDEST_POSTGRES
from tests.support.tutorial import Tutorial

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGE = DOCS / "start" / "install.md"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
LARGE = (".git", ".venv", "node_modules", "__pycache__", "screenshots", "site", ".hypothesis")


def pages() -> str:
    """The text of all pages but decisions, which stay as they are, and those on other systems."""
    return "\n".join(
        path.read_text("utf-8")
        for path in DOCS.rglob("*.md")
        if path.parent.name not in ("decisions", "migrate") and path.stem != "comparison"
    )


def test_every_extra_is_in_the_table() -> None:
    (table,) = re.findall(r"^\| Extra \|.*\n\|---.*\n((?:\|.*\n)+)", PAGE.read_text(), re.MULTILINE)
    assert re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE) != []
    assert set(re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE)) == set(
        PROJECT["optional-dependencies"]
    )


def test_extras_in_the_docs_exist() -> None:
    named = re.findall(r"(?:queenmq|whl|'\.)\[([\w,-]+)\]", pages())
    assert {extra for each in named for extra in each.split(",")} <= set(
        PROJECT["optional-dependencies"]
    )


def test_the_version_on_the_page_is_that_of_the_project() -> None:
    text = PAGE.read_text("utf-8")
    assert set(re.findall(r"queenmq-([\d.]+)-py3", text)) == {PROJECT["version"]}
    assert f"```text\n{PROJECT['version']}\n```" in text


def test_required_versions_in_the_docs_are_those_of_the_project() -> None:
    (spark,) = (
        re.findall(r">=([\d.]+)", each)[0]
        for each in PROJECT["optional-dependencies"]["pyspark"]
        if each.startswith("pyspark")
    )
    text = pages()
    least = r"(\d[\d.]*\d|\d+) or (?:newer|later)"
    assert set(re.findall(rf"Spark {least}", text)) == {spark}
    assert set(re.findall(rf"Python {least}", text)) == {PROJECT["requires-python"].strip(">=")}
    assert set(re.findall(rf"PostgreSQL {least}", text)) == {str(OLDEST_POSTGRES)}
    assert set(re.findall(rf"Java {least}", text)) == {"17"}


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_the_page_works_in_an_empty_environment(tmp_path: Path) -> None:
    """Follows every command, with `pip` and its package index."""
    shutil.copytree(ROOT, tmp_path / "queen", ignore=shutil.ignore_patterns(*LARGE))
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    tutorial = Tutorial(PAGE, tmp_path, {})
    tutorial.follow(PATH=f"{environment}/bin:/usr/local/bin:/usr/bin:/bin", PYTHONPATH="")
    assert tutorial.skipped == []
    # The last command has installed it again.
    shown = subprocess.run(
        [environment / "bin" / "queen", "version"], capture_output=True, text=True, check=True
    )
    assert shown.stdout == f"{PROJECT['version']}\n"
