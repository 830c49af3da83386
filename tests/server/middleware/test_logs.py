"""Log events of the server, and data that must never be logged."""

import json
from typing import Any

from tests.support.server import Server, until

SECRET = "canary-9f2c"


def lines(server: Server, event: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for line in server.log.splitlines():
        assert line.startswith("{"), server.log
        entry = json.loads(line)
        if entry["event"] == event:
            found.append(entry)
    return found


async def break_database(server: Server, dsn: str) -> None:
    """Make pushes fail with an unexpected error."""
    import asyncpg

    connection = await asyncpg.connect(dsn)
    await connection.execute(
        "create function public.refuse () returns trigger language plpgsql as "
        "$$ begin raise exception 'row % is odd', new using errcode = 'XX001'; end $$"
    )
    await connection.execute(
        "create trigger refuse before insert on queen.segments for each row "
        "execute function public.refuse()"
    )
    await connection.close()


async def test_start_and_stop_are_logged(server: Server) -> None:
    await server.stop()

    (started,) = lines(server, "server.started")
    assert started["port"] == server.port
    assert started["version"]
    assert lines(server, "worker.started")
    assert lines(server, "server.stopping")
    (stopped,) = lines(server, "server.stopped")
    assert stopped["code"] == 0
    assert stopped["level"] == "info"


async def test_an_unexpected_error_is_logged_with_its_traceback_and_returned_as_internal(
    server: Server, dsn: str
) -> None:
    await break_database(server, dsn)
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    reply = await server.request(
        "POST",
        "/push",
        {"items": [{"queue": "orders", "payload": SECRET}]},
        headers={"X-Request-Id": "r-42", "traceparent": f"00-{trace}-00f067aa0ba902b7-01"},
    )

    assert reply.status == 500
    assert (reply.body["code"], reply.body["applied"]) == ("internal", None)
    assert "odd" not in reply.body["detail"]
    (entry,) = lines(server, "http.unexpected_error")
    assert entry["request_id"] == "r-42"
    assert entry["trace_id"] == trace
    assert entry["path"] == "/api/v1/push"
    assert "Traceback" not in entry["error"]
    assert "pusher.py" in entry["traceback"]
    metrics = await server.request("GET", "/metrics")
    assert b'queen_unexpected_errors_total{route="/api/v1/push"} 1' in metrics.body


async def test_no_line_contains_a_payload_header_or_password(dsn: str) -> None:
    environment = {"LOG_LEVEL": "debug", "PG_PASSWORD": f"{SECRET}-password"}
    async with Server(dsn, environment) as server:
        item = {
            "queue": "orders",
            "payload": {"card": SECRET},
            "headers": {"authorization": SECRET},
        }
        await server.post("/push", {"items": [item]})
        popped = await server.get("/pop/queue/orders")
        message = popped.body["messages"][0]
        await server.post(
            "/ack",
            {
                "id": message["id"],
                "leaseId": message["leaseId"],
                "status": "failed",
                "error": SECRET,
            },
        )
        await server.request("GET", "/pop/queue/orders", parameters={"ticket": SECRET})
        await server.request("POST", "/push", [SECRET])

        assert lines(server, "http.request")
        assert SECRET not in server.log


async def test_probes_are_not_logged(dsn: str) -> None:
    async with Server(dsn, {"LOG_LEVEL": "debug"}) as server:
        for path in ("/livez", "/readyz", "/health", "/metrics"):
            await server.get(path)
        await server.get("/pop/queue/nobody")

        (entry,) = lines(server, "http.request")
        assert entry["path"] == "/api/v1/pop/queue/nobody"
        assert entry["status"] == 404
        assert entry["code"] == "queue_not_found"
        assert entry["request_id"]


async def test_level_info_has_no_line_per_call(server: Server) -> None:
    await server.post("/push", {"items": [{"queue": "orders", "payload": 1}]})

    assert not lines(server, "http.request")


async def test_the_console_format_is_readable_text(dsn: str) -> None:
    async with Server(dsn, {"LOG_FORMAT": "console"}) as server:
        assert "server.started" in server.log
        assert not server.log.startswith("{")


async def test_an_outage_logs_one_line_at_its_start_and_one_at_its_end(dsn: str) -> None:
    import asyncpg

    name = dsn.split("/")[3].partition("?")[0]
    fast = {"QUEEN_SAMPLE_SECONDS": "0.1", "QUEEN_COUNTERS_FLUSH_SECONDS": "0.1"}
    async with Server(dsn, fast) as server:
        connection = await asyncpg.connect(dsn.replace(name, "postgres", 1))
        try:
            await connection.execute(f'alter database "{name}" allow_connections false')
            await connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname = $1", name
            )

            async def is_lost() -> bool:
                return bool(lines(server, "database.lost"))

            await until(is_lost)
        finally:
            await connection.execute(f'alter database "{name}" allow_connections true')
            await connection.close()

        async def is_back() -> bool:
            return bool(lines(server, "database.back"))

        await until(is_back, seconds=20)
        assert len(lines(server, "database.lost")) == 1


async def test_a_variable_without_effect_is_reported_once(dsn: str) -> None:
    environment = {"BATCH_INSERT_SIZE": "2000", "DB_QUERY_TIMEOUT": "20000", "NUM_WORKERS": "2"}
    async with Server(dsn, environment) as server:
        (line,) = lines(server, "setting.unused")
    assert (line["level"], line["variable"]) == ("warning", "BATCH_INSERT_SIZE")
    assert "QUEEN_SEGMENT_MAX_MESSAGES" in line["reason"]
