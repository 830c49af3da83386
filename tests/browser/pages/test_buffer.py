"""Pushes that are buffered on disk: shown, stored, and retried after a failure."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from tests.browser.conftest import FAST
from tests.support.server import Server, until

pytestmark = [pytest.mark.nightly, pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def buffered(own_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    folder: Path = tmp_path_factory.mktemp("buffer")
    async with Server(own_dsn, {**FAST, "FILE_BUFFER_DIR": str(folder)}) as server:
        yield server


async def turn(page: Page, action: str) -> None:
    await page.get_by_role("button", name=f"{action} push maintenance").click()
    dialog = page.get_by_role("dialog")
    if action == "Start":
        await dialog.get_by_label("to confirm").fill("maintenance")
    await dialog.get_by_role("button", name=action, exact=True).click()
    await expect(dialog).to_have_count(0)


async def test_pushes_are_buffered_on_disk_during_maintenance(page: Page, buffered: Server) -> None:
    await page.goto(f"{buffered.base_url}/system")
    await turn(page, "Start")
    await expect(page.locator("[data-maintenance=push]")).to_contain_text("stopped")
    pushed = await buffered.post("/push", {"items": [{"queue": "late", "payload": 7}]})
    assert pushed.status == 202
    await page.reload()
    await expect(page.locator("main")).to_contain_text("Messages on disk1, ")
    await turn(page, "End")
    await page.get_by_role("button", name="Flush buffer").click()
    await expect(page.get_by_text("The buffered messages were stored.")).to_be_visible()
    assert (await buffered.get("/pop/queue/late")).body["messages"][0]["data"] == 7


async def test_requests_that_could_not_be_stored_are_retried(page: Page, buffered: Server) -> None:
    async def order(is_ordered: bool) -> None:
        options = {"ordered": is_ordered}
        reply = await buffered.post("/configure", {"queue": "changed", "options": options})
        assert reply.status == 200

    async def has_failed() -> bool:
        return (await buffered.get("/status/buffers")).body["failedFiles"] == 1

    item = {"queue": "changed", "payload": 8, "priority": 5}
    await order(is_ordered=False)
    assert (await buffered.post("/push", {"items": [item]})).status == 201
    await page.goto(f"{buffered.base_url}/system")
    retry = page.get_by_role("button", name="Retry failed files")
    await expect(retry).to_be_disabled()
    await turn(page, "Start")
    assert (await buffered.post("/push", {"items": [item]})).status == 202
    await order(is_ordered=True)
    await turn(page, "End")
    await until(has_failed)
    await page.reload()
    await expect(retry).to_be_enabled()
    await order(is_ordered=False)
    await retry.click()
    await expect(page.get_by_text("Retrying 1 message.")).to_be_visible()
    for _ in range(2):
        reply = await buffered.get("/pop/queue/changed", wait="true", timeout=10_000)
        assert reply.body["messages"][0]["data"] == 8


async def test_a_failed_request_is_shown_and_retried(page: Page, buffered: Server) -> None:
    await page.goto(f"{buffered.base_url}/system")
    await turn(page, "Start")
    pushed = await buffered.post("/push", {"items": [{"queue": "mended", "payload": 9}]})
    assert pushed.status == 202
    await turn(page, "End")
    problem = {"code": "database_unavailable", "detail": "the database is away"}
    await page.route("**/buffer/flush", lambda route: route.fulfill(status=503, json=problem))
    await page.get_by_role("button", name="Flush buffer").click()
    await expect(page.locator("[data-failure=failed]")).to_contain_text("the database is away")
    await expect(page.get_by_text("The buffered messages were stored.")).to_have_count(0)
    await page.unroute("**/buffer/flush")
    async with page.expect_response("**/buffer/flush") as flushed:
        await page.get_by_role("button", name="Try again").click()
    assert (await flushed.value).status == 200
    await expect(page.get_by_text("The buffered messages were stored.")).to_be_visible()
    await expect(page.locator("[data-failure]")).to_have_count(0)
    assert (await buffered.get("/pop/queue/mended")).body["messages"][0]["data"] == 9
