"""Pages of other sites cannot call the server through a user's browser."""

import socket
from collections.abc import AsyncIterator

import pytest

from tests.support.callers import KEYS, Caller, make_key
from tests.support.server import Reply, Server

CORS = {
    **KEYS,
    "CORS_ALLOWED_ORIGINS": "https://app.example, http://localhost:3000",
    "CORS_MAX_AGE": "60",
    "CORS_ALLOWED_METHODS": "GET,POST",
    "CORS_ALLOWED_HEADERS": "Authorization",
}


@pytest.fixture
async def cors(dsn: str) -> AsyncIterator[Caller]:
    async with Server(dsn, CORS) as server:
        yield Caller(server, await make_key(dsn))


async def get(server: Server, headers: dict[str, str], path: str = "/pop/queue/q") -> Reply:
    return await server.request("GET", path, headers=headers)


async def test_other_origins_and_hosts_are_rejected_without_taking_messages(server: Server) -> None:
    await server.post("/push", {"items": [{"queue": "q", "payload": 1}]})
    here = f"127.0.0.1:{server.port}"
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": f"https://{here}"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": f"http://{here}.evil.example"},
        {"Origin": f"http://evil@{here}"},
        {"Origin": "http://[bad"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
        {"Host": "evil.example"},
        {"Host": f"evil.example:{server.port}"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "192.0.2.7"},
        {"Host": ""},
        {"Host": "evil.example", "Origin": "http://evil.example"},
    ):
        for reply in (
            await get(server, headers),
            await server.request("POST", "/pop/queue/q", {}, headers=headers),
        ):
            assert (reply.status, reply.code) == (403, "origin_refused"), headers
            assert not [name for name in reply.headers if name.startswith("Access-Control")]
    assert (await server.get("/pop/queue/q")).status == 200


async def test_own_pages_and_programs_are_served(server: Server) -> None:
    port = server.port
    for headers in (
        {},
        {"Host": "localhost"},
        {"Host": f"localhost:{port}"},
        {"Host": f"[::1]:{port}"},
        {"Host": socket.gethostname()},
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": "same-origin"},
        {"Origin": f"http://127.0.0.1:{port}", "Sec-Fetch-Site": "same-origin"},
        {"Host": "localhost", "Origin": "http://localhost"},
    ):
        assert (await get(server, headers, "/auth/me")).status == 200, headers


async def test_a_link_from_another_site_opens_pages_only(server: Server) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert (await get(server, link, "/health")).status == 200
    assert (await get(server, link, "/auth/me")).code == "origin_refused"
    embedded = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    assert (await get(server, embedded, "/health")).code == "origin_refused"


async def test_allowed_hosts_can_be_added(dsn: str) -> None:
    async with Server(dsn, {"QUEEN_ALLOWED_HOSTS": "queen, Queen.Example"}) as server:
        for host in ("queen", f"queen:{server.port}", "queen.example", "QUEEN.example."):
            assert (await get(server, {"Host": host}, "/auth/me")).status == 200
        assert (await get(server, {"Host": "other"}, "/auth/me")).code == "origin_refused"


async def test_only_allowed_origins_get_cors_headers(cors: Caller) -> None:
    for origin in ("https://app.example", "http://localhost:3000"):
        ask = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        asked = await cors.server.request("OPTIONS", "/push", headers=ask)
        assert asked.status == 204
        assert asked.headers["Access-Control-Allow-Origin"] == origin
        assert asked.headers["Access-Control-Allow-Methods"] == "GET,POST"
        assert asked.headers["Access-Control-Allow-Headers"] == "Authorization"
        assert asked.headers["Access-Control-Max-Age"] == "60"
        assert "Access-Control-Allow-Credentials" not in asked.headers
        told = {"Origin": origin, "Sec-Fetch-Site": "cross-site"}
        reply = await cors.request("GET", "/auth/me", headers=told)
        assert reply.status == 200
        assert reply.headers["Access-Control-Allow-Origin"] == origin
        assert reply.headers["Vary"] == "Origin"
    for origin in ("https://evil.example", "http://app.example", "https://app.example:8443"):
        ask = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        asked = await cors.server.request("OPTIONS", "/push", headers=ask)
        assert (asked.status, asked.code) == (403, "origin_refused")
        reply = await cors.request("GET", "/auth/me", headers={"Origin": origin})
        assert reply.code == "origin_refused"
        assert "Access-Control-Allow-Origin" not in reply.headers


async def test_behind_a_proxy_the_forwarded_host_counts(dsn: str) -> None:
    environment = {**KEYS, "QUEEN_BEHIND_PROXY": "true"}
    async with Server(dsn, environment) as server:
        caller = Caller(server, await make_key(dsn))
        told = {
            "Origin": "https://queen.example",
            "X-Forwarded-Host": "queen.example",
            "X-Forwarded-Proto": "https",
        }
        assert (await caller.request("GET", "/auth/me", headers=told)).status == 200
        told["Origin"] = "https://evil.example"
        assert (await caller.request("GET", "/auth/me", headers=told)).code == "origin_refused"


def browser(accept: str, **more: str) -> dict[str, str]:
    """Headers of a page's request over plain HTTP: without Sec-Fetch and Origin."""
    agent = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
    return {"User-Agent": agent, "Accept": accept, "Accept-Language": "en-US,en;q=0.5", **more}


async def test_an_image_on_a_page_cannot_take_messages(server: Server) -> None:
    await server.post("/push", {"items": [{"queue": "q", "payload": 1}]})
    for headers in (
        browser("image/avif,image/webp,image/png,*/*;q=0.5"),
        browser("*/*"),
        browser("text/html,application/xhtml+xml,*/*;q=0.8"),
        browser("text/css,*/*;q=0.1", Referer="http://evil.example/"),
        browser("application/json"),
        browser("*/*", **{"Accept-Language": ""}),
    ):
        for path in ("/pop/queue/q?autoAck=true", "/pop/queue/q/partition/Default", "/pop?task=t"):
            reply = await get(server, headers, path)
            assert (reply.status, reply.code) == (403, "origin_refused"), (headers, path)
        # Only pops are rejected: the dashboard reads with GET over plain HTTP.
        assert (await get(server, headers, "/resources/queues")).status == 200
    own = browser("*/*", Origin=server.base_url)
    popped = await server.request("POST", "/pop/queue/q", {}, headers=own)
    assert [each["data"] for each in popped.body["messages"]] == [1]


async def test_programs_can_pop_with_get(server: Server) -> None:
    powershell = "Mozilla/5.0 (Windows NT; Windows NT 10.0; en-US) WindowsPowerShell/5.1"
    for headers in (
        {"User-Agent": "curl/8.5.0", "Accept": "*/*"},
        {"User-Agent": powershell},
        {"User-Agent": "node", "Accept-Language": "*", "Sec-Fetch-Mode": "cors"},
        browser("*/*", **{"Sec-Fetch-Site": "same-origin"}),
        browser("*/*", **{"Sec-Fetch-Site": "none"}),
    ):
        await server.post("/push", {"items": [{"queue": "q", "payload": 1}]})
        assert (await get(server, headers, "/pop/queue/q?autoAck=true")).status == 200, headers


async def test_a_browser_with_a_key_can_pop_with_get(cors: Caller) -> None:
    await cors.push("q")
    reply = await cors.request("GET", "/pop/queue/q", headers=browser("*/*"))
    assert reply.status == 200
