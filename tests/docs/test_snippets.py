"""Python snippets in the docs run unchanged, each page from top to bottom, in its own process."""

import re
import subprocess
import sys
from pathlib import Path

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

RUNNER = """
import ast, asyncio, inspect, sys, types

async def run():
    names = {"__name__": "page"}
    code = compile(sys.stdin.read(), "page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = types.FunctionType(code, names)()
    if inspect.iscoroutine(result):
        await result
    await names["queen"].close()

asyncio.run(run())
"""
"""A snippet may configure its process, for example its tracing: nothing of it reaches a test."""


def code_of(page: str) -> str:
    text = (DOCS / page).read_text("utf-8")
    return "\n".join(re.findall(r"^```python\n(.*?)^```$", text, flags=RUN))


@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs(process: Server, page: str) -> None:
    source = code_of(page).replace(LOCAL, process.base_url)

    ran = subprocess.run(
        [sys.executable, "-c", RUNNER], input=source, capture_output=True, text=True, timeout=60
    )

    assert ran.returncode == 0, ran.stderr


def test_the_pages_exist() -> None:
    assert len(PAGES) >= 8
