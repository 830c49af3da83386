"""The appearance of a page, and the findings of axe."""

from pathlib import Path
from typing import Any

from playwright.async_api import Page

ROOT = Path(__file__).parents[2]
SCREENSHOTS = ROOT / "screenshots"
_AXE = ROOT / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"


async def violations(page: Page) -> list[str]:
    """The findings of axe, one per line: the rule and the place."""
    await page.evaluate(_AXE.read_text("utf-8"))
    found: dict[str, Any] = await page.evaluate("axe.run(document)")
    return [
        f"{each['id']}: {node['target']} {node['failureSummary']}"
        for each in found["violations"]
        for node in each["nodes"]
    ]


async def overflow(page: Page) -> int:
    """The number of pixels by which the page is wider than the window."""
    return await page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )


async def keep(page: Page, name: str) -> None:
    """Save a screenshot for people."""
    SCREENSHOTS.mkdir(exist_ok=True)
    await page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)
