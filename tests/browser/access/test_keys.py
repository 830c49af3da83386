"""API keys on the system page: created, shown once, rotated, revoked."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import BrowserContext, Locator, Page, expect

from tests.browser.access.test_access import sign_in
from tests.browser.conftest import FAST
from tests.browser.looks import keep, violations
from tests.support.callers import KEYS, Caller, make_key
from tests.support.server import Server

pytestmark = pytest.mark.asyncio(loop_scope="session")

ACCESS = "/system?tab=access"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def guarded(own_dsn: str) -> AsyncIterator[Server]:
    async with Server(own_dsn, {**FAST, **KEYS}) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="session")
async def admin(page: Page, guarded: Server, own_dsn: str) -> Caller:
    """An administrator on the page of API keys."""
    key = await make_key(own_dsn, role="admin", name="ops")
    await sign_in(page, guarded, key, ACCESS)
    await expect(row(page, "ops").first).to_be_visible()
    return Caller(guarded, key)


def row(page: Page, name: str) -> Locator:
    return page.get_by_role("table", name="API keys").locator("[data-row]").filter(has_text=name)


async def secret(page: Page, name: str) -> str:
    """The secret that the page shows once."""
    await expect(page.get_by_role("dialog", name=f"Secret of {name}")).to_be_visible()
    # A click outside must not close the dialog.
    await page.mouse.click(5, 5)
    text = await page.locator("[data-secret]").inner_text()
    await page.get_by_role("button", name="Done").click()
    await expect(page.get_by_role("dialog")).to_have_count(0)
    return text


async def me(server: Server, key: str) -> Any:  # noqa: ANN401 - JSON
    return (await Caller(server, key).get("/auth/me")).body


async def made(admin: Caller, name: str) -> str:
    """Create an API key, and return its secret."""
    reply = await admin.post("/tokens", {"name": name, "role": "read-only"})
    assert reply.status == 201
    return reply.body["token"]


async def test_a_key_is_created_with_all_restrictions(
    page: Page, context: BrowserContext, admin: Caller
) -> None:
    await context.grant_permissions(["clipboard-read", "clipboard-write"])
    day = f"{datetime.now(UTC) + timedelta(days=30):%Y-%m-%d}"
    await page.get_by_role("button", name="Create API key").click()
    create = page.get_by_role("dialog").get_by_role("button", name="Create", exact=True)
    await expect(create).to_be_disabled()
    await page.get_by_label("Name", exact=True).fill("shop")
    await page.get_by_label("Role").select_option("read-write")
    await page.get_by_role("button", name="Limit to queues").click()
    await expect(create).to_be_disabled()
    await page.get_by_label("Queue, line 1").fill("shop.*")
    await page.get_by_role("button", name="Limit to queues").click()
    await page.get_by_label("Namespace, line 2").fill("sales*")
    await page.get_by_label("Expires").fill(day)
    await page.get_by_label("Requests per second").fill("50")
    await keep(page, "make-key-light-1440")
    assert await violations(page) == []
    await create.click()
    await expect(page.locator("[data-secret]")).to_be_visible()
    await keep(page, "secret-light-1440")
    assert await violations(page) == []
    await page.get_by_role("button", name="Copy secret").click()
    key = await secret(page, "shop")

    assert await page.evaluate("navigator.clipboard.readText()") == key
    assert await me(admin.server, key) == {
        "name": "key:shop",
        "kind": "key",
        "permissions": ["browse", "configure", "consume", "operate", "produce"],
        "scopes": [{"queue": "shop.*"}, {"namespace": "sales*"}],
        "requestsPerSecond": 50.0,
    }
    listed = await admin.get("/tokens")
    (shown,) = [each for each in listed.body["tokens"] if each["name"] == "shop"]
    assert shown["expiresAt"] == f"{day}T00:00:00Z"
    await expect(row(page, "shop")).to_contain_text("shop.*, namespace sales*")
    await expect(row(page, "shop")).to_contain_text("active")
    assert key not in await page.content()


async def test_a_key_may_have_permissions_instead_of_a_role(page: Page, admin: Caller) -> None:
    await page.get_by_role("button", name="Create API key").click()
    dialog = page.get_by_role("dialog")
    await page.get_by_label("Name", exact=True).fill("auditor")
    await page.get_by_label("Role").select_option("custom permissions")
    await expect(dialog.get_by_role("button", name="Create", exact=True)).to_be_disabled()
    await page.get_by_role("checkbox", name="browse").check()
    await page.get_by_role("checkbox", name="operate").check()
    await dialog.get_by_role("button", name="Create", exact=True).click()

    told = await me(admin.server, await secret(page, "auditor"))

    assert told["permissions"] == ["browse", "operate"]
    await expect(row(page, "auditor")).to_contain_text("browse, operate")


async def test_a_server_error_is_shown_and_can_be_corrected(page: Page, admin: Caller) -> None:
    await page.get_by_role("button", name="Create API key").click()
    dialog = page.get_by_role("dialog")
    await page.get_by_label("Name", exact=True).fill("late")
    await page.get_by_label("Expires").fill("2020-01-01")
    await dialog.get_by_role("button", name="Create", exact=True).click()
    await expect(dialog.get_by_role("alert")).to_contain_text("expiresAt must be in the future")
    await page.get_by_label("Expires").fill("")
    await dialog.get_by_role("button", name="Create", exact=True).click()

    assert (await me(admin.server, await secret(page, "late")))["name"] == "key:late"


async def test_a_rotated_key_has_a_new_secret_and_the_old_one_a_grace_period(
    page: Page, admin: Caller
) -> None:
    old = await made(admin, "worker")
    await page.reload()
    await page.get_by_role("button", name="Rotate worker").click()
    await page.get_by_label("Keep accepting the old secret").select_option("for 1 hour")
    await page.get_by_role("dialog").get_by_role("button", name="Rotate").click()
    new = await secret(page, "worker")
    for key in (old, new):
        assert (await me(admin.server, key))["name"] == "key:worker"

    await page.get_by_role("button", name="Rotate worker").click()
    await page.get_by_role("dialog").get_by_role("button", name="Rotate").click()
    newest = await secret(page, "worker")
    assert (await me(admin.server, newest))["name"] == "key:worker"
    for key in (old, new):
        assert (await me(admin.server, key))["code"] == "unauthorized"


async def test_a_user_who_rotates_their_own_key_stays_signed_in(page: Page, admin: Caller) -> None:
    own = row(page, "this tab")
    await expect(own).to_have_count(1)
    await own.get_by_role("button", name="Rotate ops").click()
    await page.get_by_role("dialog").get_by_role("button", name="Rotate").click()
    new = await secret(page, "ops")
    assert (await me(admin.server, admin.token))["code"] == "unauthorized"
    assert (await me(admin.server, new))["name"] == "key:ops"
    await page.reload()
    await expect(own).to_have_count(1)


async def test_revoking_a_key_requires_its_name_and_the_key_is_then_rejected(
    page: Page, admin: Caller
) -> None:
    key = await made(admin, "stolen")
    await page.reload()
    await page.get_by_role("button", name="Revoke stolen").click()
    revoke = page.get_by_role("dialog").get_by_role("button", name="Revoke")
    await expect(revoke).to_be_disabled()
    await page.get_by_label("to confirm").fill("stolen")
    await revoke.click()
    # An open dialog hides the page from queries by role, so it must close first.
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(row(page, "stolen")).to_have_count(0)
    assert (await me(admin.server, key))["code"] == "unauthorized"

    await page.get_by_label("Show revoked keys").check()
    await expect(row(page, "stolen")).to_contain_text("revoked")
    await expect(page).to_have_url(re.compile("revoked=true"))
    await page.reload()
    await expect(row(page, "stolen")).to_contain_text("revoked")
    await expect(page.get_by_role("button", name="Rotate stolen")).to_have_count(0)


async def test_a_key_links_to_its_audit_log(page: Page, admin: Caller) -> None:
    boss = Caller(admin.server, (await admin.post("/tokens", {"name": "boss", "role": "admin"}))
                  .body["token"])  # fmt: skip
    await boss.push("watched")
    assert (await boss.post("/resources/queues/watched/pause", {})).status == 200
    await page.reload()
    await row(page, "boss").get_by_role("link", name="boss").click()
    records = page.get_by_role("table", name="Audit log").locator("[data-row]")
    await expect(records).to_have_count(1)
    await expect(records).to_contain_text("pause")


async def test_only_an_administrator_sees_keys(page: Page, guarded: Server, own_dsn: str) -> None:
    await sign_in(page, guarded, await make_key(own_dsn, role="read-write"), ACCESS)
    await expect(page.locator("[data-failure=forbidden]")).to_be_visible()
    await expect(page.locator("[data-row]")).to_have_count(0)


async def test_without_authentication_the_page_explains_that_keys_are_not_checked(
    page: Page, own_dsn: str
) -> None:
    async with Server(own_dsn, FAST) as server:
        await page.goto(server.base_url + ACCESS)
        await expect(page.locator("main")).to_contain_text("does not authenticate callers")
        # Leave the page before its server stops, because it still sends requests.
        await page.goto("about:blank")


async def test_a_scope_line_can_be_removed(page: Page, admin: Caller) -> None:
    await page.get_by_role("button", name="Create API key").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name", exact=True).fill("narrow")
    for line, queue in ((1, "wrong"), (2, "right")):
        await dialog.get_by_role("button", name="Limit to queues").click()
        await dialog.get_by_label(f"Queue, line {line}").fill(queue)
    await dialog.get_by_role("button", name="Remove line 1").click()
    await expect(dialog.get_by_label("Queue, line 1")).to_have_value("right")
    await dialog.get_by_role("button", name="Create", exact=True).click()

    told = await me(admin.server, await secret(page, "narrow"))

    assert told["scopes"] == [{"queue": "right"}]
