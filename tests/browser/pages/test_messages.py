"""Messages: searched, shown, compared, retried, dead-lettered, copied, redacted, tailed."""

import json
import re
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.support.server import Server, until

pytestmark = pytest.mark.asyncio(loop_scope="session")

BIG = 12345678901234567890


async def push(server: Server, queue: str, payload: object, **fields: object) -> Any:  # noqa: ANN401 - JSON
    item = {"queue": queue, "payload": payload, **fields}
    reply = await server.post("/push", {"items": [item]})
    assert reply.status == 201
    return reply.body["messages"][0]


async def fail(server: Server, queue: str, status: str = "failed") -> None:
    popped = await server.get(f"/pop/queue/{queue}", consumerGroup="billing")
    (message,) = popped.body["messages"]
    names = ("transactionId", "partitionId", "leaseId", "consumerGroup")
    told = {name: message[name] for name in names}
    reply = await server.post("/ack", {**told, "status": status, "error": "no such customer 7"})
    assert reply.status == 200


async def test_messages_are_found_by_search_fields(page: Page, empty: Server) -> None:
    await empty.post("/configure", {"queue": "found", "options": {"retryDelay": 3_600_000}})
    await push(empty, "found", {"customer": {"id": BIG}, "city": "Köln"}, partition="eu/1")
    await push(empty, "found", {"customer": {"id": 42}, "city": "Paris"}, partition="us")
    await fail(empty, "found")
    rows = page.get_by_role("table", name="Messages").locator("tbody tr[aria-rowindex]")
    search = page.get_by_role("combobox", name="Search messages")

    await page.goto(f"{empty.base_url}/messages?queue=found")
    await expect(rows).to_have_count(2)
    for text, many in {
        f"payload.customer.id:{BIG}": 1,
        f"payload.customer.id:{BIG + 1}": 0,
        'payload.city:"Köln"': 1,
        "Paris": 1,
        "partition:us": 1,
        "status:failed": 1,
        "group:billing status:pending": 1,
        "from:-1h customer": 2,
        "to:-1h": 0,
    }.items():
        await search.fill(text)
        await search.press("Enter")
        await expect(rows).to_have_count(many)
        if not many:
            await expect(page.locator("[data-empty]")).to_contain_text("No matching messages")
    await expect(page.locator("[data-scanned]")).to_contain_text("searched")
    await search.fill("status:odd")
    await search.press("Enter")
    await expect(page.get_by_role("alert")).to_contain_text("status must be one of")
    await search.fill("Köln")
    await search.press("Enter")
    url = page.url
    await page.reload()
    await expect(rows).to_have_count(1)
    assert page.url == url
    await expect(search).to_have_value("Köln")


async def test_a_search_suggests_existing_names(page: Page, empty: Server) -> None:
    await push(empty, "offers", 1, partition="north")
    await page.goto(f"{empty.base_url}/messages?queue=offers")
    search = page.get_by_role("combobox", name="Search messages")
    options = page.locator("form[role=search] datalist").nth(1).locator("option")
    await search.fill("sta")
    await expect(options).to_have_count(1)
    assert await options.first.get_attribute("value") == "status:"
    await search.fill("late partition:no")
    await expect(options.first).to_have_attribute("value", "late partition:north")


async def test_a_payload_is_shown_completely_with_every_digit(page: Page, empty: Server) -> None:
    long = "x" * 5_000
    payload = {"big": BIG, "deep": {"a": {"b": {"c": [1.5, {"d": "found me"}]}}}, "long": long}
    pushed = await push(empty, "whole", {**payload, "many": [*range(500)]}, headers={"h-1": "v"})
    await page.goto(f"{empty.base_url}/messages?queue=whole")
    await page.locator("[data-row]").click()
    tree = page.get_by_role("region", name="Tree of payload")
    await expect(tree.locator("[data-path=big]")).to_contain_text(str(BIG))
    await expect(tree.locator("[data-path=long]")).to_contain_text(long)
    await expect(page.locator("main")).to_contain_text("h-1")
    await expect(tree.locator("[data-path='deep.a.b.c[1].d']")).to_have_count(0)
    await page.get_by_placeholder("Search keys and values").fill("found me")
    await expect(tree.locator("[data-path='deep.a.b.c[1].d'][data-found]")).to_be_visible()
    await page.get_by_placeholder("Search keys and values").fill("")
    await tree.get_by_role("button", name="Expand many").click()
    await tree.get_by_role("button", name="Show more").click()
    await expect(tree.locator("[data-path='many[499]']")).to_be_attached()
    await page.get_by_role("button", name="text", exact=True).click()
    shown = await page.locator("pre").inner_text()
    assert json.loads(shown)["big"] == BIG
    assert json.loads(shown)["many"] == [*range(500)]
    await expect(page).to_have_url(re.compile(re.escape(pushed["id"])))


async def test_a_trace_id_links_to_the_tracing_system(page: Page, own_dsn: str) -> None:
    url = "https://traces.example.com/trace/{traceId}?from=queen"
    async with Server(own_dsn, {"QUEEN_TRACE_URL": url}) as server:
        traced = await push(server, "traced", 1, traceId="4bf92f3577b34da6/é")
        await page.goto(f"{server.base_url}/messages/{traced['id']}")
        link = page.get_by_role("link", name="4bf92f3577b34da6/é")
        await expect(link).to_have_attribute(
            "href", "https://traces.example.com/trace/4bf92f3577b34da6%2F%C3%A9?from=queen"
        )
        await expect(link).to_have_attribute("rel", "noopener noreferrer")


async def test_a_path_and_a_value_are_copied(page: Page, empty: Server) -> None:
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    pushed = await push(empty, "copied", {"a b": {"n": BIG}})

    async def copied(text: str) -> bool:
        return await page.evaluate("navigator.clipboard.readText()") == text

    await page.goto(f"{empty.base_url}/messages/{pushed['id']}")
    await page.get_by_role("button", name='Copy path ["a b"].n').click(force=True)
    await until(lambda: copied('["a b"].n'))
    await page.get_by_role("button", name='Copy value of ["a b"].n').click(force=True)
    await until(lambda: copied(str(BIG)))


async def test_two_messages_are_compared(page: Page, empty: Server) -> None:
    await push(empty, "compared", {"id": BIG, "same": 1, "old": True})
    await push(empty, "compared", {"id": BIG + 1, "same": 1, "new": True})
    await page.goto(f"{empty.base_url}/messages?queue=compared")
    await page.get_by_role("checkbox").first.check()
    await page.get_by_role("checkbox").nth(1).check()
    await page.get_by_role("link", name="Compare").click()
    table = page.get_by_role("table", name="Differences")
    await expect(table.locator("[data-row]")).to_have_count(3)
    await expect(table).to_contain_text(str(BIG + 1))
    await page.reload()
    await expect(table.locator("[data-row]")).to_have_count(3)


async def test_a_waiting_message_is_retried_immediately(page: Page, empty: Server) -> None:
    await empty.post("/configure", {"queue": "again", "options": {"retryDelay": 3_600_000}})
    pushed = await push(empty, "again", 1)
    await fail(empty, "again")
    await page.goto(f"{empty.base_url}/messages/{pushed['id']}")
    group = page.locator("[data-group=billing]")
    await expect(group).to_contain_text("no such customer 7")
    await expect(page.get_by_role("list", name="Timeline")).to_contain_text("Next attempt")
    await group.get_by_role("button", name="Retry").click()
    await page.get_by_role("dialog").get_by_role("button", name="Retry").click()
    await expect(page.get_by_role("dialog")).to_have_count(0)
    popped = await empty.get("/pop/queue/again", consumerGroup="billing")
    assert popped.body["messages"][0]["attempt"] == 2


async def test_a_message_is_dead_lettered_and_moved_to_another_queue(
    page: Page, empty: Server
) -> None:
    await empty.post("/configure", {"queue": "given", "options": {"retryDelay": 3_600_000}})
    await push(empty, "elsewhere", 0)
    pushed = await push(empty, "given", {"n": BIG})
    await fail(empty, "given")
    await page.goto(f"{empty.base_url}/messages/{pushed['id']}")
    await page.get_by_role("button", name="Dead-letter").click()
    await page.get_by_label("Reason").fill("a person said so")
    await page.get_by_role("dialog").get_by_role("button", name="Dead-letter").click()
    await expect(page.locator("[data-group=billing]")).to_contain_text("dead letter")
    await expect(page.locator("[data-group=billing]")).to_contain_text("a person said so")

    await page.get_by_role("button", name="Move").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.locator("[data-dry-run]")).to_contain_text("Matching dead letters: 1.")
    await expect(dialog.get_by_role("button", name="Move", exact=True)).to_be_disabled()
    await dialog.get_by_label("Destination queue").fill("elsewhere")
    await dialog.get_by_label("Destination queue").press("Tab")
    await dialog.get_by_role("button", name="Move", exact=True).click()
    await expect(dialog).to_have_count(0)
    found = await empty.get("/messages", queue="elsewhere")
    assert [each["data"] for each in found.body["messages"]] == [{"n": BIG}, 0]


async def test_a_copy_is_pushed_with_every_digit(page: Page, empty: Server) -> None:
    pushed = await push(empty, "cloned", {"n": BIG, "f": 1.0}, partition="eu", headers={"h": "v"})
    await page.goto(f"{empty.base_url}/messages/{pushed['id']}")
    await page.get_by_role("button", name="Push a copy").click()
    await page.get_by_label("Partition").fill("us")
    await page.get_by_role("dialog").get_by_role("button", name="Push", exact=True).click()
    await page.locator("[data-pushed]").get_by_role("link").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("Message 0 of us")
    copy = (await empty.get("/messages", queue="cloned", partition="us")).body["messages"][0]
    assert (copy["data"], copy["headers"]) == ({"n": BIG, "f": 1.0}, {"h": "v"})


async def test_redacting_requires_a_confirmation_and_erases_the_payload(
    page: Page, empty: Server
) -> None:
    pushed = await push(empty, "redacted", {"card": "4711"})
    await page.goto(f"{empty.base_url}/messages/{pushed['id']}")
    await page.get_by_role("button", name="Redact").click()
    redact = page.get_by_role("dialog").get_by_role("button", name="Redact")
    await expect(redact).to_be_disabled()
    await page.get_by_label("to confirm").fill("redact")
    await redact.click()
    await expect(page.locator("main")).to_contain_text("were erased")
    assert "4711" not in await page.locator("main").inner_text()


async def test_a_scheduled_message_is_shown_and_cancelled(page: Page, empty: Server) -> None:
    await push(empty, "later", {"n": 1}, delaySeconds=3_600, transactionId="t/1 %")
    await page.goto(f"{empty.base_url}/messages?queue=later&q=status:scheduled")
    await page.locator("[data-row]").click()
    await expect(page.get_by_role("list", name="Timeline")).to_contain_text("Due")
    await page.reload()
    await page.get_by_role("button", name="Cancel").click()
    await page.get_by_label("to confirm").fill("cancel")
    await page.get_by_role("dialog").get_by_role("button", name="Cancel message").click()
    await expect(page.get_by_role("status").first).to_contain_text(
        "Cancelled. It will not be delivered"
    )
    found = await empty.get("/messages", queue="later", status="scheduled")
    assert found.body["messages"] == []


async def test_a_tail_shows_new_messages_and_can_be_paused(page: Page, empty: Server) -> None:
    await push(empty, "followed", {"n": 0})
    await page.clock.install()
    await page.goto(f"{empty.base_url}/tail?queue=followed")
    lines = page.get_by_role("list", name="Incoming messages").locator("[data-row]")
    await expect(lines).to_have_count(1)
    await push(empty, "followed", {"n": BIG}, partition="other")
    await page.clock.run_for(1_500)
    await expect(lines).to_have_count(2)
    await expect(lines.first).to_contain_text(str(BIG))
    await page.get_by_role("button", name="Pause tail").click()
    await push(empty, "followed", {"n": 2})
    await page.clock.run_for(5_000)
    await expect(lines).to_have_count(2)
    await page.get_by_role("button", name="Resume tail").click()
    await page.clock.run_for(1_500)
    await expect(lines).to_have_count(3)
    assert len((await empty.get("/pop/queue/followed")).body["messages"]) == 1


async def test_a_tail_has_the_filters_of_the_search(page: Page, empty: Server) -> None:
    await push(empty, "filtered", {"kind": "a"})
    await page.goto(f"{empty.base_url}/tail?queue=filtered&q=payload.kind:b")
    lines = page.get_by_role("list", name="Incoming messages").locator("[data-row]")
    await expect(page.get_by_text("Waiting for messages")).to_be_visible()
    await push(empty, "filtered", {"kind": "a"})
    await push(empty, "filtered", {"kind": "b"})
    await expect(lines).to_have_count(1)
    await expect(lines).to_contain_text('"b"')


async def test_a_missing_message_shows_an_explanation(page: Page, empty: Server) -> None:
    await page.goto(f"{empty.base_url}/messages/nothing")
    await expect(page.locator("[data-failure=missing]")).to_be_visible()
    await page.goto(f"{empty.base_url}/messages?queue=nothing-here")
    await expect(page.locator("[data-failure=missing]")).to_be_visible()


async def test_a_search_without_matches_continues_automatically(page: Page, empty: Server) -> None:
    await push(empty, "deep", {"name": "needle"})
    many = {"items": [{"queue": "deep", "payload": 0}] * 6_000}
    assert (await empty.post("/push", many)).status == 201

    await page.goto(f"{empty.base_url}/messages?queue=deep&q=payload.name:needle")

    await expect(page.locator("[data-row]")).to_have_count(1)
    await expect(page.locator("[data-scanned]")).to_contain_text("searched all 6,001")
