"""Dead letters: by error, redriven at a rate, moved, purged, exported."""

import json
import re
from pathlib import Path

import pytest
from playwright.async_api import Page, Route, expect

from tests.support.server import Server

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def bury(server: Server, queue: str, count: int, error: str = "no customer {n}") -> None:
    items = [{"queue": queue, "partition": f"p{n}", "payload": {"n": n}} for n in range(count)]
    assert (await server.post("/push", {"items": items})).status == 201
    body = {"queue": queue, "consumerGroup": "billing", "batch": count, "partitions": count}
    messages = (await server.post("/pop", body)).body["messages"]
    assert len(messages) == count
    told = [
        {
            **{name: each[name] for name in ("transactionId", "partitionId", "leaseId")},
            "status": "dlq",
            "error": error.format(n=each["data"]["n"]),
        }
        for each in messages
    ]
    answer = {"consumerGroup": "billing", "acknowledgments": told}
    assert (await server.post("/ack/batch", answer)).body["success"]


async def refuse_deletes(route: Route) -> None:
    if route.request.method == "DELETE":
        await route.fulfill(status=503, body="{}")
    else:
        await route.continue_()


async def test_dead_letters_are_reached_from_the_overview_and_grouped_by_error(
    page: Page, empty: Server
) -> None:
    await bury(empty, "grouped", 5)
    await bury(empty, "grouped", 2, "the card is stolen")
    await page.goto(f"{empty.base_url}/dead-letters")
    await page.get_by_role("link", name="grouped").click()
    errors = page.get_by_role("table", name="Errors").locator("tbody tr")
    await expect(errors).to_have_count(2)
    await expect(errors.filter(has_text="no customer")).to_contain_text("5")
    letters = page.get_by_role("table", name="Dead letters").locator("tr[aria-rowindex]")
    await expect(letters).to_have_count(7)
    await page.get_by_role("button", name="the card is stolen", exact=True).click()
    await expect(letters).to_have_count(2)
    url = page.url
    await page.reload()
    await expect(letters).to_have_count(2)
    assert page.url == url
    await letters.first.locator("[data-row]").click()
    await expect(page.locator("[data-group=billing]")).to_contain_text("the card is stolen")


async def test_a_redrive_at_a_rate_continues_and_can_be_cancelled(
    page: Page, empty: Server
) -> None:
    await bury(empty, "slowly", 40)
    await page.goto(f"{empty.base_url}/dead-letters?queue=slowly")
    await page.get_by_role("button", name="Redrive: no customer").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.locator("[data-dry-run]")).to_contain_text("Matching dead letters: 40.")
    await dialog.get_by_label("Maximum per second").fill("2")
    await dialog.get_by_role("button", name="Redrive", exact=True).click()
    card = page.locator("[data-operation]")
    await expect(card).to_contain_text("Redrive")
    await expect(card.get_by_role("progressbar")).to_be_visible()
    await expect(card).to_contain_text("of 40")
    await card.get_by_role("button", name="Cancel").click()
    await expect(page.locator("[data-operation=cancelled]")).to_be_visible()
    left = (await empty.get("/dlq", queue="slowly")).body["total"]
    assert 0 < left < 41


async def test_a_rejected_cancel_shows_an_error(page: Page, empty: Server) -> None:
    await bury(empty, "refused", 3)
    await page.route("**/api/v1/operations/*", refuse_deletes)
    await page.goto(f"{empty.base_url}/dead-letters?queue=refused")
    await page.get_by_role("button", name="Redrive all matches").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Maximum per second").fill("0.1")
    await dialog.get_by_role("button", name="Redrive", exact=True).click()
    card = page.locator("[data-operation]")
    await card.get_by_role("button", name="Cancel").click()
    await expect(card.get_by_role("alert")).to_contain_text("The server returned status 503")


async def test_a_redrive_of_all_returns_them_to_their_group(page: Page, empty: Server) -> None:
    await bury(empty, "again", 3)
    await page.goto(f"{empty.base_url}/dead-letters?queue=again")
    await page.get_by_role("button", name="Redrive all matches").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("button", name="Redrive", exact=True).click()
    await expect(page.locator("[data-operation=done]")).to_be_visible()
    await expect(page.locator("[data-empty]")).to_contain_text("No matching dead letters")
    popped = await empty.get("/pop/queue/again", consumerGroup="billing")
    assert popped.body["messages"][0]["attempt"] == 1


async def test_only_selected_dead_letters_are_redriven(page: Page, empty: Server) -> None:
    await bury(empty, "picked", 3)
    await page.goto(f"{empty.base_url}/dead-letters?queue=picked")
    await page.get_by_role("checkbox", name="Select offset 0 of p1").check()
    await page.get_by_role("button", name="Redrive 1 selected").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.locator("[data-dry-run]")).to_contain_text("Matching dead letters: 1.")
    await dialog.get_by_role("button", name="Redrive", exact=True).click()
    letters = page.get_by_role("table", name="Dead letters").locator("tr[aria-rowindex]")
    await expect(letters).to_have_count(2)
    await expect(page.get_by_text("1 redriven")).to_be_visible()


async def test_only_selected_dead_letters_are_purged(page: Page, empty: Server) -> None:
    await bury(empty, "thrown away", 3)
    await page.goto(f"{empty.base_url}/dead-letters?queue=thrown%20away")
    for partition in ("p0", "p2"):
        await page.get_by_role("checkbox", name=f"Select offset 0 of {partition}").check()
    await page.get_by_role("button", name="Purge 2 selected").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.locator("[data-dry-run]")).to_have_text("Dead letters to delete: 2.")
    await dialog.get_by_label("to confirm").fill("thrown away")
    await dialog.get_by_role("button", name="Purge", exact=True).click()
    await expect(page.get_by_text("2 purged")).to_be_visible()
    left = (await empty.get("/dlq", queue="thrown away")).body["messages"]
    assert [each["partition"] for each in left] == ["p1"]
    await expect(page.get_by_role("button", name="Purge all matches")).to_be_visible()


async def test_the_selection_is_cleared_after_an_action(page: Page, empty: Server) -> None:
    await bury(empty, "all of them", 3)
    await page.goto(f"{empty.base_url}/dead-letters?queue=all%20of%20them")
    everything = page.get_by_role("checkbox", name="Select all loaded")
    await everything.check()
    await page.get_by_role("checkbox", name="Select offset 0 of p1").uncheck()
    await expect(everything).not_to_be_checked()
    await page.get_by_role("button", name="Redrive 2 selected").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Maximum per second").fill("1000")
    await dialog.get_by_role("button", name="Redrive", exact=True).click()
    await expect(page.locator("[data-operation=done]")).to_be_visible()
    await expect(page.get_by_role("button", name="Redrive all matches")).to_be_visible()


async def test_without_a_count_no_dead_letter_is_redriven(page: Page, empty: Server) -> None:
    await bury(empty, "uncounted", 1)
    await page.route("**/dlq/redrive", lambda route: route.fulfill(status=503, body="{}"))
    await page.goto(f"{empty.base_url}/dead-letters?queue=uncounted")
    await page.get_by_role("button", name="Redrive all matches").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.locator("[data-failure]")).to_be_visible()
    await expect(dialog.get_by_role("button", name="Redrive", exact=True)).to_be_disabled()


async def test_one_error_is_purged_and_the_others_stay(page: Page, empty: Server) -> None:
    await bury(empty, "partly", 2)
    await bury(empty, "partly", 1, "the card is stolen")
    await page.goto(f"{empty.base_url}/dead-letters?queue=partly")
    await page.get_by_role("button", name="Purge: the card is stolen").click()
    await expect(page.locator("[data-dry-run]")).to_have_text("Dead letters to delete: 1.")
    await page.get_by_label("to confirm").fill("partly")
    await page.get_by_role("dialog").get_by_role("button", name="Purge", exact=True).click()
    await expect(page.locator("[data-operation=done]")).to_be_visible()
    assert (await empty.get("/dlq", queue="partly")).body["total"] == 2


async def test_a_purge_requires_the_name_of_the_queue(page: Page, empty: Server) -> None:
    await bury(empty, "purged", 2)
    await page.goto(f"{empty.base_url}/dead-letters?queue=purged")
    await page.get_by_role("button", name="Purge all matches").click()
    await expect(page.locator("[data-dry-run]")).to_have_text("Dead letters to delete: 2.")
    purge = page.get_by_role("dialog").get_by_role("button", name="Purge", exact=True)
    await expect(purge).to_be_disabled()
    await page.get_by_label("to confirm").fill("purged")
    await purge.click()
    await expect(page.locator("[data-operation=done]")).to_be_visible()
    assert (await empty.get("/dlq", queue="purged")).body["messages"] == []


async def test_dead_letters_are_exported_unchanged(
    page: Page, empty: Server, tmp_path: Path
) -> None:
    await bury(empty, "exported", 3)
    await page.goto(f"{empty.base_url}/dead-letters?queue=exported")
    await expect(page.get_by_role("table", name="Dead letters")).to_be_visible()
    async with page.expect_download() as download:
        await page.get_by_role("button", name="Export").click()
    path = tmp_path / "letters.jsonl"
    await (await download.value).save_as(path)
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert sorted(each["data"]["n"] for each in lines) == [0, 1, 2]
    assert {each["consumerGroup"] for each in lines} == {"billing"}


async def test_a_failed_export_shows_an_error(page: Page, empty: Server) -> None:
    await bury(empty, "unexported", 1)
    await page.route(
        "**/api/v1/dlq?*limit=500*", lambda route: route.fulfill(status=503, body="{}")
    )
    await page.goto(f"{empty.base_url}/dead-letters?queue=unexported")
    await page.get_by_role("button", name="Export").click()
    await expect(page.locator("[data-failure]")).to_be_visible()
    await page.unroute("**/api/v1/dlq?*limit=500*")
    async with page.expect_download():
        await page.get_by_role("button", name="Try again").click()
    await expect(page.get_by_text("1 exported")).to_be_visible()


async def test_an_export_has_the_dead_letters_of_the_chosen_queue(
    page: Page, empty: Server
) -> None:
    await bury(empty, "exported first", 1)
    await bury(empty, "exported never", 1)
    held: list[Route] = []

    async def hold(route: Route) -> None:
        held.append(route)

    await page.route("**/api/v1/dlq?*limit=500*", hold)
    downloads: list[object] = []
    page.on("download", lambda download: downloads.append(download))
    await page.goto(f"{empty.base_url}/dead-letters?queue=exported%20first")
    await page.get_by_role("button", name="Export").click()
    await expect(page.get_by_role("button", name="Export")).to_be_disabled()
    picker = page.get_by_role("combobox", name="Queue")
    await picker.fill("exported never")
    await picker.press("Enter")
    await expect(page).to_have_url(re.compile("queue=exported(%20|\\+)never"))
    (route,) = held
    await route.continue_()
    await expect(page.get_by_role("button", name="Export")).to_be_enabled()
    assert downloads == []
    assert "exported" not in (await page.get_by_role("status").first.inner_text())

    await page.get_by_role("button", name="Export").click()
    await expect(page.get_by_role("button", name="Export")).to_be_disabled()
    await held[1].fulfill(status=503, body="{}")
    await expect(page.locator("[data-failure]")).to_be_visible()
    await picker.fill("exported first")
    await picker.press("Enter")
    await expect(page.locator("[data-failure]")).to_have_count(0)


async def test_a_redrive_can_target_another_queue(page: Page, empty: Server) -> None:
    await bury(empty, "from here", 2)
    await empty.post("/configure", {"queue": "to there"})
    await page.goto(f"{empty.base_url}/dead-letters?queue=from%20here")
    await page.get_by_role("button", name="Redrive all matches").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Redrive to another queue").check()
    redrive = dialog.get_by_role("button", name="Redrive", exact=True)
    await expect(redrive).to_be_disabled()
    await dialog.get_by_label("Destination queue").fill("to there")
    await dialog.get_by_label("Partition").fill("second")
    await redrive.click()
    await expect(page.locator("[data-operation=done]")).to_be_visible()
    popped = await empty.get("/pop/queue/to%20there/partition/second", batch=9)
    assert [each["data"]["n"] for each in popped.body["messages"]] == [0, 1]
