"""FastAPI and Starlette: the client follows the app's lifespan, and handlers can run inside."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from queen import Message, Queen, QueenError, errors
from tests.support.server import Server, until


@contextlib.asynccontextmanager
async def living(app: FastAPI | Starlette) -> AsyncGenerator[dict[str, Any]]:
    """Start and stop an app like a web server does."""
    told: asyncio.Queue[Any] = asyncio.Queue()
    said: asyncio.Queue[Any] = asyncio.Queue()
    state: dict[str, Any] = {}
    life = asyncio.create_task(app({"type": "lifespan", "state": state}, told.get, said.put))
    await told.put({"type": "lifespan.startup"})
    assert (await said.get())["type"] == "lifespan.startup.complete"
    yield state
    await told.put({"type": "lifespan.shutdown"})
    assert (await said.get())["type"] == "lifespan.shutdown.complete"
    await life


async def call(app: FastAPI | Starlette, path: str, state: dict[str, Any]) -> bytes:
    body = b""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:  # noqa: ANN401 - ASGI
        nonlocal body
        if message["type"] == "http.response.start":
            assert message["status"] == 200
        body += message.get("body", b"")

    scope: dict[str, Any] = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [],
        "state": dict(state),
    }
    await app(scope, receive, send)
    return body


async def test_fastapi_has_the_client_as_a_typed_dependency(process: Server, name: str) -> None:
    queen = Queen(process.base_url)
    app = FastAPI(lifespan=queen.lifespan)

    @app.get("/push")
    async def push(client: Annotated[Queen, Depends(queen.dependency)]) -> str:
        (pushed,) = await client.queue(name).push([{"data": 1}])
        return pushed.status

    async with living(app) as state:
        assert await call(app, "/push", state) == b'"queued"'
    with pytest.raises(QueenError, match="closed"):
        await queen.queue(name).pop()


async def test_starlette_finds_the_client_in_the_state(process: Server, name: str) -> None:
    queen = Queen(process.base_url)

    async def push(request: Request) -> JSONResponse:
        (pushed,) = await request.state.queen.queue(name).push([{"data": 1}])
        return JSONResponse(pushed.status)

    app = Starlette(routes=[Route("/push", push)], lifespan=queen.lifespan)
    for _ in range(2):  # An app may be started more than once, especially in tests.
        async with living(app) as state:
            assert await call(app, "/push", state) == b'"queued"'


async def test_handlers_run_inside_the_app(process: Server, name: str) -> None:
    queen = Queen(process.base_url)
    handled = asyncio.Event()

    @queen.queue(name).handler
    async def handle(message: Message[Any]) -> None:
        await asyncio.sleep(0)
        handled.set()

    async with living(FastAPI(lifespan=queen.lifespan(workers=True))):
        await queen.queue(name).push([{"data": 1}])
        async with asyncio.timeout(10):
            await handled.wait()

    async with queen:
        assert await queen.queue(name).pop() == []
    assert callable(handle)


async def test_workers_without_a_handler_are_rejected_at_startup(shared: Queen) -> None:
    with pytest.raises(errors.BadRequest, match="no handler"):
        async with shared.lifespan(workers=True)(None):
            pass


async def test_failing_workers_are_logged_immediately(
    shared: Queen, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    await shared.queue(name).create()
    await shared.queue(name).group("taken").pop()

    async def handler(message: Message[Any]) -> None: ...

    shared.queue(name).group("taken").subscription_mode("new").handler(handler)

    async def has_said_so() -> bool:
        return "workers.failed" in caplog.text

    with pytest.raises(errors.SubscriptionConflict):
        async with shared.lifespan(workers=True)(None):
            await until(has_said_so)
