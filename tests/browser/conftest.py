"""Chromium on the built dashboard of a real server, with queues that are stuck in every way."""

import os
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
import pytest_asyncio
from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    async_playwright,
    expect,
)

from queen import Queen
from tests.browser.bare import chromium
from tests.browser.history import write_history
from tests.browser.scenes import scenes
from tests.browser.shop import write_shop
from tests.support.postgres import Server as PostgresServer
from tests.support.server import Server

FAST = {
    "QUEEN_COUNTERS_FLUSH_SECONDS": "0.2",
    "QUEEN_SAMPLE_SECONDS": "0.2",
    "SYSTEM_STATS_UPDATE_INTERVAL": "500",
}
WIDE = 1440
NARROW = 375
expect.set_options(timeout=20_000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Set longer timeouts, because a browser starts and draws slowly on few cores."""
    for item in items:
        is_here = "tests/browser" in item.path.as_posix()
        if is_here and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(180))


@pytest.fixture(scope="module")
def own_dsn(postgres: PostgresServer, template: str) -> str:
    """A database for the tests of a file."""
    return postgres.create_database(f"browser_{uuid4().hex}", template=template)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def empty(own_dsn: str) -> AsyncIterator[Server]:
    """A server without messages."""
    async with Server(own_dsn, FAST) as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def demo(own_dsn: str) -> AsyncIterator[Server]:
    """A server with stuck queues, workflow runs, and a day of history."""
    async with Server(own_dsn, {**FAST, "QUEEN_ENVIRONMENT": "production"}) as server:
        async with Queen(server.base_url) as queen:
            await scenes(queen)
            orders = queen.queue("demo.orders").namespace("shop").task("bill")
            await orders.create()
            await orders.partition("customer-1").push([{"data": {"order": 1, "total": 12}}])
            (message,) = await orders.group("billing").pop()
            await queen.ack(message, "dlq", {"error": "the card is stolen", "group": "billing"})
        await server.post("/tokens", {"name": "shop", "role": "read-write"})
        await write_shop(server, own_dsn)
        await write_history(own_dsn)
        yield server


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Debian's Chromium, once per process. As root, it runs without a sandbox."""
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium(), args=arguments)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="session")
async def context(browser: Browser) -> AsyncIterator[BrowserContext]:
    """A new visitor, without stored data."""
    context = await browser.new_context(
        locale="en-US",
        timezone_id="UTC",
        color_scheme="light",
        reduced_motion="reduce",
        viewport={"width": WIDE, "height": 900},
    )
    context.set_default_timeout(15_000)
    yield context
    await context.close()


@pytest_asyncio.fixture(loop_scope="session")
async def page(context: BrowserContext) -> AsyncIterator[Page]:
    """A tab whose console errors and policy violations fail the test."""
    page = await context.new_page()
    wrongs: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        # Chromium also logs each rejected or failed request, which the tests check themselves.
        if message.type == "error" and "Failed to load resource" not in message.text:
            wrongs.append(message.text)

    page.on("console", hear)
    page.on("pageerror", lambda error: wrongs.append(str(error)))
    yield page
    await page.close()
    assert [each for each in wrongs if "WebSocket connection" not in each] == []
