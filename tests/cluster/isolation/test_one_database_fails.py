"""T5. One of three databases fails: queues of the others are as fast as before."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

import pytest

from queen.store.cluster.joining import join
from tests.cluster.isolation.traffic import Measured, Numbered, asking
from tests.cluster.places import NAMES, ONE, THREE, TWO
from tests.cluster.reports import report
from tests.support.gate import Gate
from tests.support.postgres import Postgres
from tests.support.server import Server, until

_MOST_RATIO: Final = 1.5


class Form(NamedTuple):
    """How long the fault lasts, and what is accepted although the database works."""

    seconds: float
    noise_ms: float
    """
    A 99th percentile that the machine can cause, because PostgreSQL, the server and the clients
    share it. A call that waits for the failed database takes seconds.
    """
    most_recovery_seconds: float


_FULL: Final = Form(60.0, 150.0, 2.0)
_SHORT: Final = Form(10.0, 1_000.0, 6.0)
"""It shares the machine with other tests."""


class Scene:
    """Three databases, of which one is behind a gate, and a queue in each."""

    def __init__(self, server: Server, victim: Postgres, gate: Gate, queue: str) -> None:
        self.server = server
        self.victim = victim
        self.gate = gate
        self.queue = queue
        """The queue of the database that fails."""

    async def kill(self) -> None:
        await asyncio.to_thread(self.victim.kill)

    async def start(self) -> None:
        await asyncio.to_thread(self.victim.start)

    async def pause(self) -> None:
        self.victim.pause()

    async def resume(self) -> None:
        self.victim.resume()

    async def swallow(self) -> None:
        self.gate.swallow(True)

    async def forward(self) -> None:
        self.gate.swallow(False)


@pytest.fixture
async def scene(
    apart: dict[str, Postgres], tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Scene]:
    victim: str = request.param
    name = f"test_{uuid4().hex}"
    databases = {each: postgres.create_database(name) for each, postgres in apart.items()}
    async with Gate.open(databases[victim], tmp_path) as gate:
        databases[victim] = gate.dsn
        await join(databases)
        async with Server(databases, {"FILE_BUFFER_DIR": str(tmp_path / "buffer")}) as server:
            for queue in QUEUES.values():
                item = {"queue": queue, "payload": 0, "partition": "first"}
                assert (await server.post("/push", {"items": [item]})).status == 201
            yield Scene(server, apart[victim], gate, QUEUES[victim])


QUEUES: Final[dict[str, str]] = dict(zip(NAMES, (ONE, TWO, THREE), strict=True))
FAULTS: dict[str, tuple[Callable[[Scene], Awaitable[None]], Callable[[Scene], Awaitable[None]]]] = {
    "killed": (Scene.kill, Scene.start),
    "paused": (Scene.pause, Scene.resume),
    "black-holed": (Scene.swallow, Scene.forward),
}


@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    "form",
    [pytest.param(_FULL, marks=pytest.mark.slow, id="full"), pytest.param(_SHORT, id="short")],
)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    "scene", ["two", pytest.param("main", marks=pytest.mark.nightly)], indirect=True
)
async def test_the_others_are_as_fast_as_before(scene: Scene, fault: str, form: Form) -> None:
    measured = Measured(scene.server, [each for each in QUEUES.values() if each != scene.queue])
    numbered = Numbered(scene.server, scene.queue)
    before, during, recovery_seconds = await _run(scene, measured, numbered, fault, form.seconds)
    verdict = await numbered.judge()
    report(
        "T5",
        fault=fault,
        queue=scene.queue,
        seconds=form.seconds,
        p99_ms_before=before,
        p99_ms_during=during,
        recovery_seconds=round(recovery_seconds, 2),
        pushed=sum(numbered.pushed),
        buffered=numbered.buffered,
        **verdict,
    )
    assert measured.failed == []
    assert set(verdict.values()) == {0}
    assert numbered.buffered > 0
    for name, value in during.items():
        assert value <= max(before[name] * _MOST_RATIO, form.noise_ms), name
    assert recovery_seconds <= form.most_recovery_seconds


async def _run(
    scene: Scene, measured: Measured, numbered: Numbered, fault: str, seconds: float
) -> tuple[dict[str, float], dict[str, float], float]:
    """The latencies before and during the fault, and the time to the next stored push after it."""
    begin, end = FAULTS[fault]
    everywhere = (
        "/resources/queues",
        "/metrics",
        "/pop?namespace=shop",
        f"/pop/queue/{scene.queue}",
    )
    async with asking(scene.server, *everywhere), asyncio.TaskGroup() as group:
        running = group.create_task(measured.run())
        pushing = group.create_task(numbered.run())
        await asyncio.sleep(seconds / 2)
        before = measured.taken()
        await begin(scene)
        await asyncio.sleep(seconds)
        during = measured.taken()
        await end(scene)
        ended_at = time.monotonic()

        async def is_back() -> bool:
            return numbered.stored_at > ended_at

        await until(is_back, seconds=30)
        recovery_seconds = numbered.stored_at - ended_at
        numbered.stop()
        await pushing
        running.cancel()
    return before, during, recovery_seconds
