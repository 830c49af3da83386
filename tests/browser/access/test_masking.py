"""An encrypted message is masked on every page, until a permitted user reveals it."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
import pytest_asyncio
from playwright.async_api import Page, Request, expect

from tests.browser.access.test_access import sign_in
from tests.browser.conftest import FAST, NARROW, WIDE
from tests.browser.frame.test_looks import look
from tests.support.callers import KEYS, Caller, make_key
from tests.support.server import Server

pytestmark = pytest.mark.asyncio(loop_scope="session")

CANARY = "canary-5e02"
OPTIONS = {"encryptionEnabled": True, "ordered": False}


class Vault(NamedTuple):
    """A server with an encrypted queue, and its users."""

    server: Server
    admin: Caller
    reader: Caller
    ids: list[str]


def payload(n: int) -> dict[str, Any]:
    """The payload of a job, so that the pages of messages and jobs show it."""
    return {"name": CANARY, "customer": {"id": n}, "data": {"n": n}}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def vault(own_dsn: str) -> AsyncIterator[Vault]:
    async with Server(own_dsn, {**FAST, **KEYS, "QUEEN_ENCRYPTION_KEY": "ab" * 32}) as server:
        admin = Caller(server, await make_key(own_dsn, name="ops"))
        reader = Caller(server, await make_key(own_dsn, role="read-only", name="reader"))
        for queue in ("vault", "letters"):
            made = await admin.post("/configure", {"queue": queue, "options": OPTIONS})
            assert made.status == 200
        items: list[dict[str, Any]] = [
            {
                "queue": "vault",
                "payload": payload(n),
                "headers": {"secret": CANARY},
            }
            for n in (41, 42)
        ]
        pushed = (await admin.post("/push", {"items": items})).body["messages"]
        await admin.push("letters", {"secret": CANARY})
        (popped,) = (await admin.get("/pop/queue/letters")).body["messages"]
        gone = {"id": popped["id"], "leaseId": popped["leaseId"], "status": "dlq", "error": "no"}
        assert (await admin.post("/ack", gone)).status == 200
        yield Vault(server, admin, reader, [each["id"] for each in pushed])


async def revealed(vault: Vault, queue: str = "vault") -> list[list[str]]:
    """The revealed messages in the audit log, newest first."""
    records = (await vault.admin.get("/audit", queue=queue, limit=200)).body["records"]
    told = [each["record"]["revealed"] for each in records]
    return [each for each in told if each is not None]


@pytest.mark.parametrize("width", [WIDE, pytest.param(NARROW, marks=pytest.mark.nightly)])
async def test_a_message_is_masked_and_revealed_once(page: Page, vault: Vault, width: int) -> None:
    await page.set_viewport_size({"width": width, "height": 900})
    before = len(await revealed(vault))
    id_ = vault.ids[0]
    await sign_in(page, vault.server, vault.admin.token, f"/messages/{id_}")
    note = page.locator("[data-masked]")
    await expect(note).to_contain_text("Encrypted and masked.")
    await expect(note).to_contain_text("audit log")
    await expect(page.get_by_text("Masked with the payload.")).to_be_visible()
    await expect(page.get_by_role("button", name="Push a copy")).to_be_disabled()
    await expect(page.get_by_text("Size", exact=True)).to_have_count(0)
    assert CANARY not in await page.content()
    assert len(await revealed(vault)) == before
    await look(page, "message-masked")

    await note.get_by_role("button", name="Reveal").click()
    await expect(page.get_by_role("group", name="payload")).to_contain_text(CANARY)
    await expect(page.get_by_text("secret", exact=True)).to_be_visible()
    await expect(note).to_have_count(0)
    # Refreshes of the metrics do not include the revealed payload.
    async with page.expect_response(f"**/api/v1/messages/{id_}"):
        pass
    await expect(page.get_by_role("group", name="payload")).to_contain_text(CANARY)
    told = await revealed(vault)
    assert (len(told), told[0]) == (before + 1, [id_])

    await page.get_by_role("button", name="Push a copy").click()
    copied = page.get_by_role("dialog").get_by_label("Payload")
    await expect(copied).to_have_value(json.dumps(payload(41), indent=2))


async def test_another_message_is_masked_again(page: Page, vault: Vault) -> None:
    await sign_in(page, vault.server, vault.admin.token, "/messages?queue=vault")
    rows = page.get_by_role("table", name="Messages").locator("[data-row]")
    await expect(rows).to_have_count(2)
    await expect(page.get_by_role("cell", name="masked", exact=True)).to_have_count(2)
    await rows.first.click()
    await page.get_by_role("button", name="Reveal").click()
    await expect(page.get_by_role("group", name="payload")).to_contain_text("42")
    await page.go_back()
    await rows.last.click()
    await expect(page.locator("[data-masked]")).to_be_visible()
    assert CANARY not in await page.content()


async def test_a_user_without_permission_sees_why_a_message_stays_masked(
    page: Page, vault: Vault
) -> None:
    asked: list[str] = []

    def hear(request: Request) -> None:
        asked.append(request.url)

    page.on("request", hear)
    await sign_in(page, vault.server, vault.reader.token, f"/messages/{vault.ids[0]}")
    await expect(page.locator("[data-masked]")).to_contain_text("the consume permission")
    await expect(page.get_by_role("button", name="Reveal")).to_have_count(0)
    for path in ("/messages?queue=vault", "/tail?queue=vault", "/jobs?queue=vault"):
        await page.goto(vault.server.base_url + path)
        await expect(page.locator("main").get_by_text("masked", exact=True)).to_have_count(2)
        assert CANARY not in await page.content()
    await page.goto(f"{vault.server.base_url}/messages?queue=vault&q=payload.customer.id%3A42")
    await expect(page.locator("[data-masked]")).to_contain_text("the consume permission")
    await page.goto(f"{vault.server.base_url}/tail?queue=vault&q={CANARY}")
    await expect(page.locator("[data-failure=masked]")).to_be_visible()
    assert not [url for url in asked if "reveal" in url]
    refused = await page.evaluate(
        """async ([id, key]) => {
          const headers = { Authorization: `Bearer ${key}` };
          const answer = await fetch(`/api/v1/messages/${id}?reveal=true`, { headers });
          return [answer.status, await answer.text()];
        }""",
        [vault.ids[0], vault.reader.token],
    )
    assert refused[0] == 403
    assert CANARY not in refused[1]


async def test_a_search_in_payloads_runs_after_the_user_reveals_them(
    page: Page, vault: Vault
) -> None:
    before = len(await revealed(vault))
    search = "/messages?queue=vault&q=payload.customer.id%3A42"
    await sign_in(page, vault.server, vault.admin.token, search)
    note = page.locator("[data-masked]")
    await expect(note).to_be_visible()
    assert len(await revealed(vault)) == before
    await note.get_by_role("button", name="Reveal and search").click()
    rows = page.get_by_role("table", name="Messages").locator("[data-row]")
    await expect(rows).to_have_count(1)
    await expect(page.get_by_role("cell", name=CANARY)).to_be_visible()
    assert (await revealed(vault))[0] == [vault.ids[1]]
    # Another search needs another confirmation.
    await page.get_by_label("Search messages").fill("payload.customer.id:41")
    await page.get_by_role("button", name="Search", exact=True).click()
    await expect(note).to_be_visible()
    assert len(await revealed(vault)) == before + 1


async def test_two_messages_are_compared_when_both_are_revealed(page: Page, vault: Vault) -> None:
    a, b = vault.ids
    await sign_in(page, vault.server, vault.admin.token, f"/compare?a={a}&b={b}")
    await expect(page.locator("[data-masked]")).to_be_visible()
    await expect(page.get_by_text("The payloads are identical")).to_have_count(0)
    await page.get_by_role("button", name="Reveal").click()
    table = page.get_by_role("table", name="Differences")
    await expect(table.locator("[data-row]")).to_have_count(2)
    await expect(table).to_contain_text("customer.id")


async def test_a_job_is_masked_and_revealed(page: Page, vault: Vault) -> None:
    path = f"/jobs/vault/{quote(vault.ids[1], safe='')}"
    await sign_in(page, vault.server, vault.admin.token, path)
    await expect(page.locator("[data-masked]")).to_be_visible()
    assert CANARY not in await page.content()
    await page.get_by_role("button", name="Reveal").click()
    await expect(page.get_by_role("heading", name=CANARY)).to_be_visible()
    await expect(page.get_by_role("group", name="data")).to_contain_text("42")


async def test_an_export_shows_what_is_masked_and_can_reveal_it(
    page: Page, vault: Vault, tmp_path: Path
) -> None:
    async def exported(button: str) -> dict[str, Any]:
        async with page.expect_download() as download:
            await page.get_by_role("button", name=button, exact=True).click()
        path = tmp_path / "letters.jsonl"
        await (await download.value).save_as(path)
        return json.loads(path.read_text("utf-8"))

    await sign_in(page, vault.server, vault.admin.token, "/dead-letters?queue=letters")
    masked = await exported("Export")
    assert (masked["masked"], masked["data"]) == (True, None)
    await expect(page.get_by_text("1 exported, 1 of them masked.")).to_be_visible()
    assert await revealed(vault, "letters") == []
    letter = await exported("Export revealed")
    assert (letter["masked"], letter["data"]) == (False, {"secret": CANARY})
    assert await revealed(vault, "letters") == [[letter["messageId"]]]

    await page.goto(f"{vault.server.base_url}/system?tab=audit&queue=letters")
    badge = page.get_by_role("table", name="Audit log").get_by_text("revealed 1")
    await expect(badge).to_have_attribute("title", letter["messageId"])


async def test_without_the_audit_log_no_message_is_revealed(page: Page, vault: Vault) -> None:
    await page.route("**/*reveal=true*", lambda route: route.fulfill(status=503, body="{}"))
    await sign_in(page, vault.server, vault.admin.token, f"/messages/{vault.ids[0]}")
    await page.get_by_role("button", name="Reveal").click()
    await expect(page.locator("[data-masked] [data-failure]")).to_be_visible()
    assert CANARY not in await page.content()
