"""Users sign in at their own OpenID provider, and return to the requested page."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, Route, expect

from tests.browser.access.provider import AUDIENCE, CLIENT, Provider
from tests.browser.conftest import FAST, NARROW, WIDE
from tests.browser.looks import keep, overflow, violations
from tests.support.callers import Caller, make_key
from tests.support.certificates import Authority, Pair
from tests.support.server import Server

pytestmark = pytest.mark.asyncio(loop_scope="session")

WANTED = "/queues/orders?tab=deliveries&group=billing"


class Site:
    """A provider, and the server settings to trust it."""

    def __init__(self, folder: Path) -> None:
        self._authority = Authority(folder)
        self._pair: Pair = self._authority.sign("provider")
        self.provider = Provider(*self._pair)

    def settings(self, **more: str) -> dict[str, str]:
        return {
            **FAST,
            "QUEEN_AUTH": "keys,jwt",
            "HOST": "127.0.0.1",
            "SSL_CERT_FILE": str(self._authority.certificate),
            "JWT_ISSUER": self.provider.issuer,
            "JWT_JWKS_URL": f"{self.provider.issuer}/keys",
            "JWT_AUDIENCE": AUDIENCE,
            "JWT_LEEWAY_SECONDS": "0",
            "OIDC_CLIENT_ID": CLIENT,
            "OIDC_NAME": "Acme",
            **more,
        }


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("provider"))
    site.provider.start()
    yield site
    site.provider.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def guarded(own_dsn: str, site: Site) -> AsyncIterator[Server]:
    async with Server(own_dsn, site.settings()) as server:
        admin = Caller(server, await make_key(own_dsn, role="admin"))
        await admin.push("orders")
        await admin.get("/pop/queue/orders", consumerGroup="billing")
        yield server


@pytest_asyncio.fixture(loop_scope="session")
async def context(browser: Browser) -> AsyncIterator[BrowserContext]:
    """A visitor who trusts the provider's certificate."""
    context = await browser.new_context(
        locale="en-US",
        timezone_id="UTC",
        color_scheme="light",
        reduced_motion="reduce",
        viewport={"width": WIDE, "height": 900},
        ignore_https_errors=True,
    )
    context.set_default_timeout(15_000)
    yield context
    await context.close()


@asynccontextmanager
async def served(page: Page, dsn: str, settings: dict[str, str]) -> AsyncGenerator[Server]:
    """A server for one test. The page is left before it stops, because it still sends requests."""
    async with Server(dsn, settings) as server:
        yield server
        await page.goto("about:blank")


async def begin(page: Page, url: str, user: str, role: str = "read-only") -> None:
    """Open a page, and choose a user at the provider."""
    await page.goto(url)
    await page.get_by_role("button", name="Sign in with Acme").click()
    await page.get_by_label("User").fill(user)
    await page.get_by_label("Role").fill(role)
    await page.get_by_role("button", name="Continue").click()


async def kept(page: Page) -> dict[str, str]:
    """The stored data of the tab."""
    return await page.evaluate("({...sessionStorage})")


async def refused(page: Page, sentence: str) -> None:
    """Check that the sign-in page shows the reason, and that the tab stores no token."""
    await expect(page.get_by_role("alert")).to_contain_text(sentence)
    await expect(page.get_by_role("button", name="Sign in with Acme")).to_be_enabled()
    assert not {"queen.token", "queen.grant", "queen.sign-in"} & (await kept(page)).keys()
    assert "code=" not in page.url


async def test_a_user_signs_in_and_returns_to_the_requested_page(
    page: Page, guarded: Server
) -> None:
    await begin(page, guarded.base_url + WANTED, "ann")
    await expect(page.locator("[data-row]")).to_be_visible()
    assert page.url == guarded.base_url + WANTED
    await page.get_by_role("button", name="Account and appearance").click()
    await expect(page.locator("[data-caller]")).to_have_text("jwt:ann")
    await page.keyboard.press("Escape")
    await expect(page.locator("[data-live]")).to_contain_text("Live")
    token = (await kept(page))["queen.token"]
    assert token not in await page.evaluate("Object.values(localStorage).join()")
    assert await page.evaluate("document.cookie") == ""
    await page.reload()
    await expect(page.locator("[data-row]")).to_be_visible()
    assert page.url == guarded.base_url + WANTED


@pytest.mark.parametrize(("role", "may"), [("admin", True), ("read-only", False)])
async def test_the_provider_sets_the_role(
    page: Page, guarded: Server, role: str, may: bool
) -> None:
    await begin(page, f"{guarded.base_url}/queues/orders", f"{role}-person", role)
    await expect(page.get_by_role("heading", name="orders")).to_be_visible()
    pause = page.locator("main").get_by_role("button", name="Pause")
    await expect(pause).to_have_count(int(may))
    status = await page.evaluate(
        """fetch("/api/v1/resources/queues/orders/resume", {method: "POST", headers:
           {Authorization: `Bearer ${sessionStorage.getItem("queen.token")}`}})
           .then(answer => answer.status)"""
    )
    assert status == (200 if may else 403)


async def test_a_return_without_a_sign_in_is_rejected(page: Page, guarded: Server) -> None:
    await page.goto(f"{guarded.base_url}/signed-in?code=stolen&state=forged")
    await refused(page, "was not started in this tab")


async def caught(page: Page, url: str) -> str:
    """Intercept the redirect of the provider, and return its URL."""
    urls: list[str] = []

    async def catch(route: Route) -> None:
        if route.request.method == "GET":
            await route.continue_()
            return
        answer = await route.fetch(max_redirects=0)
        urls.append(answer.headers["location"])
        await route.fulfill(body="caught")

    await page.route("**/authorize?*", catch)
    await begin(page, url, "ann")
    await expect(page.locator("body")).to_have_text("caught")
    await page.unroute("**/authorize?*")
    return urls[0]


async def test_a_code_with_another_state_is_rejected(page: Page, guarded: Server) -> None:
    url = await caught(page, guarded.base_url + WANTED)
    assert "&state=" in url
    await page.goto(url.partition("&state=")[0] + "&state=forged")
    await refused(page, "was not started in this tab")
    assert page.url == guarded.base_url + WANTED


async def test_a_code_works_only_in_the_tab_that_requested_it(
    page: Page, context: BrowserContext, guarded: Server
) -> None:
    url = await caught(page, guarded.base_url)
    other = await context.new_page()
    await other.goto(url)
    await refused(other, "was not started in this tab")
    await page.goto(url)
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()


@pytest.mark.nightly
async def test_reopening_the_return_url_changes_nothing(page: Page, guarded: Server) -> None:
    returns: list[str] = []
    page.on("request", lambda each: returns.append(each.url) if "/signed-in?" in each.url else None)
    await begin(page, f"{guarded.base_url}/queues", "ann")
    await expect(page.get_by_role("heading", name="Queues")).to_be_visible()
    token = (await kept(page))["queen.token"]
    await page.goto(returns[0])
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    assert (await kept(page))["queen.token"] == token


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("user", "sentence"),
    [
        ("mallory", "was not issued for this sign-in. Sign in again."),
        ("late", "took too long or was used before. Sign in again."),
        ("nobody", "Acme denied the sign-in"),
    ],
)
async def test_an_error_is_shown_with_a_solution(
    page: Page, guarded: Server, user: str, sentence: str
) -> None:
    await begin(page, guarded.base_url + WANTED, user)
    await refused(page, sentence)
    assert page.url == guarded.base_url + WANTED


@pytest.mark.nightly
async def test_a_path_that_looks_like_another_site_is_a_page_of_this_one(
    page: Page, guarded: Server
) -> None:
    url = f"{guarded.base_url}//elsewhere.example/x"
    await begin(page, url, "ann")
    await expect(page.locator("[data-empty]")).to_contain_text("Page not found")
    assert page.url == url


@pytest.mark.nightly
async def test_a_provider_without_cors_is_named(page: Page, guarded: Server) -> None:
    await page.route("**/token", lambda route: route.abort())
    await begin(page, guarded.base_url, "ann")
    await refused(page, f"does not allow {guarded.base_url} to request tokens (CORS)")


async def test_signing_out_ends_the_session_here_and_at_the_provider(
    page: Page, guarded: Server
) -> None:
    await begin(page, f"{guarded.base_url}/queues", "ann")
    await page.get_by_role("button", name="Account and appearance").click()
    await page.get_by_role("menuitem", name="Sign out").click()
    again = page.get_by_role("button", name="Sign in with Acme")
    await expect(again).to_be_visible()
    await expect(page.get_by_role("alert")).to_have_count(0)
    assert page.url == f"{guarded.base_url}/"
    assert "queen.token" not in await kept(page)
    await again.click()
    await expect(page.get_by_label("User")).to_be_visible()


async def test_an_expired_token_is_explained_and_one_click_signs_in_again(
    page: Page, guarded: Server
) -> None:
    await begin(page, guarded.base_url + WANTED, "ann-4")
    await expect(page.locator("[data-row]")).to_be_visible()
    await expect(page.get_by_role("alert")).to_contain_text("You were signed out", timeout=40_000)
    assert page.url == guarded.base_url + WANTED
    # The provider still has a session.
    await page.get_by_role("button", name="Sign in with Acme").click()
    await expect(page.locator("[data-row]")).to_be_visible()
    assert page.url == guarded.base_url + WANTED


@pytest.mark.nightly
async def test_a_token_is_renewed_before_it_expires_if_the_provider_allows_it(
    page: Page, own_dsn: str, site: Site
) -> None:
    settings = site.settings(OIDC_SCOPES="openid profile offline_access")
    async with served(page, own_dsn, settings) as server:
        await begin(page, f"{server.base_url}/queues", "ann-4")
        await expect(page.get_by_role("heading", name="Queues")).to_be_visible()
        tokens = {(await kept(page))["queen.token"]}
        for _ in range(2):
            await page.wait_for_function(
                "known => !known.includes(sessionStorage.getItem('queen.token'))", arg=[*tokens]
            )
            tokens.add((await kept(page))["queen.token"])
        await expect(page.get_by_role("heading", name="Queues")).to_be_visible()
        await page.reload()
        await expect(page.get_by_role("heading", name="Queues")).to_be_visible()


@pytest.mark.nightly
async def test_signing_out_during_a_renewal_is_final(page: Page, own_dsn: str, site: Site) -> None:
    is_asked, may_answer = asyncio.Event(), asyncio.Event()

    async def hold(route: Route) -> None:
        if "grant_type=refresh_token" in (route.request.post_data or ""):
            is_asked.set()
            await may_answer.wait()
        await route.continue_()

    settings = site.settings(OIDC_SCOPES="openid profile offline_access")
    async with served(page, own_dsn, settings) as server:
        await page.route("**/token", hold)
        await page.route("**/sign-out*", lambda route: route.fulfill(status=204))
        await begin(page, f"{server.base_url}/queues", "ann-4")
        await asyncio.wait_for(is_asked.wait(), 15)
        await page.get_by_role("button", name="Account and appearance").click()
        await page.get_by_role("menuitem", name="Sign out").click()
        await expect(page.get_by_role("button", name="Sign in with Acme")).to_be_visible()
        async with page.expect_response("**/token") as answer:
            may_answer.set()
        await (await answer.value).finished()
        await page.evaluate("new Promise(done => setTimeout(done, 100))")
        assert not {"queen.token", "queen.grant"} & (await kept(page)).keys()


@pytest.mark.nightly
async def test_a_tab_with_an_expired_token_renews_it_after_a_rejection(
    page: Page, own_dsn: str, site: Site
) -> None:
    settings = site.settings(OIDC_SCOPES="openid profile offline_access")
    async with served(page, own_dsn, settings) as server:
        await begin(page, f"{server.base_url}/queues", "ann")
        await expect(page.get_by_role("heading", name="Queues")).to_be_visible()
        await page.evaluate("sessionStorage.setItem('queen.token', 'a.b.c')")
        await page.reload()
        await expect(page.get_by_role("heading", name="Queues")).to_be_visible()
        assert (await kept(page))["queen.token"] != "a.b.c"


@pytest.mark.nightly
async def test_sign_in_works_behind_a_prefix_and_with_the_id_token(
    page: Page, own_dsn: str, site: Site
) -> None:
    settings = site.settings(QUEEN_PATH_PREFIX="/tools/queen", OIDC_TOKEN="id", JWT_AUDIENCE=CLIENT)
    async with served(page, own_dsn, settings) as server:
        url = f"{server.base_url}/tools/queen"
        await begin(page, f"{url}/queues?search=ord", "ann")
        await expect(page.get_by_role("heading", name="Queues")).to_be_visible()
        assert page.url == f"{url}/queues?search=ord"
        await page.get_by_role("button", name="Account and appearance").click()
        await page.get_by_role("menuitem", name="Sign out").click()
        await expect(page.get_by_role("button", name="Sign in with Acme")).to_be_visible()
        assert page.url == f"{url}/"


@pytest.mark.nightly
async def test_a_token_that_the_server_rejects_is_explained(
    page: Page, own_dsn: str, site: Site
) -> None:
    async with served(page, own_dsn, site.settings(JWT_AUDIENCE="other")) as server:
        await begin(page, server.base_url, "ann")
        await refused(page, "Acme signed you in, but this server rejected its token")
        await expect(page.get_by_role("alert")).to_contain_text("JWT_AUDIENCE")


@pytest.mark.nightly
async def test_without_the_provider_keys_still_work(page: Page, own_dsn: str, site: Site) -> None:
    settings = site.settings(JWT_ISSUER="https://localhost:1")
    async with served(page, own_dsn, settings) as server:
        await page.goto(server.base_url)
        await expect(page.get_by_role("button", name="Sign in with Acme")).to_be_disabled()
        await expect(page.get_by_role("status")).to_contain_text("cannot reach Acme")
        assert await violations(page) == []
        assert "issuer.silent" in server.log
        await page.get_by_label("API key or token").fill(await make_key(own_dsn, role="read-only"))
        await page.get_by_role("button", name="Sign in", exact=True).click()
        await expect(page.get_by_role("heading", name="Overview")).to_be_visible()


async def test_the_policy_allows_only_requests_to_the_provider(guarded: Server, site: Site) -> None:
    async with guarded.session.get(guarded.base_url) as answer:
        policy = answer.headers["Content-Security-Policy"]
    directives = [each.strip() for each in policy.split(";")]
    assert "default-src 'self'" in directives
    assert [each for each in directives if "https:" in each] == [
        f"connect-src 'self' {site.provider.issuer}"
    ]


@pytest.mark.nightly
@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_the_sign_in_page_is_accessible(
    page: Page, guarded: Server, theme: str, width: int
) -> None:
    await page.set_viewport_size({"width": width, "height": 812})
    await page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    await page.goto(f"{guarded.base_url}/signed-in?code=a&state=b")
    await expect(page.get_by_role("alert")).to_be_visible()
    await keep(page, f"sign-in-oidc-{theme}-{width}")
    assert await violations(page) == []
    assert await overflow(page) <= 0
