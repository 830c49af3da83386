"""
Read and write permissions: the page offers only allowed actions, and the server enforces them.
"""

from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from tests.browser.conftest import FAST
from tests.browser.frame.test_palette import choose
from tests.browser.looks import keep, violations
from tests.support.callers import KEYS, Caller, make_key
from tests.support.server import Server

pytestmark = pytest.mark.asyncio(loop_scope="session")

ACTIONS = {
    "admin": {"Push", "Pause", "More actions", "Release"},
    "read-write": {"Push", "Pause", "Release"},
    "read-only": set[str](),
}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def guarded(own_dsn: str) -> AsyncIterator[Server]:
    """A server with authentication."""
    async with Server(own_dsn, {**FAST, **KEYS}) as server:
        admin = Caller(server, await make_key(own_dsn, role="admin", name="admin"))
        for queue in ("orders", "secret"):
            await admin.push(queue)
        await admin.get("/pop/queue/orders")
        yield server


async def sign_in(page: Page, server: Server, key: str, path: str = "/") -> None:
    await page.goto(server.base_url + path)
    await page.get_by_label("API key or token").fill(key)
    await page.get_by_role("button", name="Sign in").click()


async def test_a_key_opens_the_dashboard_only_in_this_tab(
    page: Page, guarded: Server, own_dsn: str
) -> None:
    key = await make_key(own_dsn, role="read-only", name="reader")
    await page.goto(guarded.base_url)
    await expect(page.get_by_label("API key or token")).to_be_visible()
    await keep(page, "sign-in-light-1440")
    assert await violations(page) == []
    await sign_in(page, guarded, "qk_aaaaaaaaaaaa_wrong")
    await expect(page.get_by_role("alert")).to_be_visible()
    await sign_in(page, guarded, key)
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    await expect(page.locator("[data-live]")).to_contain_text("Live")
    assert key not in await page.evaluate("Object.values(localStorage).join()")
    await page.reload()
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    await page.get_by_role("button", name="Account and appearance").click()
    await page.get_by_role("menuitem", name="Sign out").click()
    await expect(page.get_by_label("API key or token")).to_be_visible()


async def test_the_next_user_sees_no_data_of_the_previous_one(
    page: Page, guarded: Server, own_dsn: str
) -> None:
    await sign_in(page, guarded, await make_key(own_dsn, role="admin", name="admin"), "/queues")
    await expect(page.get_by_role("link", name="secret")).to_be_visible()
    await page.get_by_role("button", name="Account and appearance").click()
    await page.get_by_role("menuitem", name="Sign out").click()
    await page.get_by_label("API key or token").fill(
        await make_key(own_dsn, role="write-only", name="writer")
    )
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.locator("[data-failure=forbidden]")).to_be_visible()
    await expect(page.get_by_role("link", name="secret")).to_have_count(0)


@pytest.mark.parametrize("role", ACTIONS)
async def test_only_actions_that_the_role_allows_are_offered(
    page: Page, guarded: Server, own_dsn: str, role: str
) -> None:
    key = await make_key(own_dsn, role=role, name=role)
    await sign_in(page, guarded, key, "/queues/orders?tab=deliveries")
    await expect(page.locator("[data-row]")).to_be_visible()
    offered = {
        name
        for name in ("Push", "Pause", "More actions", "Release")
        if await page.locator("main").get_by_role("button", name=name).count()
    }
    assert offered == ACTIONS[role]


async def test_the_server_also_rejects_actions_of_a_read_only_user(
    page: Page, guarded: Server, own_dsn: str
) -> None:
    key = await make_key(own_dsn, role="read-only", name="reader")
    await sign_in(page, guarded, key)
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    calls = [
        ("POST", "/api/v1/resources/queues/orders/pause"),
        ("POST", "/api/v1/resources/queues/orders/purge"),
        ("DELETE", "/api/v1/resources/queues/orders"),
        ("POST", "/api/v1/resources/queues/orders/deliveries/0.1/release"),
        ("POST", "/api/v1/configure"),
        ("POST", "/api/v1/push"),
        ("POST", "/api/v1/messages/x/retry"),
        ("DELETE", "/api/v1/messages/x"),
        ("POST", "/api/v1/dlq/redrive"),
        ("DELETE", "/api/v1/dlq?queue=orders"),
        ("POST", "/api/v1/consumer-groups/g/queues/orders/seek"),
        ("DELETE", "/api/v1/consumer-groups/g/queues/orders"),
        ("POST", "/api/v1/schedules/nightly/run"),
        ("POST", "/api/v1/system/maintenance"),
        ("GET", "/api/v1/system/config"),
        ("GET", "/api/v1/audit"),
        ("GET", "/api/v1/tokens"),
        ("POST", "/api/v1/tokens"),
        ("POST", "/api/v1/tokens/0123456789ab/rotate"),
        ("DELETE", "/api/v1/tokens/0123456789ab"),
    ]
    for method, path in calls:
        status = await page.evaluate(
            "([path, options]) => fetch(path, options).then(answer => answer.status)",
            [path, {"method": method, "headers": {"Authorization": f"Bearer {key}"}}],
        )
        assert status == 403, path


async def test_a_user_without_read_permission_sees_an_explanation(
    page: Page, guarded: Server, own_dsn: str
) -> None:
    key = await make_key(own_dsn, role="write-only", name="writer")
    await sign_in(page, guarded, key, "/queues")
    await expect(page.locator("[data-failure=forbidden]")).to_contain_text("browse")


async def test_a_queue_outside_the_scope_is_neither_listed_nor_shown(
    page: Page, guarded: Server, own_dsn: str
) -> None:
    key = await make_key(own_dsn, role="admin", name="scoped", scopes=[{"queue": "ord*"}])
    await sign_in(page, guarded, key, "/queues")
    await expect(page.locator("[data-row]")).to_have_text(["orders"])
    await page.goto(f"{guarded.base_url}/queues/secret")
    await expect(page.locator("[data-failure=forbidden]")).to_be_visible()


async def test_signing_out_applies_to_all_tabs(page: Page, guarded: Server, own_dsn: str) -> None:
    key = await make_key(own_dsn, role="read-only", name="ann")
    await sign_in(page, guarded, key, "/queues")
    await expect(page.locator("[data-row]").first).to_be_visible()
    same, other = await page.context.new_page(), await page.context.new_page()
    await sign_in(same, guarded, key)
    await expect(same.get_by_role("heading", name="Overview")).to_be_visible()
    await sign_in(other, guarded, await make_key(own_dsn, role="read-only", name="ben"))
    await expect(other.get_by_role("heading", name="Overview")).to_be_visible()

    await page.bring_to_front()
    await choose(page, "Sign out")

    await expect(page.get_by_label("API key or token")).to_be_visible()
    await expect(page.get_by_role("alert")).to_have_count(0)
    await expect(same.get_by_role("alert")).to_have_text("You signed out in another tab.")
    assert await same.evaluate("sessionStorage.getItem('queen.token')") is None
    await same.reload()
    await expect(same.get_by_label("API key or token")).to_be_visible()
    # The tab of another user stays signed in.
    await other.reload()
    await expect(other.get_by_role("heading", name="Overview")).to_be_visible()


def is_told(event: str, queue: str = "") -> Callable[[bytes | str], bool]:
    return lambda frame: f'"{event}"' in str(frame) and queue in str(frame)


async def test_a_user_with_some_queues_receives_no_events_of_others(
    page: Page, guarded: Server, own_dsn: str
) -> None:
    admin = Caller(guarded, await make_key(own_dsn, role="admin", name="admin"))
    key = await make_key(own_dsn, role="admin", name="scoped", scopes=[{"queue": "ord*"}])
    frames: list[str] = []

    async def purge(queue: str) -> None:
        reply = await admin.post(f"/resources/queues/{queue}/purge", {"scope": "all"})
        assert reply.status == 202

    async with page.expect_websocket() as opened:
        await sign_in(page, guarded, key, "/queues")
    socket = await opened.value
    socket.on("framereceived", lambda frame: frames.append(str(frame)))
    async with socket.expect_event("framereceived", is_told("system.stats")):
        pass
    await purge("secret")
    async with socket.expect_event("framereceived", is_told("operation.updated", "orders")):
        await purge("orders")
    # The system event is the last one of each tick.
    async with socket.expect_event("framereceived", is_told("system.stats")):
        pass
    assert "secret" not in "".join(frames)
