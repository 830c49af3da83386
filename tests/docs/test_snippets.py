"""Python snippets in the docs run unchanged, each page from top to bottom."""

import ast
import inspect
import re
import types
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import Server

LOCAL = "http://localhost:6632"
RUN = re.DOTALL | re.MULTILINE
DOCS = Path(__file__).parents[2] / "docs"
NOT_RUN = ("decisions", "internals", "reference", "spark")
"""Directories with fragments; tests/spark runs the pages of Spark. Blocks with a title are files of
a tutorial: test_tutorials.py."""
PAGES = sorted(
    str(path.relative_to(DOCS))
    for path in DOCS.glob("**/*.md")
    if path.parent.name not in NOT_RUN and "```python\n" in path.read_text("utf-8")
)


def code_of(page: str) -> str:
    text = (DOCS / page).read_text("utf-8")
    return "\n".join(re.findall(r"^```python\n(.*?)^```$", text, flags=RUN))


@pytest.mark.parametrize("page", PAGES)
async def test_a_page_runs(process: Server, page: str) -> None:
    source = code_of(page).replace(LOCAL, process.base_url)
    names: dict[str, Any] = {"__name__": page}
    code = compile(source, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = types.FunctionType(code, names)()
    if inspect.iscoroutine(result):
        await result
    await names["queen"].close()


def test_the_pages_exist() -> None:
    assert len(PAGES) >= 8
