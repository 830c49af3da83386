"""A server process with the test's own database and port, called over HTTP."""

import asyncio
import io
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, cast

import aiohttp
from yarl import URL

from tests.support.exercised import note_answer, note_code
from tests.support.ports import free_port
from tests.support.prefork import SOURCE, Forked, start_queen

START_SECONDS = 40
STOP_SECONDS = 40


class Reply(NamedTuple):
    """A response. ``body`` is decoded if it is JSON, otherwise bytes."""

    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def code(self) -> str | None:
        """The code of a problem."""
        body: Any = self.body
        return cast("dict[str, Any]", body).get("code") if hasattr(body, "get") else None


class Server:
    """
    `queen serve` as a separate process.

    Usage::

        async with Server(dsn, {"QUEEN_REQUIRE_LEASE": "true"}) as server:
            reply = await server.post("/push", {"items": [{"queue": "orders", "payload": 1}]})
            assert reply.status == 201
            server.kill()
            await server.start()
    """

    def __init__(
        self,
        dsn: str | Mapping[str, str],
        environment: Mapping[str, str] | None = None,
        *,
        imports: Sequence[str] = (),
    ) -> None:
        """
        ``dsn``: of the database, or of several by name.

        ``imports``: modules that this server will import, which takes seconds in each.
        """
        self._imports = imports
        self.port = free_port()
        self.base_url = f"http://127.0.0.1:{self.port}"
        self.environment = {
            **({"DATABASE_URL": dsn} if isinstance(dsn, str) else _several(dsn)),
            "PORT": str(self.port),
            "NUM_WORKERS": "1",
            **(environment or {}),
        }
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        self._process: Forked | subprocess.Popen[bytes] | None = None
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("the server is not running")
        return self._process.pid

    @property
    def log(self) -> str:
        """The output of the process so far."""
        # Not by `seek`, because the process writes at the same position of the file.
        file = self._log.fileno()
        return os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace")

    @property
    def session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=50)
            )
        return self._session

    async def start(self) -> None:
        """Start, also after `stop` and `kill`, and wait until the server is ready."""
        self.launch()
        await until(self._is_ready, seconds=START_SECONDS)

    def launch(self) -> None:
        """Start without waiting, because a server without its database is never ready."""
        inherited = {
            name: value
            for name, value in os.environ.items()
            if name in ("PATH", "HOME", "LANG", "TMPDIR")
        }
        with Path(os.devnull).open() as nothing:
            self._process = start_queen(
                ["serve"],
                {**inherited, "PYTHONPATH": str(SOURCE), **self.environment},
                stdin=nothing,
                stdout=self._log,
                stderr=self._log,
                imports=self._imports,
            )

    async def stop(self) -> int:
        """Stop the server as an operator would, and return its exit code."""
        if self._process is None:
            return 0
        self._process.send_signal(signal.SIGTERM)
        code = await asyncio.to_thread(self._process.wait, STOP_SECONDS)
        self._process = None
        return code

    def kill(self) -> None:
        """Kill the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(STOP_SECONDS)
            self._process = None

    async def close(self) -> None:
        """Stop the process and release all resources."""
        self.kill()
        await self.hang_up()
        self._log.close()

    async def hang_up(self) -> None:
        """Close all connections. The next request opens its own, also in another event loop."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,  # noqa: ANN401 - JSON
        *,
        headers: Mapping[str, str] | None = None,
        parameters: Mapping[str, str | int | float] | None = None,
    ) -> Reply:
        """One exchange. ``/api/v1`` is added to paths that have no ``/api`` and are not probes."""
        if not path.startswith(("/api/", "/iceberg/", "/livez", "/readyz", "/health", "/metrics")):
            path = f"/api/v1{path}"
        # Already encoded, because a name in a path may contain a slash as %2F.
        url = URL(self.base_url + path, encoded=True)
        if parameters:
            url = url.update_query({name: str(value) for name, value in parameters.items()})
        data = None if body is None else io.BytesIO(json.dumps(body).encode())
        sent = {**({} if data is None else {"content-type": "application/json"}), **(headers or {})}
        async with self.session.request(method, url, data=data, headers=sent) as answer:
            raw = await answer.read()
            decoded = await answer.json(content_type=None) if "json" in answer.content_type else raw
            reply = Reply(answer.status, answer.headers, decoded)
        note_answer(method, url.raw_path, reply.status)
        note_code(reply.code)
        return reply

    async def get(self, path: str, **parameters: str | int | float) -> Reply:
        return await self.request("GET", path, parameters=parameters)

    async def post(self, path: str, body: Any = None) -> Reply:  # noqa: ANN401 - JSON
        return await self.request("POST", path, body)

    async def delete(self, path: str, **parameters: str | int | float) -> Reply:
        return await self.request("DELETE", path, parameters=parameters)

    async def _is_ready(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            raise RuntimeError(f"the server ended while starting:\n{self.log}")
        try:
            return (await self.get("/readyz")).status == 200
        except aiohttp.ClientConnectionError:
            return False


def _several(databases: Mapping[str, str]) -> dict[str, str]:
    return {"QUEEN_DATABASES": " ".join(f"{name}={dsn}" for name, dsn in databases.items())}


async def until(condition: Callable[[], Awaitable[bool]], *, seconds: float = 10) -> None:
    """Wait for a condition, for a bounded time."""
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110 - another process changes it
            await asyncio.sleep(0.02)
