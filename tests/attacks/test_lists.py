"""Lists reveal no data of other tenants: not in rows, cursors, counts, labels or frames."""

import base64
import json
import re
from collections.abc import AsyncIterator
from typing import Any, Final, cast

import pytest

from queen import telemetry
from tests.attacks import routes
from tests.attacks.routes import CASES, GETS, TAKES, Query
from tests.attacks.world import (
    BURIED,
    GROUP,
    NOTHING,
    PUSHED,
    TENANTS,
    TRACE,
    Owned,
    World,
    populate,
    report,
    two_tenants,
)
from tests.support.callers import Caller
from tests.support.server import Reply, until

pytestmark = pytest.mark.timeout(240)  # Some thousand requests, on a shared machine.

FOR_ALL: Final = [path for path, case in CASES.items() if case.is_for_all]
PAGED: Final = [path for path, case in CASES.items() if case.rows is not None]
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|\+00:00)")
_VOLATILE: Final = {"requestId", "uptimeSeconds", "history", "windowSeconds", "stale", "workers"}
"""Values that change over time."""
_MOVING: Final = {"-oldestAgeSeconds", "-lagSeconds"}
"""Sort orders by age: a row may have moved before its cursor since the last page."""


@pytest.fixture
async def world(dsn: str) -> AsyncIterator[World]:
    async with two_tenants(dsn) as world:
        yield world


def other(tenant: str) -> str:
    return next(each for each in TENANTS if each != tenant)


def place(cursor: str) -> Any:  # noqa: ANN401 - JSON
    """The decoded content of a cursor."""
    raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    try:
        return json.loads(raw)
    except ValueError:
        return raw.decode()


def content(reply: Reply) -> str:
    """The whole content of a reply: status, headers, body and decoded cursor."""
    body: Any = reply.body
    cursor = None if isinstance(body, bytes) else body.get("nextCursor")
    return f"{reply.status} {dict(reply.headers)} {body} {cursor and place(cursor)}"


async def pages(caller: Caller, path: str, query: Query, most: int) -> list[Reply]:
    """All pages of a list with one row each. Fails if there are more than expected."""
    found: list[Reply] = []
    cursor: Query = {}
    while True:
        found.append(await caller.get(path, **query, **cursor, limit=1))
        body: Any = found[-1].body
        if found[-1].status != 200 or not body["nextCursor"]:
            return found
        assert len(found) <= most, (path, query, body, place(body["nextCursor"]))
        cursor = {"cursor": body["nextCursor"]}


def test_every_get_route_and_parameter_is_classified() -> None:
    assert set(GETS) == set(CASES) | TAKES
    for path, route in GETS.items():
        assert path in TAKES or not routes.unknown_parameters(route), path
        is_paged = route.query is not None and "cursor" in route.query.__struct_fields__
        assert path in TAKES or not CASES[path].is_for_all or is_paged == (path in PAGED), path


@pytest.mark.parametrize("tenant", TENANTS)
async def test_no_page_or_cursor_names_another_tenant(world: World, tenant: str) -> None:
    caller, owned = world.callers[tenant], world.owned[tenant]
    await sampled(caller)
    for listed in PAGED:
        path, query = routes.call(listed, owned)
        rows = CASES[listed].rows or ""
        for variant in routes.variants(GETS[listed]):
            whole = await caller.get(path, **query, **variant)
            assert whole.status == 200, (path, variant, whole)
            assert whole.body[rows] or variant, path  # The list is not empty.
            own = len(whole.body[rows])
            replies = await pages(caller, path, {**query, **variant}, own + 1)
            found = sum(len(reply.body[rows]) for reply in replies)
            assert found == own or variant.get("sort") in _MOVING, (path, variant)
            for reply in (whole, *replies):
                assert other(tenant) not in content(reply), (path, variant, content(reply))


async def sampled(caller: Caller, times: int = 1) -> None:
    """Wait until the objects of a tenant, populated this many times, are sampled and counted."""

    async def is_sampled() -> bool:
        queues = (await caller.get("/resources/queues")).body["queues"]
        totals = (await caller.get("/analytics")).body["totals"]
        return (
            all((each["sampledPending"] or 0) >= each["pending"] for each in queues)
            and all(
                bool(each["sampledOldestAgeSeconds"]) == (each["pending"] > 0) for each in queues
            )
            and (totals["pushed"], totals["deadLettered"]) == (PUSHED * times, BURIED * times)
        )

    await until(is_sampled, seconds=60)


def lasting(value: Any, key: str = "") -> Any:  # noqa: ANN401 - JSON
    """A body without values that change over time."""
    if isinstance(value, dict):
        named = cast("dict[str, Any]", value)
        return {name: lasting(each, name) for name, each in named.items() if name not in _VOLATILE}
    if key == "nextCursor" and value:
        return lasting(place(value))
    if key == "series":
        points = cast("list[dict[str, Any]]", value)
        names = {name for point in points for name in point}
        return {
            name: sum(point[name] for point in points if isinstance(point[name], int))
            for name in names
        }
    if isinstance(value, list):
        return [lasting(each) for each in cast("list[Any]", value)]
    if isinstance(value, float):
        return "a number"
    return _TIME.sub("a time", value) if isinstance(value, str) else value


async def seen(caller: Caller, owned: Owned) -> dict[str, Any]:
    """The responses of all GET routes to a tenant, page by page."""
    found: dict[str, Any] = {}
    for listed in FOR_ALL:
        path, query = routes.call(listed, owned)
        for variant in routes.variants(GETS[listed]):
            if variant.get("sort") in _MOVING:
                continue
            if listed in PAGED:
                replies = await pages(caller, path, {**query, **variant}, 100)
            else:
                replies = [await caller.get(path, **query, **variant)]
            for at, reply in enumerate(replies):
                body = reply.body
                if isinstance(body, bytes):  # Metrics: their values change, so keep the names.
                    lines = [line for line in body.decode().splitlines() if line[0] != "#"]
                    body = sorted({line.rpartition(" ")[0] for line in lines} - _workers(owned))
                found[f"{path} {variant} {at}"] = (reply.status, lasting(body))
    return found


def _workers(owned: Owned) -> set[str]:
    """Metrics of workers, which expire after some seconds."""
    names = (telemetry.WORKERS.name, telemetry.JOBS_RUNNING.name)
    return {f'{name}{{queue="{owned.jobs}"}}' for name in names}


async def test_a_tenant_sees_its_own_workers(world: World) -> None:
    for tenant in TENANTS:
        await report(world.callers[tenant], tenant, world.owned[tenant].jobs)
    for tenant in TENANTS:
        await report(world.callers[tenant], tenant, world.owned[tenant].jobs)
        reply = await world.callers[tenant].get("/jobs/workers")
        assert [each["worker"] for each in reply.body["workers"]] == [f"{tenant}-worker"]
        assert other(tenant) not in content(reply)


@pytest.mark.parametrize("tenant", TENANTS)
async def test_a_tenants_view_does_not_depend_on_other_tenants(world: World, tenant: str) -> None:
    caller, owned = world.callers[tenant], world.owned[tenant]
    await sampled(caller)
    before = await seen(caller, owned)
    for number in (1, 2):
        await populate(world.store, world.callers[other(tenant)], other(tenant), number=number)
    await sampled(world.callers[other(tenant)], times=3)
    after = await seen(caller, owned)
    for asked, answered in before.items():
        assert after[asked] == answered, asked
    assert after.keys() == before.keys()


async def test_foreign_and_missing_objects_are_rejected_alike(world: World) -> None:
    caller, foreign = world.callers["zeta"], world.owned["acme"]
    await sampled(caller)
    for path in FOR_ALL:
        if not (CASES[path].path or CASES[path].query):
            continue
        replies = [await _asked(caller, path, each) for each in (foreign, NOTHING)]
        assert replies[0] == replies[1], path
        assert replies[0][0] != 200 or path.startswith(("/api/v1/traces/by-name", "/api/v1/anal"))


async def _asked(caller: Caller, path: str, owned: Owned) -> tuple[int, str]:
    url, query = routes.call(path, owned)
    reply = await caller.get(url, **query)
    return reply.status, anonymous(reply, owned)


def anonymous(reply: Reply, owned: Owned) -> str:
    """A body without the names from the request."""
    body: Any = reply.body
    text = body.decode() if isinstance(body, bytes) else json.dumps(lasting(body))
    for value in sorted(owned, key=len, reverse=True):
        if len(value) > 3:  # An operation's id is a number, which may occur anywhere.
            text = text.replace(value, "it")
    return text


async def test_a_filter_does_not_reveal_whether_another_tenants_object_exists(
    world: World,
) -> None:
    caller, owned = world.callers["zeta"], world.owned["zeta"]
    await sampled(caller)
    for listed in FOR_ALL:
        path, query = routes.call(listed, owned)
        answers: list[list[tuple[int, str]]] = []
        for whose in (world.owned["acme"], NOTHING):
            answers.append([])
            for wanted in routes.filters(GETS[listed], whose):
                reply = await caller.get(path, **{**query, **wanted})
                answers[-1].append((reply.status, anonymous(reply, whose)))
        assert answers[0] == answers[1], path


async def test_foreign_transaction_ids_do_not_hide_the_callers_own(world: World) -> None:
    for tenant, count in (("zeta", 1), ("acme", 3)):
        for number in range(count):
            item = {"queue": f"{tenant}.same-{number}", "payload": 1, "transactionId": "same"}
            assert (await world.callers[tenant].post("/push", {"items": [item]})).status == 201

    found = await world.callers["zeta"].get("/messages/same")
    assert (found.status, found.body["queue"]) == (200, "zeta.same-0")


async def test_a_foreign_event_does_not_appear_after_the_callers_own(world: World) -> None:
    for tenant in TENANTS:
        replies = await pages(world.callers[tenant], f"/traces/by-name/{TRACE}", {}, 2)
        assert [len(reply.body["traces"]) for reply in replies] in ([1, 0], [1])
        assert other(tenant) not in "".join(map(content, replies))
    both = await pages(world.admin, f"/traces/by-name/{TRACE}", {}, 3)
    assert sum(len(reply.body["traces"]) for reply in both) == len(TENANTS)
    assert world.owned["zeta"].group == GROUP
