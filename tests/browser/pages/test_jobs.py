"""Jobs and schedules: lists, results and actions."""

import asyncio
import os

import pytest
from playwright.async_api import Page, expect

from queen import Queen
from queen.jobs import Job, QueueManager
from tests.browser.looks import keep
from tests.browser.shop import BIG
from tests.support.server import Server, until

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_jobs_are_found_by_queue_status_and_name(page: Page, demo: Server) -> None:
    await page.goto(f"{demo.base_url}/jobs")
    await page.get_by_role("button", name="media", exact=True).click()
    rows = page.get_by_role("table", name="Jobs", exact=True).locator("tr[aria-rowindex]")
    await expect(rows).to_have_count(4)
    await page.get_by_label("Status").select_option("failed")
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text("the disk is full")
    url = page.url
    await page.reload()
    await expect(rows).to_have_count(1)
    assert page.url == url
    await page.get_by_label("Status").select_option("scheduled")
    await expect(rows).to_contain_text("cleanup")
    await page.get_by_label("Status").select_option("any")
    await page.get_by_placeholder("Processor name").fill("publish")
    await page.get_by_placeholder("Processor name").press("Enter")
    await expect(rows).to_have_count(1)


async def test_a_job_shows_its_data_and_its_result(page: Page, demo: Server) -> None:
    await page.goto(f"{demo.base_url}/jobs?queue=media&status=completed")
    await page.get_by_role("table", name="Jobs", exact=True).locator("[data-row]").click()
    await expect(page.get_by_role("region", name="Tree of data")).to_contain_text(str(BIG))
    await expect(page.get_by_role("region", name="Tree of result")).to_contain_text("800")
    await expect(page.get_by_label("Details")).to_contain_text(f'"id":{BIG}')
    await page.reload()
    await expect(page.get_by_role("region", name="Tree of result")).to_contain_text(str(BIG))


async def test_a_worker_is_listed_while_it_sends_heartbeats(page: Page, demo: Server) -> None:
    begun, goes_on = asyncio.Event(), asyncio.Event()
    await page.goto(f"{demo.base_url}/jobs")
    await page.get_by_role("link", name="workers").click()
    await expect(page.locator("[data-empty]")).to_contain_text("No workers connected")
    async with Queen(demo.base_url) as queen:
        jobs = QueueManager(queen)

        @jobs.processor("shown-worker")
        async def wait(job: Job[None]) -> None:
            begun.set()
            await goes_on.wait()

        await wait.add(None)
        await jobs.start_workers()
        await begun.wait()

        async def is_heard_of() -> bool:
            return any(worker.queues[0].running for worker in await jobs.get_workers())

        await until(is_heard_of)
        await page.reload()
        row = page.get_by_role("table", name="Workers").locator("tr[aria-rowindex]")
        await expect(row).to_contain_text(f":{os.getpid()}:")
        await expect(row.get_by_role("cell").nth(2)).to_have_text("1")
        await keep(page, "workers-running-light-1440")
        await row.get_by_role("link", name="shown-worker").click()
        await expect(page.get_by_role("table", name="Jobs", exact=True)).to_contain_text("active")
        goes_on.set()
        await jobs.shutdown()


async def test_a_failed_job_is_retried(page: Page, demo: Server) -> None:
    await page.goto(f"{demo.base_url}/jobs?queue=media&status=failed")
    await page.get_by_role("table", name="Jobs", exact=True).locator("[data-row]").click()
    await expect(page.locator("main")).to_contain_text("worker.py, line 12")
    await page.get_by_role("button", name="Retry").click()
    await page.get_by_role("dialog").get_by_role("button", name="Retry").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("waiting")


async def test_a_job_is_cancelled(page: Page, demo: Server) -> None:
    job = {"queue": "media", "name": "unwanted", "data": 1}
    added = (await demo.post("/jobs", job)).body
    await page.goto(f"{demo.base_url}/jobs/media/{added['id']}")
    await page.get_by_role("button", name="Cancel").click()
    await page.get_by_label("to confirm").fill("cancel")
    await page.get_by_role("dialog").get_by_role("button", name="Cancel job").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("cancelled")
    shown = await demo.get(f"/jobs/media/{added['id']}")
    assert shown.body["status"] == "cancelled"


async def test_a_schedule_is_run_paused_resumed_and_deleted(page: Page, demo: Server) -> None:
    made = {"name": "hourly", "queue": "media", "cron": "0 * * * *", "payload": {"kind": "hourly"}}
    assert (await demo.post("/schedules", made)).status == 200
    await page.goto(f"{demo.base_url}/jobs?tab=schedules")
    row = page.get_by_role("table", name="Schedules").locator("tr").filter(has_text="hourly")
    dialog = page.get_by_role("dialog")
    for action in ("Run", "Pause", "Resume"):
        label = f"{action} hourly now" if action == "Run" else f"{action} hourly"
        await row.get_by_role("button", name=label).click()
        await dialog.get_by_role("button", name=action, exact=True).click()
        await expect(dialog).to_have_count(0)
        paused = (await demo.get("/schedules/hourly")).body["paused"]
        assert paused is (action == "Pause")
    await row.get_by_role("button", name="Delete hourly").click()
    await page.get_by_label("to confirm").fill("hourly")
    await dialog.get_by_role("button", name="Delete", exact=True).click()
    await expect(dialog).to_have_count(0)  # An open dialog hides the page from queries by role.
    await expect(row).to_have_count(0)
    assert (await demo.get("/schedules/hourly")).status == 404


async def test_a_job_links_to_its_message_and_back(page: Page, demo: Server) -> None:
    await page.goto(f"{demo.base_url}/jobs?queue=media&status=completed")
    await page.get_by_role("table", name="Jobs", exact=True).locator("[data-row]").click()
    await page.get_by_role("link", name="Open message").click()
    await expect(page.get_by_role("region", name="Tree of payload")).to_contain_text(str(BIG))
    await page.go_back()
    await page.get_by_role("link", name="Jobs in media").click()
    await expect(page).to_have_url(f"{demo.base_url}/jobs?queue=media")
