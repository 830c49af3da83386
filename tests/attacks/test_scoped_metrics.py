"""Metrics and live frames show a tenant its own queues and pipelines, and no server totals."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import pytest

from queen import telemetry
from queen.telemetry import FOR_ALL, METRICS
from tests.attacks.world import World, two_tenants
from tests.server.live.test_dashboard import dashboard, next_frame
from tests.support.callers import Caller
from tests.support.server import until

pytestmark = pytest.mark.timeout(180)

TENANTS_LABELS: Final = {"queue", "pipeline"}
"""Labels that name an object of a tenant and decide who sees the value."""
INNER_LABELS: Final = {"group", "name"}
"""Labels that name something inside a queue. They occur only together with its name."""
CLOSED_LABELS: Final = {
    *("reason", "verb", "outcome", "code", "route", "method", "status", "kind", "call", "state"),
    *("duty", "table", "version", "python", "operation", "direction", "result", "database", "slot"),
    "phase",
}
"""Labels whose values the server chooses."""


QUEUES: Final = ("jobs", "bills")
"""Queues with messages of each tenant, without their prefix and number."""


@pytest.fixture
async def world(dsn: str) -> AsyncIterator[World]:
    async with two_tenants(dsn) as world:
        yield world


def test_every_label_is_classified() -> None:
    for metric in METRICS:
        labels = set(metric.labels)
        assert labels <= TENANTS_LABELS | INNER_LABELS | CLOSED_LABELS, metric.name
        assert (metric.owner is not None) == bool(labels & TENANTS_LABELS), metric.name
        if labels & INNER_LABELS:
            assert metric.owner == "queue", metric.name
        assert metric.owner is None or metric not in FOR_ALL, metric.name


def families(text: bytes) -> set[str]:
    """The names of metrics with a value."""
    lines = [line for line in text.decode().splitlines() if not line.startswith("#")]
    names = {line.partition(" ")[0].partition("{")[0] for line in lines}
    suffixes = ("_bucket", "_sum", "_count")
    return {
        next((name.removesuffix(each) for each in suffixes if name.endswith(each)), name)
        for name in names
    }


async def test_metrics_show_a_tenant_only_its_own_objects(world: World) -> None:
    zeta, admin = world.callers["zeta"], world.admin

    async def is_sampled() -> bool:
        whole: bytes = (await admin.get("/metrics")).body
        wanted = (telemetry.TABLE_BYTES, telemetry.PIPELINE_LAG)
        # Counters name a queue before its first sample.
        depths = [f'{telemetry.QUEUE_MESSAGES.name}{{queue="zeta.{each}-0"' for each in QUEUES]
        return {each.name for each in wanted} <= families(whole) and all(
            each.encode() in whole for each in depths
        )

    await until(is_sampled, seconds=60)
    whole: bytes = (await admin.get("/metrics")).body
    assert b"acme-lake-0" in whole  # So it could leak to the tenant.
    text: bytes = (await zeta.get("/metrics")).body
    assert b'pipeline="zeta-lake-0"' in text
    assert b'queue="zeta.bills-0"' in text
    assert b"acme" not in text
    known = {each.name: each for each in METRICS}
    assert {known[name] for name in families(text) if known[name].owner is None} == set(FOR_ALL)
    objects: bytes = (await zeta.get("/metrics/per-object")).body
    assert b"zeta.bills-0" in objects
    assert b"acme" not in objects


async def test_json_metrics_cover_the_callers_queues_only(world: World) -> None:
    headers = {"Accept": "application/json"}
    zeta = await world.callers["zeta"].request("GET", "/metrics", headers=headers)
    pushed = zeta.body["messages"]["total"]
    assert zeta.body == {"messages": {"total": pushed, "rate": None}, "database": None}
    for _ in range(20):
        await world.callers["acme"].push("acme.bills-0")
    again = await world.callers["zeta"].request("GET", "/metrics", headers=headers)
    # The schedule and the workflow of the tenant push some messages meanwhile.
    assert again.body["messages"]["total"] < pushed + 20
    whole = await world.admin.request("GET", "/metrics", headers=headers)
    assert whole.body["messages"]["total"] > pushed
    assert whole.body["database"]["poolSize"] >= 1


async def test_the_buffer_status_shows_a_tenant_no_counts(world: World) -> None:
    counts = ("messages", "bytes", "oldestSeconds", "failedFiles")
    of_tenant = (await world.callers["zeta"].get("/status/buffers")).body
    assert [of_tenant[name] for name in counts] == [None] * 4
    assert of_tenant["dbHealthy"]
    assert (await world.admin.get("/status/buffers")).body["messages"] == 0


async def ticket(caller: Caller) -> str:
    return (await caller.post("/auth/ticket")).body["ticket"]


async def test_frames_show_a_tenant_its_own_queues(world: World) -> None:
    zeta, acme = world.callers["zeta"], world.callers["acme"]
    async with (
        dashboard(world.server, await ticket(zeta)) as opened,
        dashboard(world.server, await ticket(world.admin)) as whole,
    ):
        frames = [await next_frame(opened, "system.stats")]
        assert (await next_frame(whole, "system.stats"))["data"]["poolSize"] >= 1
        stats = frames[0]["data"]
        shown = {name for name, value in stats.items() if value is not None}
        assert shown == {"processes", "version", "buffer"}
        assert stats["buffer"]["messages"] is None
        await acme.push("acme.bills-0")
        await acme.post("/resources/queues/acme.payroll-0/purge", {"scope": "all"})
        await next_frame(whole, "operation.updated")
        await zeta.push("zeta.bills-0")
        await zeta.post("/resources/queues/zeta.payroll-0/purge", {"scope": "all"})
        wanted = {"message.processed", "operation.updated", "queue.depth.updated"}
        async with asyncio.timeout(60):
            while not wanted <= {frame["event"] for frame in frames}:
                frames.append(await opened.receive_json())
    assert "acme" not in str(frames)
    assert "zeta.bills-0" in str(frames)
