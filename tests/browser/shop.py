"""A shop's data besides the queues of the demo: jobs, schedules, traces, refunds, pipelines."""

from typing import Any
from uuid import uuid4

import asyncpg

from tests.support.server import Server

BIG = 12345678901234567890
_LEASE = ("transactionId", "partitionId", "leaseId", "consumerGroup")
_PIPELINES = (
    ("archive-orders", "archive", "running", 120, 4.2, None, "http://spark.example:4040"),
    ("rollup", "rollup", "failed", None, None, "OSError: no space left", "javascript:alert(1)"),
)


async def write_shop(server: Server, dsn: str) -> None:
    """Write data for every page."""
    await _jobs(server)
    await _traces(server)
    await _refunds(server)
    await _pipelines(dsn)


async def _post(server: Server, path: str, body: dict[str, Any]) -> Any:  # noqa: ANN401 - JSON
    reply = await server.post(path, body)
    assert reply.status in (200, 201), reply
    return reply.body


async def _settle(server: Server, queue: str, group: str | None = None, **told: Any) -> None:  # noqa: ANN401 - JSON
    body = {"queue": queue, "consumerGroup": group}
    (message,) = (await _post(server, "/pop", body))["messages"]
    await _post(server, "/ack", {**{name: message[name] for name in _LEASE}, **told})


async def _jobs(server: Server) -> None:
    for number, name in enumerate(["resize", "resize", "transcode", "publish"]):
        data = {"file": f"{number}.png", "id": BIG}
        job = {
            "queue": "media",
            "name": name,
            "data": data,
            "metadata": {"tags": ["web"], "id": BIG},
        }
        await _post(server, "/jobs", job)
    late = {"queue": "media", "name": "cleanup", "data": None, "delaySeconds": 86_400}
    await _post(server, "/jobs", late)
    result = {"width": 800, "etag": BIG}
    await _settle(server, "media", status="completed", result=result)
    error = "OSError: the disk is full\n  File worker.py, line 12"
    await _settle(server, "media", status="dlq", error=error)
    for name, cron in {"nightly": "0 3 * * *", "weekly": "0 4 * * 1"}.items():
        schedule = {"name": name, "queue": "media", "cron": cron, "payload": {"kind": name}}
        await _post(server, "/schedules", {**schedule, "timeZone": "Europe/Rome"})


async def _traces(server: Server) -> None:
    steps = (("info", {"step": "reserved", "id": BIG}), ("error", {"why": "no stock"}))
    for number in range(3):
        item = {"queue": "demo.carts", "partition": "customer-2", "payload": {"order": number}}
        (pushed,) = (await _post(server, "/push", {"items": [item]}))["messages"]
        for event, data in steps:
            trace = {
                "transactionId": pushed["transactionId"],
                "partitionId": pushed["partitionId"],
                "data": data,
                "eventType": event,
                "traceNames": ["checkout/7", "stock"],
                "consumerGroup": "billing",
            }
            await _post(server, "/traces", trace)


async def _refunds(server: Server) -> None:
    for number in range(4):
        item = {"queue": "demo.refunds", "partition": f"customer-{number}", "payload": {"id": BIG}}
        await _post(server, "/push", {"items": [item]})
        why = f"BankError: account {number} is closed" if number else "TimeoutError: 30 s"
        await _settle(server, "demo.refunds", "bank", status="dlq", error=why)


async def _pipelines(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.executemany(
            """
            insert into queen.pipelines (run_id, name, kind, queues, target, state, position,
              lag_messages, lag_seconds, batch_id, batch_millis, rows_per_second, rows_total,
              error, ui_url, started_at, updated_at, held_back_by)
            values ($8, $1, $2, array['demo.orders'], '/lake/orders', $3, '812345', $4, $5, 41, 820,
              1250.5, 93000, $6, $7, queen.now() - interval '2 hours', queen.now(),
              case when $1 = 'archive-orders' then 'pid 4711 of database x since 00:41:10 UTC' end)
            """,
            [(*each, uuid4()) for each in _PIPELINES],
        )
        await connection.execute("select queen.hold('demo.orders', 'archive:orders', '812345')")
        await connection.execute(
            """
            insert into queen.pipeline_samples (name, minute, rows, late, lag_messages, lag_seconds,
              batch_millis)
            select p.name, date_trunc('minute', queen.now()) - make_interval(mins => n),
              60000 + 20000 * sin(n / 5.0), case when n % 17 = 0 then 12 else 0 end,
              400 + 300 * cos(n / 7.0), 3 + 2 * cos(n / 7.0), 800 + 250 * sin(n / 3.0)
            from queen.pipelines p
            cross join generate_series(1, 50) n
            """
        )
    finally:
        await connection.close()
