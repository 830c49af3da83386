"""Python in the pages for people runs as it stands there, a page from top to bottom."""

import ast
import inspect
import re
import types
from pathlib import Path
from typing import Any

import pytest

from tests.server.server import Server

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(
    str(path.relative_to(DOCS))
    for folder in ("tutorial", "howto")
    for path in (DOCS / folder).glob("*.md")
    if "```python" in path.read_text("utf-8")
)


def code_of(page: str) -> str:
    text = (DOCS / page).read_text("utf-8")
    return "\n".join(re.findall(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE))


@pytest.mark.parametrize("page", PAGES)
async def test_a_page_runs(process: Server, page: str) -> None:
    source = code_of(page).replace("http://localhost:6632", process.base_url)
    names: dict[str, Any] = {"__name__": page}
    code = compile(source, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = types.FunctionType(code, names)()
    if inspect.iscoroutine(result):
        await result
    await names["queen"].close()


def test_the_pages_are_there() -> None:
    assert len(PAGES) >= 8
