"""The real app on its own database, in a thread of this process."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Final, Self, TypeVar

from queen.client.client import Queen
from queen.client.durations import seconds_of
from queen.server.app import App
from queen.settings import Settings
from queen.testing.databases import execute
from queen.testing.in_process import AppTransport

T = TypeVar("T")

_CLOCK: Final = """
create sequence public.ticks cache 1;
create table public.clock as select now() as at;
create or replace function queen.now () returns timestamptz language sql volatile as $$
  select at + interval '1 microsecond' * nextval('public.ticks') from public.clock
$$;
"""
"""Adds a microsecond per reading, so that timestamps increase even while the clock stands."""


class QueenServer:
    """
    A server without a port.

    Usage::

        with QueenServer(dsn) as server:
            queen = server.client()
            server.take(app.queen)  # Redirects a client that the application created.
    """

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        """The database of the server."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="queen-server", daemon=True
        )
        # Polled instead of waiting for a time, because a moved clock wakes no waiter.
        self._app = App(
            Settings(database_url=dsn, auto_migrate=False, safety_poll_ms=100, log_level="error")
        )
        self._said: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._told: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._life: asyncio.Task[None] | None = None
        self.transport = AppTransport(self._app, self._loop)
        """Sends requests to the server, in this process."""

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            said = self.run(self._begin())
            if said["type"] != "lifespan.startup.complete":
                raise RuntimeError(said.get("message", "the server did not start"))
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._finish())
        self._end()

    def client(self, **options: Any) -> Queen:  # noqa: ANN401 - of Queen
        """Return a new client of this server."""
        return Queen(transport=self.transport, **options)

    def take(self, queen: Queen) -> Queen:
        """Redirect an existing client to this server."""
        queen.transport = self.transport
        return queen

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the server's loop, and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _begin(self) -> dict[str, Any]:
        async def live() -> None:
            await self._app({"type": "lifespan"}, self._told.get, self._said.put)  # pyright: ignore[reportArgumentType] - dicts are messages

        self._life = asyncio.create_task(live())
        await self._told.put({"type": "lifespan.startup"})
        return await self._said.get()

    async def _finish(self) -> None:
        await self._app.drain()
        await self._told.put({"type": "lifespan.shutdown"})
        assert self._life is not None
        await self._life

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()


class QueenClock:
    """The clock of a server's database. It stands still until you advance it."""

    def __init__(self, server: QueenServer) -> None:
        self._server = server
        server.run(execute(server.dsn, _CLOCK))

    def advance(self, duration: float | str) -> None:
        """Advance the clock: 30, "30s", "5m", "1h"."""
        step = f"interval '{seconds_of(duration):f} seconds'"
        statement = f"update public.clock set at = at + {step}"
        self._server.run(execute(self._server.dsn, statement))
