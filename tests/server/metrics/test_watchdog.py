"""A process whose event loop stalls counts and logs the stall with its route and code."""

import asyncio
import json
import os
import re
import signal
import time
from typing import Any

from tests.support.calls import configure
from tests.support.server import Server, until

STALL = re.compile(rb"^queen_event_loop_stall_seconds_(count|sum) (\S+)$", re.MULTILINE)


def stalls_of(server: Server) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in server.log.splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] == "loop.stalled"]


async def test_a_stalled_process_counts_and_logs_it(server: Server) -> None:
    os.kill(server.pid, signal.SIGSTOP)
    try:
        stopped_at = time.monotonic()
        await until(lambda: asyncio.sleep(0, time.monotonic() - stopped_at > 1))
    finally:
        os.kill(server.pid, signal.SIGCONT)

    await until(lambda: asyncio.sleep(0, any(each["seconds"] > 0.9 for each in stalls_of(server))))
    found = dict(STALL.findall((await server.get("/metrics")).body))
    assert int(found[b"count"]) >= 1
    assert float(found[b"sum"]) > 0.9


async def test_a_stall_names_its_route_and_code(dsn: str) -> None:
    """Validating a payload of 12 MiB takes one long call, if an operator raises the limit."""
    async with Server(dsn, {"QUEEN_MAX_PAYLOAD_BYTES": str(2**24)}) as server:
        await configure(server, "q", schema={"type": "array", "items": {"type": "array"}})
        payload: list[list[int]] = [[]] * 4_000_000

        reply = await server.post("/push", {"items": [{"queue": "q", "payload": payload}]})

        assert reply.status == 201
        stall = max(stalls_of(server), key=lambda each: each["seconds"])
        assert stall["level"] == "warning"
        assert stall["seconds"] > 0.25
        assert stall["route"] == "/api/v1/push"
        # One of the calls that process the payload. Which of them stalls depends on the machine.
        assert stall["code"].startswith("queen.")
