"""The navigation lists every page once, and generated pages match their sources."""

import re
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

from tools import write_pages
from tools.write_pages import DOCS, navigation

NOT_LISTED = "decisions/0*.md"
"""Linked from the list of decisions, which is in the navigation."""
REFERENCE = DOCS / "reference" / "python"


def test_every_page_is_in_the_navigation() -> None:
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    listed = {page.path for page in navigation()}
    decisions = {path.relative_to(DOCS).as_posix() for path in DOCS.glob(NOT_LISTED)}
    assert sorted(pages - listed - decisions) == []


def test_every_page_of_the_navigation_exists() -> None:
    assert [page.path for page in navigation() if not (DOCS / page.path).exists()] == []


def test_no_page_or_title_is_listed_twice() -> None:
    pages = list(navigation())
    paths = Counter(page.path for page in pages)
    titles = Counter((page.section, page.title) for page in pages)
    assert [each for each, count in (paths | titles).items() if count > 1] == []


@pytest.mark.parametrize("path", write_pages.pages(), ids=lambda path: path.name)
def test_a_generated_page_is_current(path: Path) -> None:
    """After a change of its source, run `make reference`."""
    assert path.read_text("utf-8") == write_pages.pages()[path]()


def test_the_python_reference_has_every_public_class_and_function() -> None:
    text = "".join(page.read_text("utf-8") for page in REFERENCE.glob("*.md"))
    shown = re.findall(r"^::: [\w.]+\.(\w+)$", text, flags=re.MULTILINE)
    for members in re.findall(r"^      members: \[(.*)\]$", text, flags=re.MULTILINE):
        shown += members.split(", ")
    shown += re.findall(r"`(Sync\w+)`", text)  # They have the methods of the asynchronous classes.
    shown += re.findall(r"\w+", (DOCS / "reference" / "errors.md").read_text("utf-8"))
    public = {
        f"{package}.{name}"
        for package in ("queen", "queen.jobs", "queen.testing")
        for name in import_module(package).__all__
    }
    assert sorted(name for name in public if name.rpartition(".")[2] not in shown) == []


def test_the_pictures_of_the_readme_are_the_same() -> None:
    """All but the lines with colors."""
    drawings = {
        "\n".join(
            line
            for line in (DOCS / "images" / f"{name}.svg").read_text("utf-8").splitlines()
            if "--bg:" not in line
            and "@media (prefers-color-scheme" not in line
            and line != "    }"
        )
        for name in ("hero", "hero-light", "hero-dark")
    }
    assert len(drawings) == 1
