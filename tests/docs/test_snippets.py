"""Python snippets in the docs run unchanged, each page from top to bottom."""

import ast
import inspect
import os
import re
import subprocess
import sys
import textwrap
import types
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import SOURCE, Server

LOCAL = "http://localhost:6632"
RUN = re.DOTALL | re.MULTILINE
DOCS = Path(__file__).parents[2] / "docs"
NOT_RUN = ("decisions", "internals", "reference", "spark")
"""Directories with fragments; tests/spark runs the pages of Spark."""
PAGES = sorted(
    str(path.relative_to(DOCS))
    for path in DOCS.glob("**/*.md")
    if path.parent.name not in NOT_RUN and "```python" in path.read_text("utf-8")
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


def test_the_tutorials_file_runs(process: Server) -> None:
    page = "tutorial/python.md"
    (frame,) = re.findall(r"^```py\n(.*?)^```$", (DOCS / page).read_text("utf-8"), flags=RUN)
    place = re.search(r"^    pass.*\n", frame, flags=re.MULTILINE)
    assert place is not None
    pieces = textwrap.indent(code_of(page), "    ").replace('"orders"', '"shop-orders"')
    source = frame.replace(place[0], pieces.replace('"cards"', '"shop-cards"'))
    subprocess.run(
        [sys.executable, "-W", "error", "-c", source.replace(LOCAL, process.base_url)],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        check=True,
        timeout=50,
    )


def test_the_pages_exist() -> None:
    assert len(PAGES) >= 8
