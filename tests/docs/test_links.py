"""Links in the docs lead to existing files and headings."""

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    {
        page
        for pattern in ("*.md", "docs/**/*.md", "src/**/*.md", "tests/**/*.md")
        for page in ROOT.glob(pattern)
    }
)
CODE = re.compile(r"^ *(```+|~~~+).*?^ *\1 *$", flags=re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^ {0,3}#{1,6} +(.+?)(?: +#+)? *$", flags=re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s#:]*)(?:#([^)\s]*))?\)")
"""A link to a file of the repository, to a heading, or to both. URLs have a colon."""


def text_of(page: Path) -> str:
    return CODE.sub("", page.read_text("utf-8"))


def anchors(text: str) -> set[str]:
    """Return the anchors that GitHub gives to the headings of a page."""
    used: Counter[str] = Counter()
    found: set[str] = set()
    for heading in HEADING.findall(text):
        words = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        found.add(f"{slug}-{used[slug]}" if used[slug] else slug)
        used[slug] += 1
    return found


def broken_links(page: Path) -> list[str]:
    broken: list[str] = []
    for path, anchor in LINK.findall(text_of(page)):
        target = page.parent / path if path else page
        if not target.exists():
            broken.append(path)
        elif anchor and anchor not in anchors(text_of(target)):
            broken.append(f"{path}#{anchor}")
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_links_of_a_page_work(page: Path) -> None:
    assert broken_links(page) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Page\n[a](page.md#page) [b](#gone) [c](page.md#gone) [d](gone.md#page)", "utf-8"
    )
    assert broken_links(page) == ["#gone", "page.md#gone", "gone.md"]


def test_anchors_follow_the_rules_of_github() -> None:
    text = """# 1. A `queue_name`, and why?
## See [the docs](page.md)
## Jobs
## Jobs
## Map & reduce
#hashtag
"""
    assert anchors(text) == {
        "1-a-queue_name-and-why",
        "see-the-docs",
        "jobs",
        "jobs-1",
        "map--reduce",
    }
