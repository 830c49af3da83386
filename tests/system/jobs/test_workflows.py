"""Workers and the server are killed while workflows run: each step runs exactly once."""

import asyncio
import os
import random
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from queen import Queen
from queen.jobs import QueueManager, Workflow
from tests.support.server import SOURCE, Server

ROOT = Path(__file__).parents[3]
PARTS = 10
BEFORE = {
    "split": [],
    "squares": [],
    "sum": ["squares"],
    "left": ["split"],
    "right": ["split"],
    "tax": ["sum"],
    "check": ["tax"],
    "join": ["check", "left", "right"],
    "report": ["join"],
    "end": ["report"],
}
"""The ten steps with the steps whose results they receive. ``squares`` receive items of one."""
SQUARES = "285"

# Each message is in the log once, for any pusher and any number of deliveries.
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
# Messages that processors pushed in the transactions of their acks, by workflow, in commit order.
EFFECTS = """
select
  m.partition as id,
  m.payload::json ->> 'step' as step,
  m.payload::json ->> 'part' as part,
  array(select json_array_elements_text(m.payload::json -> 'given')) as given
from queen.messages m
where m.queue = 'effects'
order by m.partition, m."offset"
"""
RUNS = """
select w.id, w.state, w.error, w.result::text, s.result::text as sum
from queen.workflows w
join queen.workflow_steps s on s.workflow_id = w.id and s.name = 'sum'
"""
OPEN = "select count(*) from queen.workflows w where w.ended_at is null"

Place = tuple[str, str, str | None]


class Workers:
    """Processes that may be killed at any time. Each killed one is replaced."""

    def __init__(self, url: str, *, concurrency: int) -> None:
        self._url = url
        self._concurrency = concurrency
        self.running: list[subprocess.Popen[bytes]] = []
        self.killed = 0

    def start(self) -> None:
        module = "tests.system.jobs.workflow_worker"
        command = [sys.executable, "-m", module, self._url, str(self._concurrency)]
        environment = {**os.environ, "PYTHONPATH": f"{SOURCE}:{ROOT}"}
        quiet = subprocess.DEVNULL  # They log each lost connection to the server.
        self.running.append(subprocess.Popen(command, cwd=ROOT, env=environment, stderr=quiet))

    def kill(self, number: int = 0) -> None:
        process = self.running.pop(number)
        process.kill()
        process.wait()
        self.killed += 1


@asynccontextmanager
async def workers(url: str, count: int, *, concurrency: int) -> AsyncGenerator[Workers]:
    team = Workers(url, concurrency=concurrency)
    try:
        for _ in range(count):
            team.start()
        yield team
    finally:
        while team.running:
            team.kill()


def flow(number: int) -> Workflow:
    """A fan-out of ten with its fan-in, two branches beside it, and a fan-in of all."""
    found = Workflow(name="kills", id=f"w{number}").step("split", "work", "split", PARTS)
    found = found.map("squares", "work", "square", over="split")
    for name, before in BEFORE.items():
        if before:
            found = found.step(name, "work", "sum" if name == "sum" else "names", after=before)
    return found


def expected(runs: int) -> set[Place]:
    """The steps that must be sent, and take effect, exactly once."""
    found: set[Place] = set()
    for number in range(runs):
        found |= {(f"w{number}", step, None) for step in BEFORE if step != "squares"}
        found |= {(f"w{number}", "squares", str(part)) for part in range(PARTS)}
    return found


async def harass(team: Workers, server: Server, *, seconds: float, server_at: set[int]) -> None:
    """Kill a worker in each round, and the server in the rounds `server_at`."""
    chance = random.Random(PARTS)
    turn = 0
    while True:
        await asyncio.sleep(seconds)
        team.kill(chance.randrange(len(team.running)))
        team.start()
        if turn in server_at:
            server.kill()
            await server.start()
        turn += 1


async def start(queen: Queen, runs: int) -> None:
    jobs = QueueManager(queen)
    numbers = iter(range(runs))

    async def some() -> None:
        for number in numbers:
            await jobs.execute_workflow(flow(number))

    await asyncio.gather(*(some() for _ in range(8)))


async def prove(
    dsn: str, *, runs: int, count: int, concurrency: int, kill_seconds: float, server_at: set[int]
) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        async with Server(dsn) as server, Queen(server.base_url, retry_attempts=30) as queen:
            await queen.queue("effects").create()
            async with workers(server.base_url, count, concurrency=concurrency) as team:
                began = time.monotonic()
                killing = asyncio.create_task(
                    harass(team, server, seconds=kill_seconds, server_at=server_at)
                )
                try:
                    await start(queen, runs)
                    while await connection.fetchval(OPEN):
                        await asyncio.sleep(0.1)
                        assert not killing.done(), killing.result()
                finally:
                    killing.cancel()
                    await asyncio.gather(killing, return_exceptions=True)
                seconds = time.monotonic() - began
                print(f"{runs} workflows in {seconds:.1f} s, {team.killed} workers killed")
                assert team.killed
        await check(connection, runs)
    finally:
        await connection.close()


async def check(connection: "asyncpg.Connection[asyncpg.Record]", runs: int) -> None:
    """Check the identities in the database."""
    rows = await connection.fetch(RUNS)
    assert {row["id"] for row in rows} == {f"w{number}" for number in range(runs)}
    assert {(row["state"], row["error"], row["result"], row["sum"]) for row in rows} == {
        ("completed", None, '{ "end" : ["report"] }', SQUARES)
    }

    sent = {
        (row["id"], row["step"], row["part"]): row["times"] for row in await connection.fetch(SENT)
    }
    assert sent.keys() == expected(runs)
    assert set(sent.values()) == {1}

    done: dict[str, list[str]] = {}
    seen: set[Place] = set()
    for row in await connection.fetch(EFFECTS):
        place = (row["id"], row["step"], row["part"])
        assert place not in seen, f"{place} had its effect twice"
        seen.add(place)
        before = done.setdefault(row["id"], [])
        assert row["given"] == sorted(BEFORE[row["step"]])
        for step in row["given"]:
            parts = PARTS if step == "squares" else 1
            assert before.count(step) == parts, f"{place} ran before all of {step} had"
        before.append(row["step"])
    assert seen == expected(runs)


@pytest.mark.nightly
@pytest.mark.timeout(150)
async def test_under_kills_each_step_runs_exactly_once(dsn: str) -> None:
    await prove(dsn, runs=20, count=3, concurrency=4, kill_seconds=0.7, server_at={2, 6})


@pytest.mark.slow
async def test_a_thousand_workflows_end_while_a_worker_is_killed_every_second(dsn: str) -> None:
    await prove(dsn, runs=1_000, count=8, concurrency=10, kill_seconds=1.0, server_at={10, 25})
