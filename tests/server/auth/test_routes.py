"""Every route, including future ones, checks the caller and its permission."""

import re
from collections.abc import AsyncIterator

import pytest

from queen.server.auth.permissions import Permission
from queen.server.http.call import Route
from queen.server.routes.table import ROUTES
from tests.support.callers import KEYS, Caller, make_key
from tests.support.server import Server

PRIVATE = [route for route in ROUTES if not route.is_public]
PUBLIC = {"/livez", "/readyz", "/health", "/api/v1/openapi.json"}


@pytest.fixture
async def server(dsn: str) -> AsyncIterator[Server]:
    async with Server(dsn, KEYS) as server:
        yield server


def path_of(route: Route, queue: str = "q") -> str:
    path = route.path.replace("{queue}", queue)
    return re.sub(r"\{\w+\}", "x", path)


def test_only_the_documented_routes_are_public() -> None:
    assert {route.path for route in ROUTES if route.is_public} == PUBLIC


def test_each_route_that_changes_something_names_its_permission() -> None:
    silent = [route.path for route in PRIVATE if route.permission is None and route.method != "GET"]
    # Each operation of a transaction needs its own permission.
    assert silent == ["/api/v1/transaction"]


async def test_private_routes_reject_anonymous_callers(server: Server) -> None:
    for route in PRIVATE:
        reply = await server.request(route.method, path_of(route), {})
        assert (reply.status, reply.code) == (401, "unauthorized"), route.path


async def test_private_routes_reject_pages_of_other_sites(dsn: str, server: Server) -> None:
    caller = Caller(server, await make_key(dsn))
    foreign = {"Origin": "https://evil.example"}
    for route in PRIVATE:
        reply = await caller.request(route.method, path_of(route), {}, headers=foreign)
        assert (reply.status, reply.code) == (403, "origin_refused"), route.path


@pytest.mark.parametrize("permission", [each.value for each in Permission])
async def test_all_other_permissions_dont_replace_the_routes_own(
    dsn: str, server: Server, permission: str
) -> None:
    others = [each.value for each in Permission if each != permission]
    caller = Caller(server, await make_key(dsn, permissions=others))
    for route in PRIVATE:
        if route.permission == permission:
            reply = await caller.request(route.method, path_of(route), {})
            assert (reply.status, reply.code) == (403, "forbidden"), route.path


async def test_routes_that_name_a_queue_reject_queues_out_of_scope(
    dsn: str, server: Server
) -> None:
    admin = Caller(server, await make_key(dsn))
    await admin.push("theirs")
    tenant = Caller(server, await make_key(dsn, scopes=[{"queue": "ours.*"}]))
    for route in PRIVATE:
        if "{queue}" not in route.path:
            continue
        for queue in ("theirs", "nobodys"):
            body: dict[str, str] | None = None if route.method == "GET" else {}
            reply = await tenant.request(route.method, path_of(route, queue), body)
            # An incomplete body may be rejected first, equally for both.
            assert (reply.status, reply.code) in {(403, "forbidden"), (400, "bad_request")}, (
                route.path,
                reply,
            )
