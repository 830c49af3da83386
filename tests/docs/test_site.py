"""The built site has no broken links, loads nothing from other hosts, and shows no raw Markdown."""

import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.support.site import built_site
from tools.build_site import build

LOADED = {
    "img": "src",
    "link": "href",
    "script": "src",
    "source": "srcset",
    "iframe": "src",
    "video": "src",
}
"""Elements that make a browser send a request, and their attribute with the address."""
LINK_KINDS = {"canonical", "next", "prev"}
"""Kinds of <link> that a browser does not load."""
RAW = re.compile(r"<p>[^<]*\n(?:[-*|] |\d+\. )|<p>(?:\||[-*] )")
"""A list or table without a blank line before it, which becomes part of the paragraph."""


class Html(HTMLParser):
    """The links, loaded files and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.add(found["href"])
        is_loaded = tag in LOADED and not (tag == "link" and found.get("rel") in LINK_KINDS)
        if is_loaded and LOADED[tag] in found:
            self.loaded.add(found[LOADED[tag]])


@cache
def parsed(page: Path) -> Html:
    return Html(page.read_text("utf-8"))


def problem_of(page: Path, link: str, root: Path) -> str | None:
    """The reason why a link of a page is broken, or None."""
    address = urlsplit(link)
    if address.scheme in ("http", "https", "mailto"):
        return None
    if address.scheme or address.netloc or address.path.startswith("/"):
        return "not relative"
    target = (page.parent / unquote(address.path)).resolve() if address.path else page
    if target.is_dir():
        target /= "index.html"
    if not target.is_relative_to(root):
        return "outside of the site"
    if not target.is_file():
        return "no such file"
    anchor = unquote(address.fragment)
    if anchor and target.suffix == ".html" and anchor not in parsed(target).anchors:
        return "no such anchor"
    return None


def broken(page: Path, root: Path) -> list[str]:
    """The broken links of a page, and the files that it loads from other hosts."""
    html = parsed(page)
    found = [
        f"{link}: {problem}"
        for link in sorted(html.links | html.loaded)
        if (problem := problem_of(page, link, root)) is not None
    ]
    others = [link for link in html.loaded if urlsplit(link).netloc]
    return found + [f"{link}: loaded from another host" for link in others]


@pytest.fixture(scope="module")
def pages() -> list[Path]:
    site = built_site()
    # Its links start with a slash, because a server shows it for any address.
    return sorted({*site.rglob("*.html")} - {site / "404.html"})


@pytest.mark.timeout(180)  # It parses more than a hundred pages.
def test_no_link_is_broken_and_no_file_comes_from_another_host(pages: list[Path]) -> None:
    found = {
        str(page.relative_to(built_site())): problems
        for page in pages
        if (problems := broken(page, built_site()))
    }
    assert found == {}
    assert len(pages) > 100


def test_stylesheets_load_no_file_from_another_host() -> None:
    for sheet in built_site().rglob("*.css"):
        assert (
            re.findall(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//", sheet.read_text("utf-8")) == []
        )


def test_no_page_shows_raw_markdown(pages: list[Path]) -> None:
    shown = {
        str(page.relative_to(built_site())): found
        for page in pages
        if (found := RAW.findall(page.read_text("utf-8")))
    }
    assert shown == {}


def test_every_link_of_llms_txt_works() -> None:
    path = built_site() / "llms.txt"
    links = re.findall(r"^- \[.+?\]\((.*?)\): ", path.read_text("utf-8"), flags=re.MULTILINE)
    assert [link for link in links if problem_of(path, link, path.parent) is not None] == []
    assert len(links) > 50


def test_problems_are_found(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "index.html").write_text("<h1 id='a'>A</h1>", "utf-8")
    page = tmp_path / "index.html"
    page.write_text(
        "<a href='other/#a'></a><a href='other/#b'></a><a href='gone/'></a><a href='../x'></a>"
        "<a href='/x'></a>"
        "<a href='https://example.com'></a><img src='//cdn.example.com/x.png'>",
        "utf-8",
    )
    assert broken(page, tmp_path) == [
        "../x: outside of the site",
        "//cdn.example.com/x.png: not relative",
        "/x: not relative",
        "gone/: no such file",
        "other/#b: no such anchor",
        "//cdn.example.com/x.png: loaded from another host",
    ]
    assert RAW.search("<p>First:\n- one\n- two</p>")
    assert not RAW.search("<p>1. A sentence - with a dash</p>")


def test_a_build_that_started_late_is_repeated(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    starts = tmp_path / "starts"
    late = 'echo "RuntimeError: Watcher disconnected" >&2; exit 1'
    script = f'echo x >>{starts}; if [ "$(wc -l <{starts})" -lt 3 ]; then {late}; fi; echo built'
    assert build(["sh", "-c", script]) == 0
    assert capfd.readouterr().out == "built\n"
    assert build(["sh", "-c", f"echo x >>{starts}; echo broken link; exit 1"]) == 1
    assert len(starts.read_text("utf-8").splitlines()) == 4
