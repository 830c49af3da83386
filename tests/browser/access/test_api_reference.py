"""The API reference at `/docs`: authorize, push, pop and ack from the page."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Locator, Page, Request, Response, expect

from queen import Queen
from queen.server.http.openapi import document
from queen.server.routes.table import ROUTES
from tests.browser.access.test_access import sign_in
from tests.browser.conftest import FAST, NARROW
from tests.browser.frame.test_palette import choose
from tests.browser.looks import keep, overflow
from tests.support.callers import KEYS, make_key
from tests.support.server import Server

pytestmark = pytest.mark.asyncio(loop_scope="session")

MOST_KILOBYTES = 500
OPEN_MILLIS = 60_000
"""Swagger UI is large, and a busy machine needs seconds to start it."""
TAGS = {
    operation["operationId"]: operation["tags"][0]
    for path in document(ROUTES)["paths"].values()
    for operation in path.values()
}
_WATCH_POLICY = """
globalThis.policyViolations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  globalThis.policyViolations.push(`${event.violatedDirective}: ${event.blockedURI}`));
"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def guarded(own_dsn: str) -> AsyncIterator[Server]:
    async with Server(own_dsn, {**FAST, **KEYS}) as server:
        yield server


async def opened(page: Page, server: Server) -> list[str]:
    """Open the reference; returns the hosts that the page requests from then on."""
    hosts: list[str] = []

    def note(request: Request) -> None:
        hosts.append(request.url.split("/")[2])

    page.on("request", note)
    await page.add_init_script(_WATCH_POLICY)
    await page.goto(f"{server.base_url}/docs")
    await expect(page.locator(".opblock-tag").first).to_be_visible(timeout=OPEN_MILLIS)
    return hosts


async def unfold(page: Page, id_: str) -> Locator:
    """Open an operation below its tag."""
    block = page.locator(f'[id$="-{id_}"].opblock')
    if not await block.count():
        await page.locator(f'.opblock-tag[data-tag="{TAGS[id_]}"]').click(timeout=OPEN_MILLIS)
    if not await block.locator(".opblock-body").count():
        await block.locator(".opblock-summary-control").first.click()
    return block


async def send(page: Page, id_: str, *, body: object = None, **parameters: str) -> Response:
    """Fill in the form of an operation, and send the request; returns the response."""
    block = await unfold(page, id_)
    for name, value in parameters.items():
        await block.locator(f'tr[data-param-name="{name}"] input').fill(value)
    if body is not None:
        await block.locator("textarea.body-param__text").fill(json.dumps(body))
    async with page.expect_response(lambda reply: "/api/v1/" in reply.url) as waiting:
        await block.get_by_role("button", name="Execute").click()
    response = await waiting.value
    status = block.locator(".live-responses-table .response-col_status").nth(1)
    await expect(status).to_contain_text(str(response.status))
    return response


async def authorize(page: Page, key: str) -> None:
    await page.get_by_role("button", name="Authorize").first.click()
    dialog = page.locator(".dialog-ux")
    await dialog.locator("input").fill(key)
    await dialog.get_by_role("button", name="Apply credentials").click()
    await dialog.get_by_role("button", name="Close").last.click()


async def test_a_message_is_pushed_popped_and_acknowledged_from_the_page(
    page: Page, guarded: Server, own_dsn: str
) -> None:
    key = await make_key(own_dsn, role="read-write")
    hosts = await opened(page, guarded)
    await keep(page, "api-reference-light-1440")
    item = {"queue": "orders", "payload": {"total": 12}}
    assert (await send(page, "postPush", body={"items": [item]})).status == 401
    await authorize(page, key)
    pushed = await send(page, "postPush", body={"items": [item]})
    assert pushed.status == 201
    popped = await send(page, "getPopQueueQueue", queue="orders")
    (message,) = (await popped.json())["messages"]
    assert message["data"] == {"total": 12}
    names = ("transactionId", "partitionId", "leaseId")
    settled = await send(
        page, "postAck", body={"status": "completed", **{name: message[name] for name in names}}
    )
    assert (settled.status, (await settled.json())["success"]) == (200, True)
    await keep(page, "api-reference-used-light-1440")

    async with Queen(guarded.base_url, bearer_token=key) as queen:
        (stored,) = [each async for each in queen.admin.messages("orders", status="completed")]
    assert stored.transaction_id == message["transactionId"]
    assert await page.evaluate("globalThis.policyViolations") == []
    assert set(hosts) == {guarded.base_url.removeprefix("http://")}


async def test_the_page_is_small(page: Page, guarded: Server) -> None:
    sizes: dict[str, int] = {}

    async def weigh(response: Response) -> None:
        if not response.url.endswith("/openapi.json"):
            headers = await response.all_headers()
            assert headers["content-encoding"] == "gzip", response.url
            sizes[response.url] = int(headers["content-length"])

    page.on("response", weigh)
    await opened(page, guarded)

    assert len(sizes) >= 3, sizes
    assert sum(sizes.values()) <= MOST_KILOBYTES * 1000, sizes


async def test_a_tab_that_is_signed_in_to_the_dashboard_is_authorized(
    page: Page, guarded: Server, own_dsn: str
) -> None:
    key = await make_key(own_dsn, role="admin", name="ops")
    await sign_in(page, guarded, key)
    await page.get_by_role("link", name="API reference").first.click()
    me: Any = await (await send(page, "getAuthMe")).json()
    assert me["name"] == "key:ops"
    await expect(page.locator(".curl-command")).to_contain_text(
        '-H "Authorization: Bearer $QUEEN_TOKEN"'
    )
    assert key not in await page.content()
    await page.get_by_role("link", name="Queen", exact=True).click()
    await expect(page.get_by_role("navigation", name="Pages")).to_be_visible()


@pytest.mark.nightly
async def test_the_reference_follows_the_theme_and_fits_a_phone(
    page: Page, guarded: Server
) -> None:
    await page.emulate_media(color_scheme="dark")
    await opened(page, guarded)
    await expect(page.locator("html")).to_have_class("dark-mode")
    push = await unfold(page, "postPush")
    await expect(push.locator("textarea")).to_be_visible()
    await keep(page, "api-reference-dark-1440")
    await page.set_viewport_size({"width": NARROW, "height": 812})
    assert await overflow(page) <= 0
    await keep(page, "api-reference-dark-375")
    assert await page.evaluate("globalThis.policyViolations") == []


@pytest.mark.nightly
async def test_signing_out_in_another_tab_applies_to_the_reference(
    page: Page, guarded: Server, own_dsn: str
) -> None:
    key = await make_key(own_dsn, role="admin", name="ops")
    await sign_in(page, guarded, key)
    await expect(page.get_by_role("navigation", name="Pages")).to_be_visible()
    reference = await page.context.new_page()
    await sign_in(reference, guarded, key)
    await reference.get_by_role("link", name="API reference").first.click()
    assert (await send(reference, "getAuthMe")).status == 200

    await page.bring_to_front()
    async with reference.expect_event("load", timeout=OPEN_MILLIS):
        await choose(page, "Sign out")

    kept = set[str](await reference.evaluate("Object.keys(sessionStorage)"))
    assert not kept & {"queen.token", "queen.grant"}
    await reference.bring_to_front()
    assert (await send(reference, "getAuthMe")).status == 401


@pytest.mark.nightly
async def test_requests_go_through_the_prefix_of_a_proxy(page: Page, own_dsn: str) -> None:
    async with Server(own_dsn, {**FAST, "QUEEN_PATH_PREFIX": "/tools/queen"}) as server:
        await page.goto(f"{server.base_url}/tools/queen/docs")
        reply = await send(page, "getAuthMe")
        assert reply.url == f"{server.base_url}/tools/queen/api/v1/auth/me"
        assert reply.status == 200
        # Leave the page before its server stops.
        await page.goto("about:blank")
