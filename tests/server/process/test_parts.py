"""The parts of one process: a failing part does not affect the others."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from queen import errors
from queen.meters import Snapshot
from queen.server.app import App
from queen.server.metrics.host import HostMetrics
from queen.server.metrics.reporter import Reporter
from queen.server.process.supervisor import Backoff
from queen.settings import Settings


@asynccontextmanager
async def running(app: App) -> AsyncGenerator[list[str]]:
    """Run the app like a server does. Yields its start and end events."""
    told: list[str] = []
    said: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    is_up = asyncio.Event()

    async def send(message: Any) -> None:  # noqa: ANN401 - ASGI
        told.append(message["type"].removeprefix("lifespan."))
        is_up.set()

    said.put_nowait({"type": "lifespan.startup"})
    living = asyncio.create_task(app({"type": "lifespan"}, said.get, send))
    await is_up.wait()
    yield told
    said.put_nowait({"type": "lifespan.shutdown"})
    await living


async def test_a_part_that_fails_to_close_leaves_no_connection_open(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = Reporter.close

    async def fail(self: Reporter) -> None:
        await close(self)
        raise ZeroDivisionError

    monkeypatch.setattr(Reporter, "close", fail)
    async with running(app := App(Settings(database_url=dsn))) as told:
        assert app.runtime is not None
        database = app.runtime.state.engine.store.database

    assert told == ["startup.complete", "shutdown.complete"]
    with pytest.raises(errors.QueenError):
        await database.fetch("newest_samples", None)


async def test_dashboards_get_updates_after_a_failed_one(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gather = HostMetrics.gather
    failures = 3

    async def fail_at_first(self: HostMetrics) -> Snapshot:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise ZeroDivisionError
        return await gather(self)

    monkeypatch.setattr(HostMetrics, "gather", fail_at_first)
    app = App(Settings(database_url=dsn))
    async with running(app), watching(app) as frames, asyncio.timeout(20):
        assert '"system.stats"' in await frames()
    assert failures < 0


@asynccontextmanager
async def watching(app: App) -> AsyncGenerator[Callable[[], Awaitable[str]]]:
    """A dashboard's WebSocket. Yields a function that returns the next text."""
    told: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    texts: asyncio.Queue[str] = asyncio.Queue()

    async def send(message: Any) -> None:  # noqa: ANN401 - ASGI
        if message["type"] == "websocket.send":
            texts.put_nowait(message["text"])

    scope = {
        "type": "websocket",
        "scheme": "ws",
        "path": "/ws/dashboard",
        "raw_path": b"/ws/dashboard",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1")],
        "client": ("127.0.0.1", 1),
    }
    told.put_nowait({"type": "websocket.connect"})
    serving = asyncio.create_task(app(scope, told.get, send))
    yield texts.get
    told.put_nowait({"type": "websocket.disconnect", "code": 1000})
    await serving


def test_a_worker_that_ends_soon_is_restarted_with_increasing_pauses() -> None:
    backoff = Backoff()
    now = 0.0
    pauses: list[float] = []
    for _ in range(8):
        backoff.started(now)
        now += 0.1
        pauses.append(backoff.begin(now))
        assert backoff.is_over(now) == (pauses[-1] == 0)
        now += pauses[-1]
        assert backoff.is_over(now)
    assert pauses == [0, 1, 2, 4, 8, 16, 30, 30]

    backoff.started(now)
    assert backoff.begin(now + 60) == 0
