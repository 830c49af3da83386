"""`/metrics`: its content, and that it sums all processes."""

import asyncio
import os
import signal
from collections.abc import Mapping
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from queen import telemetry
from tests.support.server import Server, until

QUEUE_MODE = "__QUEUE_MODE__"


async def text(server: Server) -> str:
    reply = await server.request("GET", "/metrics", headers={"Accept": "text/plain"})
    assert reply.status == 200
    assert reply.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    return reply.body.decode()


async def value(server: Server, metric: str, /, **labels: str) -> float:
    """The sum of a metric over the samples that have these labels."""
    return sum(
        sample.value
        for family in text_string_to_metric_families(await text(server))
        for sample in family.samples
        if sample.name == metric and _has(sample.labels, labels)
    )


def _has(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(labels[name] == text for name, text in wanted.items())


async def push(server: Server, queue: str, count: int = 1) -> None:
    items = [{"queue": queue, "payload": n} for n in range(count)]
    assert (await server.post("/push", {"items": items})).status == 201


async def test_every_documented_metric_is_served_and_no_other(server: Server) -> None:
    served = [line.split()[2] for line in (await text(server)).splitlines() if "# TYPE" in line]

    assert served == [metric.name for metric in telemetry.METRICS]


async def test_a_message_is_counted_from_push_to_ack(server: Server) -> None:
    await push(server, "orders", 3)
    popped = await server.get("/pop/queue/orders", batch=3)
    done = [
        {"id": m["id"], "transactionId": m["transactionId"], "leaseId": m["leaseId"]}
        for m in popped.body["messages"]
    ]
    await server.post("/ack/batch", {"acknowledgments": done})

    assert await value(server, "queen_messages_pushed_total", queue="orders") == 3
    pair = {"queue": "orders", "group": QUEUE_MODE}
    assert await value(server, "queen_messages_popped_total", **pair) == 3
    assert await value(server, "queen_messages_acked_total", **pair) == 3
    assert await value(server, "queen_message_wait_seconds_count", **pair) == 3
    assert await value(server, "queen_message_processing_seconds_count", **pair) == 3
    calls = {"route": "/api/v1/push", "method": "POST", "status": "201"}
    assert await value(server, "queen_http_request_seconds_count", **calls) == 1
    assert await value(server, "queen_db_call_seconds_count", call="push") == 1


async def test_partitions_are_not_labels(server: Server) -> None:
    await server.post(
        "/push", {"items": [{"queue": "orders", "partition": "customer-42", "payload": 1}]}
    )
    await server.get("/pop/queue/orders/partition/customer-42")

    assert "customer-42" not in await text(server)


async def test_json_is_served_on_request(server: Server) -> None:
    await push(server, "orders", 5)
    reply = await server.request("GET", "/metrics", headers={"Accept": "application/json"})

    assert reply.body["messages"]["total"] == 5
    assert reply.body["messages"]["rate"] > 0
    database = reply.body["database"]
    assert set(database) == {"poolSize", "idleConnections", "waitingRequests"}
    assert database["poolSize"] >= database["idleConnections"] >= 0


async def test_the_endpoint_can_be_disabled(dsn: str) -> None:
    async with Server(dsn, {"METRICS_ENDPOINT_ENABLED": "false"}) as server:
        assert (await server.get("/metrics")).code == "no_such_route"


async def test_rejected_calls_and_unknown_paths_are_counted(server: Server) -> None:
    await server.get("/nowhere/at/all")

    assert (
        await value(server, "queen_http_request_seconds_count", route="(none)", status="404") == 1
    )


async def test_only_one_process_measures_depths_and_tables(dsn: str) -> None:
    fast = {"QUEEN_SAMPLE_SECONDS": "0.2"}
    async with Server(dsn, fast) as one, Server(dsn, fast) as two:
        await push(one, "orders", 4)

        async def is_measured() -> bool:
            found = [await value(s, "queen_queue_messages", queue="orders") for s in (one, two)]
            return sorted(found) == [0, 4]

        await until(is_measured, seconds=30)
        tables = [await value(s, "queen_table_bytes", table="segments") for s in (one, two)]
        assert sorted(bytes_ > 0 for bytes_ in tables) == [False, True]
        leader, other = (one, two) if tables[0] else (two, one)
        leader.kill()

        async def is_taken_over() -> bool:
            return await value(other, "queen_table_bytes", table="segments") > 0

        await until(is_taken_over, seconds=40)


async def test_pushed_messages_are_settled_dead_lettered_dropped_or_pending(dsn: str) -> None:
    async with Server(dsn, {"QUEEN_SAMPLE_SECONDS": "0.1"}) as server:
        await server.post("/configure", {"queue": "orders", "options": {"retryLimit": 0}})
        await push(server, "orders", 10)
        for status in ("completed", "failed", "dlq", "retry", None):
            popped = await server.get("/pop/queue/orders", batch=1)
            (message,) = popped.body["messages"]
            if status is not None:
                ack = {"id": message["id"], "leaseId": message["leaseId"], "status": status}
                assert (await server.post("/ack", ack)).status == 200
        counts = [
            await value(server, f"queen_messages_{name}_total", queue="orders")
            for name in ("acked", "dead_lettered", "dropped")
        ]

        async def is_sampled() -> bool:
            left = await value(server, "queen_group_lag_messages", queue="orders")
            return left == 10 - sum(counts)

        assert counts == [1, 2, 0]
        await until(is_sampled)
        assert await value(server, "queen_dead_letters", queue="orders") == 2
        assert await value(server, "queen_deliveries", queue="orders") == 1
        assert await value(server, "queen_http_connections") >= 1


async def test_waiters_are_counted_by_queue_and_group(server: Server) -> None:
    await push(server, "orders")
    await server.get("/pop/queue/orders", consumerGroup="g")
    polls = [
        asyncio.create_task(server.get(path, wait="true", timeout=20_000, consumerGroup="g"))
        for path in ("/pop/queue/orders", "/pop/queue/orders/partition/p", "/pop?namespace=n")
    ]

    async def are_counted() -> bool:
        return await value(server, "queen_waiters") == 3

    await until(are_counted)
    assert await value(server, "queen_waiters", queue="orders", group="g") == 2
    for poll in polls:
        poll.cancel()


@pytest.fixture
def several() -> dict[str, str]:
    return {"NUM_WORKERS": "3", "QUEEN_COUNTERS_FLUSH_SECONDS": "0.2"}


async def workers(server: Server) -> list[int]:
    """The worker processes that the supervisor started."""
    path = f"/proc/{server.pid}/task/{server.pid}/children"
    with open(path) as file:  # noqa: ASYNC230 - a file of the kernel
        children = [int(pid) for pid in file.read().split()]
    found: list[int] = []
    for pid in children:
        with open(f"/proc/{pid}/cmdline") as file:  # noqa: ASYNC230
            if "spawn_main" in file.read():
                found.append(pid)
    return found


async def test_any_worker_returns_the_sum_of_all_workers(dsn: str, several: dict[str, str]) -> None:
    async with Server(dsn, several) as server:

        async def are_all_up() -> bool:
            return await value(server, "queen_processes") == 3

        await until(are_all_up, seconds=40)
        for _ in range(20):
            # The kernel gives each new connection to any worker.
            await server.session.close()
            server._session = None  # pyright: ignore[reportPrivateUsage]
            await push(server, "orders")
        assert await value(server, "queen_messages_pushed_total", queue="orders") == 20


async def test_counters_never_decrease_when_a_worker_is_killed(
    dsn: str, several: dict[str, str]
) -> None:
    async with Server(dsn, several) as server:

        async def are_all_up() -> bool:
            return await value(server, "queen_processes") == 3

        await until(are_all_up, seconds=40)
        await push(server, "orders", 10)
        seen = await value(server, "queen_messages_pushed_total", queue="orders")
        assert seen == 10
        for pid in await workers(server):
            os.kill(pid, signal.SIGKILL)
            await until(are_all_up, seconds=40)
            await server.session.close()
            server._session = None  # pyright: ignore[reportPrivateUsage]

            assert await value(server, "queen_messages_pushed_total", queue="orders") == seen
        assert "worker.ended" in server.log
        assert await server.stop() == 0


def report_of(worker: str = "w1", **figures: object) -> dict[str, Any]:
    """The report that a worker sends with its renewal."""
    job = {"queue": "mail", "name": "send", **figures}
    return {"leaseIds": [], "report": {"worker": worker, "queues": ["mail"], "jobs": [job]}}


async def test_reporting_workers_are_listed(server: Server) -> None:
    assert (await server.post("/jobs/renew", report_of("b", running=2))).status == 200
    assert (await server.post("/jobs/renew", report_of("a"))).status == 200
    found = (await server.get("/jobs/workers")).body["workers"]
    assert [(each["worker"], each["queues"]) for each in found] == [
        ("a", [{"queue": "mail", "running": 0}]),
        ("b", [{"queue": "mail", "running": 2}]),
    ]


async def test_a_repeated_report_counts_once(server: Server) -> None:
    """Its response was lost, or the database was unavailable when it arrived."""
    report = report_of(completed=2, running=1, seconds=0.5, bins={"52": 2})
    report["report"] |= {"number": 7}
    for _ in range(2):
        assert (await server.post("/jobs/renew", report)).status == 200
    report["report"] |= {"number": 8}
    assert (await server.post("/jobs/renew", report)).status == 200

    named = {"queue": "mail", "name": "send"}
    assert await value(server, "queen_jobs_completed_total", **named) == 4
    assert await value(server, "queen_job_duration_seconds_count", **named) == 4
    assert await value(server, "queen_jobs_running", queue="mail") == 1


async def test_job_reports_of_workers_are_summed(server: Server) -> None:
    added = {"queue": "mail", "name": "send"}
    assert (await server.post("/jobs/bulk", {"jobs": [added] * 3})).status == 201
    await push(server, "orders", 2)

    first = report_of(completed=2, running=1, seconds=0.5, bins={"52": 1, "40": 1})
    assert (await server.post("/jobs/renew", first)).status == 200
    again = report_of(completed=1, failed=1, retried=4, running=2)
    assert (await server.post("/jobs/renew", again)).status == 200
    assert (await server.post("/jobs/renew", report_of("w2", running=3))).status == 200

    named = {"queue": "mail", "name": "send"}
    assert await value(server, "queen_jobs_added_total", queue="mail") == 3
    assert await value(server, "queen_jobs_added_total", queue="orders") == 0
    assert await value(server, "queen_jobs_completed_total", **named) == 3
    assert await value(server, "queen_jobs_failed_total", **named) == 1
    assert await value(server, "queen_jobs_retried_total", **named) == 4
    assert await value(server, "queen_jobs_running", queue="mail") == 5
    assert await value(server, "queen_workers", queue="mail") == 2
    assert await value(server, "queen_job_duration_seconds_count", **named) == 2
    assert await value(server, "queen_job_duration_seconds_sum", **named) == 0.5
    assert (await server.post("/jobs/renew", report_of(bins={"128": 1}))).code == "bad_request"
