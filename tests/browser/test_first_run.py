"""First run: an empty server leads through push, consume and jobs, and shows what it sees."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import Process
from pathlib import Path

import pytest
from playwright.async_api import Locator, Page, expect

from tests.browser.looks import keep, overflow, violations
from tests.support.server import Server

pytestmark = pytest.mark.asyncio(loop_scope="session")

SOURCE = Path(__file__).parents[2] / "src"


async def run(code: str) -> Process:
    """Run an example program that was copied from the page."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code),
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stdout=asyncio.subprocess.PIPE,
    )


def example(page: Page, name: str) -> Locator:
    return page.locator(f'[data-example="{name}"]')


def step(page: Page, name: str) -> Locator:
    return page.locator(f'[data-step="{name}"]')


async def test_the_examples_run_and_each_step_is_marked(page: Page, empty: Server) -> None:
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.goto(empty.base_url)
    await expect(page.get_by_role("status").first).to_contain_text("Waiting for the first message")
    await keep(page, "first-run-light-1440")
    assert await violations(page) == []
    for name in ("push", "consume", "jobs"):
        await expect(step(page, name)).to_have_attribute("data-done", "false")
    copy = page.get_by_role("button", name="Copy: push.py")
    await copy.click()
    await expect(copy).to_contain_text("Copied")
    push = await page.evaluate("navigator.clipboard.readText()")
    assert push == await example(page, "push-push.py").locator("pre").inner_text()
    assert empty.base_url in push
    await page.set_viewport_size({"width": 375, "height": 812})
    await keep(page, "first-run-light-375")
    assert await overflow(page) <= 0
    other = await page.context.new_page()
    await other.goto(empty.base_url)
    await expect(other.locator("[data-live]")).to_contain_text("Live")
    await page.bring_to_front()
    await expect(page.locator("[data-live]")).to_contain_text("Live")

    await expect(page.get_by_text("You have no queues yet.")).to_be_visible()
    assert await (await run(push)).wait() == 0
    await expect(page.locator("[data-first-message]")).to_contain_text('"hello": "world"')
    await expect(step(page, "push")).to_have_attribute("data-done", "true")
    await expect(page.get_by_text("You have no queues yet.")).to_have_count(0)
    worker = await run(await example(page, "consume-worker.py").locator("pre").inner_text())
    assert worker.stdout is not None
    assert await worker.stdout.readline() == b"{'hello': 'world'}\n"
    worker.send_signal(signal.SIGTERM)
    assert await worker.wait() == 0
    await expect(step(page, "consume")).to_have_attribute("data-done", "true")
    jobs = await run(await example(page, "jobs-jobs.py").locator("pre").inner_text())
    out, _ = await jobs.communicate()
    assert (out, jobs.returncode) == (b"sent to ada@example.com\n", 0)
    await expect(step(page, "jobs")).to_have_attribute("data-done", "true")
    await keep(page, "first-message-light-375")
    assert await violations(page) == []

    await page.locator("[data-first-message]").get_by_role("link", name="offset 0").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("Message 0 of Default")
    await page.get_by_role("link", name="demo", exact=True).click()
    await expect(page.get_by_role("heading", name="demo")).to_be_visible()
    await expect(other.locator("[data-first-message]")).to_be_visible()
    await other.get_by_role("button", name="Go to overview").click()
    await expect(other.get_by_role("heading", name="Overview")).to_be_visible()
    await other.get_by_role("link", name="Get started").click()
    await expect(example(other, "jobs-jobs.py")).to_be_visible()
    await expect(other.locator("[data-first-message]")).to_have_count(0)
