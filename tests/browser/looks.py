"""The appearance of a page, and the findings of axe."""

from pathlib import Path
from typing import Any

from playwright.async_api import Page, expect

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


async def look(page: Page, name: str) -> None:
    """Check the current page in both themes with axe, and save screenshots."""
    for theme in ("light", "dark"):
        await page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        await expect(page.locator(f"html[data-theme={theme}]")).to_be_attached()
        size = page.viewport_size
        assert size is not None
        await keep(page, f"{name}-{theme}-{size['width']}")
        found = await violations(page)
        assert not found, "\n".join(found)
        assert await overflow(page) <= 0
