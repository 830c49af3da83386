"""Reports of Spark jobs over HTTP."""

import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest

from queen.store.store import Store
from tests.server.metrics.test_metrics import text, value
from tests.support.callers import KEYS, Caller, make_key
from tests.support.clock import Clock
from tests.support.server import Server, until
from tests.support.verbs import pages


@pytest.fixture
async def guarded(dsn: str) -> AsyncIterator[Server]:
    async with Server(dsn, KEYS) as server:
        yield server


async def begin(store: Store, name: str, *queues: str) -> str:
    """Start a run, as `queen.pipelines.report` writes it."""
    run_id = str(uuid4())
    place = ("lake.orders", "http://spark:4040")
    await store.database.fetch("begin_pipeline", name, run_id, "archive", list(queues), *place)
    return run_id


async def report(store: Store, name: str, run_id: str, **figures: Any) -> bool:  # noqa: ANN401
    known: dict[str, Any] = {
        "state": "running", "queues": ["orders"], "position": None, "messages": None,
        "seconds": None, "batch_id": None, "batch_millis": None, "rows_per_second": None,
        "rows": None, "detail": None, "error": None, "held_back_by": None, **figures,
    }  # fmt: skip
    return bool(await store.database.fetch("report_pipeline", name, run_id, *known.values()))


async def test_a_pipeline_shows_its_reports(clock: Clock, store: Store, server: Server) -> None:
    run_id = await begin(store, "a/b", "orders")
    await report(
        store, "a/b", run_id, position="7000000000", messages=12, seconds=1.5, batch_id=3,
        batch_millis=250, rows_per_second=4000.0, rows=1000, detail='{"files": 2}',
        held_back_by="pid 7 of database x since 00:41:10 UTC",
    )  # fmt: skip

    shown = await server.get("/pipelines/a%2Fb")

    assert shown.status == 200, shown
    assert shown.body.pop("startedAt") < shown.body.pop("updatedAt")
    assert shown.body == {
        "name": "a/b",
        "kind": "archive",
        "queues": ["orders"],
        "target": "lake.orders",
        "state": "running",
        "stale": False,
        "position": 7_000_000_000,
        "lagMessages": 12,
        "lagSeconds": 1.5,
        "batchId": 3,
        "batchMillis": 250,
        "rowsPerSecond": 4000.0,
        "rowsTotal": 1000,
        "detail": {"files": 2},
        "error": None,
        "uiUrl": "http://spark:4040",
        "heldBackBy": "pid 7 of database x since 00:41:10 UTC",
    }


async def test_a_pipeline_keeps_the_rows_of_its_earlier_runs(store: Store, server: Server) -> None:
    async def rows() -> int | None:
        return (await server.get("/pipelines/a")).body["rowsTotal"]

    run_id = await begin(store, "a", "orders")
    assert await rows() is None
    await report(store, "a", run_id, rows=1000)
    run_id = await begin(store, "a", "orders")
    assert await rows() == 1000
    await report(store, "a", run_id, rows=1)
    assert await rows() == 1001


async def test_a_pipeline_has_a_history_by_minute(
    clock: Clock, store: Store, server: Server
) -> None:
    run_id = await begin(store, "a/b", "orders")
    for rows, dropped, millis in ((300, 0, 900), (600, 2, 400)):  # In the same minute.
        detail = json.dumps({"dropped": dropped})
        known = {"rows": rows, "detail": detail, "batch_millis": millis, "messages": rows}
        await report(store, "a/b", run_id, **known)
    await clock.advance(seconds=120)
    run_id = await begin(store, "a/b", "orders")
    await report(store, "a/b", run_id, rows=60, seconds=2.5)

    shown = await server.get("/pipelines/a%2Fb/series?bucketSeconds=60")

    assert (shown.status, shown.body["bucketSeconds"]) == (200, 60)
    minutes = shown.body["series"]
    assert len(minutes) >= 24 * 60
    known = [each for each in minutes if each.pop("t") and each["rowsPerSecond"] is not None]
    assert known == [
        {"rowsPerSecond": 10, "late": 2, "lagMessages": 600, "lagSeconds": None,
         "batchMillis": 900},
        {"rowsPerSecond": 1, "late": 0, "lagMessages": None, "lagSeconds": 2.5,
         "batchMillis": None},
    ]  # fmt: skip
    assert (await server.get("/pipelines/none/series")).status == 404


async def test_a_pipeline_without_reports_is_stale_unless_it_ended(
    clock: Clock, store: Store, server: Server
) -> None:
    for name, state in (("a", "running"), ("b", "idle"), ("c", "stopped"), ("d", "failed")):
        await report(store, name, await begin(store, name), state=state)
    await clock.advance(seconds=61)

    listed = (await server.get("/pipelines")).body["pipelines"]

    stale = {each["name"]: each["stale"] for each in listed}
    assert stale == {"a": True, "b": True, "c": False, "d": False}


async def test_reports_of_a_replaced_run_are_ignored(store: Store, server: Server) -> None:
    first = await begin(store, "archive", "orders")
    await report(store, "archive", first, batch_id=9, error="once")
    second = await begin(store, "archive", "orders")

    assert not await report(store, "archive", first, batch_id=10)

    shown = (await server.get("/pipelines/archive")).body
    assert (shown["batchId"], shown["error"]) == (None, None)
    assert await report(store, "archive", second, batch_id=1)


async def test_a_pipeline_without_reports_for_a_month_is_deleted(
    clock: Clock, store: Store, server: Server
) -> None:
    await begin(store, "old")
    await clock.advance(seconds=31 * 86_400)
    await begin(store, "new")

    assert [each["name"] for each in (await server.get("/pipelines")).body["pipelines"]] == ["new"]


async def test_pipelines_are_listed_in_pages(store: Store, server: Server) -> None:
    for number in range(5):
        await begin(store, f"p{number}")

    found = await pages(server, "/pipelines", "pipelines", limit=2)

    assert [[each["name"] for each in page] for page in found] == [
        ["p0", "p1"],
        ["p2", "p3"],
        ["p4"],
    ]


async def test_an_unknown_pipeline_is_not_found(server: Server) -> None:
    reply = await server.get("/pipelines/none")

    assert (reply.status, reply.code) == (404, "not_found")


async def test_a_caller_sees_only_pipelines_that_read_its_queues(
    dsn: str, store: Store, guarded: Server
) -> None:
    await begin(store, "all")
    await begin(store, "both", "shop.a", "secret")
    await begin(store, "mine", "shop.a", "shop.b")
    await begin(store, "other", "secret")
    shop = Caller(guarded, await make_key(dsn, scopes=[{"queue": "shop.*"}]))
    admin = Caller(guarded, await make_key(dsn))

    seen = [each["name"] for each in (await shop.get("/pipelines")).body["pipelines"]]

    assert seen == ["mine"]
    assert (await shop.get("/pipelines/mine")).status == 200
    for name in ("all", "both", "other", "none"):
        assert (await shop.get(f"/pipelines/{name}")).code == "forbidden"
    assert len((await admin.get("/pipelines")).body["pipelines"]) == 4


async def test_metrics_show_the_lag_of_running_pipelines(dsn: str, store: Store) -> None:
    for name, state in (("live", "running"), ("over", "stopped")):
        run_id = await begin(store, name)
        await report(store, name, run_id, state=state, messages=12, seconds=1.5)
    await report(store, "unknown", await begin(store, "unknown"))
    async with Server(dsn) as server:

        async def is_sampled() -> bool:
            return await value(server, "queen_pipeline_lag_messages", pipeline="live") == 12

        await until(is_sampled, seconds=30)

        assert await value(server, "queen_pipeline_lag_seconds", pipeline="live") == 1.5
        assert await value(server, "queen_pipeline_last_update_timestamp_seconds") > 0
        served = await text(server)
        assert 'queen_pipeline_last_update_timestamp_seconds{pipeline="unknown"}' in served
        assert 'queen_pipeline_lag_seconds{pipeline="unknown"}' not in served
        assert 'pipeline="over"' not in served
