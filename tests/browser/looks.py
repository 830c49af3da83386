"""What a page looks like, and what axe says of it."""

from pathlib import Path
from typing import Any

from playwright.async_api import Page

ROOT = Path(__file__).parents[2]
SCREENSHOTS = ROOT / "screenshots"
_AXE = ROOT / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"


async def violations(page: Page) -> list[str]:
    """What axe finds wrong, a line each: the rule, and where."""
    await page.evaluate(_AXE.read_text("utf-8"))
    found: dict[str, Any] = await page.evaluate("axe.run(document)")
    return [
        f"{each['id']}: {node['target']} {node['failureSummary']}"
        for each in found["violations"]
        for node in each["nodes"]
    ]


async def overflow(page: Page) -> int:
    """By how many pixels the page is wider than the window."""
    return await page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )


async def keep(page: Page, name: str) -> None:
    """Leave a screenshot for people."""
    SCREENSHOTS.mkdir(exist_ok=True)
    await page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)
