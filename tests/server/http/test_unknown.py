"""Unknown parameters and fields are rejected, so that a misspelt option is never ignored."""

import pytest

from queen.server.http.call import Route
from queen.server.routes.table import ROUTES
from tests.support.calls import a_queue, configure, data, pop, push
from tests.support.server import Server

WITHOUT_QUERY = [each for each in ROUTES if each.query is None and not each.is_probe]
WITHOUT_BODY = [each for each in ROUTES if each.body is None and not each.is_probe]


def path_of(route: Route) -> str:
    return route.path.replace("{", "").replace("}", "")


def name_of(route: Route) -> str:
    return f"{route.method} {route.path}"


@pytest.mark.parametrize("route", WITHOUT_QUERY, ids=name_of)
async def test_a_route_without_parameters_rejects_them(shared: Server, route: Route) -> None:
    body: dict[str, int] | None = None if route.body is None else {}
    reply = await shared.request(route.method, f"{path_of(route)}?optoin=1", body)

    assert (reply.status, reply.code) == (400, "bad_request"), reply.body
    assert reply.body["errors"] == [{"pointer": "/optoin", "detail": "unknown"}]


@pytest.mark.parametrize("route", WITHOUT_BODY, ids=name_of)
async def test_a_route_without_a_body_rejects_one(shared: Server, route: Route) -> None:
    reply = await shared.request(route.method, path_of(route), {"optoin": 1})

    assert (reply.status, reply.code) == (400, "bad_request"), reply.body
    assert reply.body["errors"] == [{"pointer": "/optoin", "detail": "unknown"}]


async def test_an_empty_body_is_accepted(shared: Server) -> None:
    queue = a_queue()
    await configure(shared, queue)

    assert (await shared.post(f"/resources/queues/{queue}/pause", {})).status == 200
    assert (await shared.post(f"/resources/queues/{queue}/resume")).status == 200


async def test_options_of_a_pop_are_accepted_only_in_its_body(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1, 2)

    reply = await shared.post(f"/pop/queue/{queue}?batch=2", {})

    assert (reply.status, reply.code) == (400, "bad_request")
    assert data(await pop(shared, queue, batch=2)) == [1, 2]


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/health", "/metrics"])
async def test_probes_ignore_parameters_of_load_balancers(shared: Server, path: str) -> None:
    assert (await shared.request("GET", f"{path}?from=balancer")).status == 200
    assert (await shared.request("GET", path, {"from": "balancer"})).status == 200
