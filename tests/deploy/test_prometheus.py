"""A real Prometheus scrapes a server: every chart of the dashboard has data."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
import pytest
import yaml

from queen.cli.generate.alerts import RULES
from queen.cli.generate.grafana import dashboard
from tests.deploy.files import program, started
from tests.support.ports import free_port
from tests.support.server import Server, until

NO_EVENTS = {"Rejected by limits"}
"""Charts of events that don't happen in this test."""
FAST = {"QUEEN_SAMPLE_SECONDS": "0.5"}


@asynccontextmanager
async def prometheus(server: Server, directory: Path) -> AsyncGenerator[str]:
    """Prometheus on its own port, which scrapes one server every second."""
    port = free_port()
    target = {"targets": [f"127.0.0.1:{server.port}"]}
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "scrape_configs": [{"job_name": "queen", "static_configs": [target]}],
    }
    (directory / "prometheus.yml").write_text(yaml.safe_dump(config))
    command = [
        program("prometheus"),
        f"--config.file={directory / 'prometheus.yml'}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    process = started(command, directory / "log")
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        await asyncio.to_thread(process.wait, 20)


async def work(server: Server) -> None:
    """Push, pop, ack and fail some messages."""
    items = [{"queue": "orders", "payload": n} for n in range(4)]
    assert (await server.post("/push", {"items": items})).status == 201
    popped = await server.get("/pop/queue/orders", batch=2)
    # A failed message is retried later, and the next ones of its partition wait for it.
    found: list[Any] = popped.body["messages"] if popped.status == 200 else []
    acks = [
        {"id": each["id"], "leaseId": each["leaseId"], "status": status}
        for each, status in zip(found, ("completed", "failed"), strict=False)
    ]
    if acks:
        await server.post("/ack/batch", {"acknowledgments": acks})


@pytest.mark.nightly
async def test_every_chart_and_rule_works_on_real_metrics(dsn: str, tmp_path: Path) -> None:
    async with (
        Server(dsn, FAST) as server,
        prometheus(server, tmp_path) as url,
        aiohttp.ClientSession() as session,
    ):

        async def query(expression: str) -> list[Any]:
            asked = f"{url}/api/v1/query?{urlencode({'query': expression})}"
            async with session.get(asked) as answer:
                body = await answer.json()
            assert body["status"] == "success", (expression, body)
            return body["data"]["result"]

        async def is_scraped() -> bool:
            await work(server)
            try:
                return bool(await query("count_over_time(queen_dead_letters[1m]) > 3"))
            except (aiohttp.ClientConnectionError, aiohttp.ContentTypeError):  # It starts.
                return False

        waiting = asyncio.create_task(
            server.get("/pop/queue/orders/partition/idle", wait="true", timeout=60_000)
        )
        await until(is_scraped, seconds=50)
        waiting.cancel()
        empty = {
            panel["title"]
            for panel in dashboard()["panels"]
            for target in panel.get("targets", [])
            if not await query(
                target["expr"].replace("$__rate_interval", "30s").replace("$queue", ".*")
            )
        }
        assert empty == NO_EVENTS
        for rule in RULES:
            await query(rule.expression)
