"""No page of another site calls the server through somebody's browser."""

import socket
from collections.abc import AsyncIterator

import pytest

from tests.server.access import KEYS, Caller, make_key
from tests.server.server import Reply, Server

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


async def test_other_origins_and_names_are_refused_and_nothing_is_taken(server: Server) -> None:
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


async def test_our_own_pages_and_those_who_are_no_browsers_are_served(server: Server) -> None:
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


async def test_a_link_from_another_site_leads_to_pages_alone(server: Server) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert (await get(server, link, "/health")).status == 200
    assert (await get(server, link, "/auth/me")).code == "origin_refused"
    embedded = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    assert (await get(server, embedded, "/health")).code == "origin_refused"


async def test_hosts_may_be_added(dsn: str) -> None:
    async with Server(dsn, {"QUEEN_ALLOWED_HOSTS": "queen, Queen.Example"}) as server:
        for host in ("queen", f"queen:{server.port}", "queen.example", "QUEEN.example."):
            assert (await get(server, {"Host": host}, "/auth/me")).status == 200
        assert (await get(server, {"Host": "other"}, "/auth/me")).code == "origin_refused"


async def test_allowed_origins_are_told_so_and_others_are_not(cors: Caller) -> None:
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


async def test_behind_a_proxy_the_name_that_it_was_called_by_counts(dsn: str) -> None:
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
