"""Workers and the server are killed while workflows run: each step follows exactly once."""

import asyncio
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from queen import Queen
from queen.jobs import Workflow, WorkflowHandle, execute_workflow
from tests.server.server import SOURCE, Server

ROOT = Path(__file__).parents[2]
WORKERS = 3
RUNS = 20
PARTS = 10

# Whoever has put it down, and however often it was delivered: each message is in the log once.
SENT = """
select
  m.payload::json -> 'workflow' ->> 'id' as id,
  m.payload::json -> 'workflow' ->> 'step' as step,
  m.payload::json -> 'workflow' ->> 'part' as part,
  count(*) as times
from queen.messages m
where m.queue = 'work'
group by 1, 2, 3
"""


class Workers:
    """Processes that may be killed at any time, each followed by another."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.running: list[subprocess.Popen[bytes]] = []
        self.killed = 0

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.system.workflow_worker", self._url, "work"]
        environment = {**os.environ, "PYTHONPATH": f"{SOURCE}:{ROOT}"}
        self.running.append(subprocess.Popen(command, cwd=ROOT, env=environment))

    def kill(self, number: int = 0) -> None:
        process = self.running.pop(number)
        process.kill()
        process.wait()
        self.killed += 1


@asynccontextmanager
async def workers(url: str) -> AsyncGenerator[Workers]:
    team = Workers(url)
    try:
        for _ in range(WORKERS):
            team.start()
        yield team
    finally:
        while team.running:
            team.kill()


def flow(number: int) -> Workflow:
    """A fan-out with its reduce, two branches beside it, and a fan-in of all."""
    return (
        Workflow(name="kills", id=f"w{number}")
        .step("split", "work", "split", PARTS)
        .map("squares", "work", "square", over="split")
        .step("sum", "work", "sum", after=["squares"])
        .step("left", "work", "names", after=["split"])
        .step("right", "work", "names", after=["split"])
        .step("end", "work", "names", after=["sum", "left", "right"])
    )


async def run_through(
    handles: list[WorkflowHandle], team: Workers, server: Server, chance: random.Random
) -> None:
    async def harass() -> None:
        for turn in range(1_000):
            await asyncio.sleep(0.5)
            team.kill(chance.randrange(len(team.running)))
            team.start()
            if turn in (3, 9):
                server.kill()
                await server.start()

    killing = asyncio.create_task(harass())
    try:
        await asyncio.gather(*(handle.wait(timeout=100) for handle in handles))
    finally:
        killing.cancel()
        await asyncio.gather(killing, return_exceptions=True)


@pytest.mark.timeout(150)
async def test_whatever_is_killed_each_step_follows_exactly_once(dsn: str) -> None:
    async with Server(dsn) as server, Queen(server.base_url, retry_attempts=20) as queen:
        await (
            queen.queue("work")
            .config({"ordered": False, "leaseTime": 2, "retryLimit": 100})
            .create()
        )
        async with workers(server.base_url) as team:
            handles = [await execute_workflow(queen, flow(number)) for number in range(RUNS)]
            await run_through(handles, team, server, random.Random(RUNS))
            assert team.killed
        for handle in handles:
            run = await handle.status()
            assert run.state == "completed", run.error
            assert await handle.result() == {"end": ["left", "right", "sum"]}
            results = {step.name: step.result for step in run.steps}
            assert bytes(results["sum"]) == b"285"  # pyright: ignore[reportArgumentType] - it completed
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch(SENT)
    finally:
        await connection.close()
    assert {row["times"] for row in rows} == {1}
    sent = Counter(row["id"] for row in rows)
    assert sent == {f"w{number}": PARTS + 5 for number in range(RUNS)}
