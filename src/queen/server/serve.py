"""`queen serve`: one port, a process a core, and a stop that loses nothing."""

import asyncio
import gc
import multiprocessing
import os
import signal
import socket
import sys
from collections.abc import Callable
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from types import FrameType

import uvicorn
import uvloop

from queen import errors
from queen.server import boot
from queen.server.app import App
from queen.server.protocol import Protocol, sweep_for_ever
from queen.settings import Settings

_BACKLOG = 2048
_RESTART_SECONDS = 1.0


class _Server(uvicorn.Server):
    """uvicorn's server, which drains before it closes, and sweeps slow connections."""

    def __init__(self, config: uvicorn.Config, app: App, ready: Callable[[], None] | None) -> None:
        super().__init__(config)
        self._app = app
        self._ready = ready
        self._sweeper: asyncio.Task[None] | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        # Not raised once more at the end: being told to stop, and stopping, is no failure.
        self._captured_signals.clear()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._sweeper = asyncio.create_task(sweep_for_ever(self.server_state))
        if self.started and self._ready is not None:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._app.drain()
        if self._sweeper is not None:
            self._sweeper.cancel()
        await super().shutdown(sockets)


def bind(settings: Settings) -> socket.socket:
    """The listening socket; says in one sentence why it cannot be had, or would not be safe."""
    boot.check(settings)
    host = boot.host_of(settings)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, settings.port))
    except OSError as error:
        listener.close()
        raise errors.BadSettings(
            f"cannot listen on {host} port {settings.port}: {error.strerror}; "
            "set HOST or PORT, or stop whoever has it"
        ) from error
    listener.listen(_BACKLOG)
    listener.set_inheritable(True)
    return listener


async def serve_here(
    settings: Settings, listener: socket.socket, *, ready: Callable[[], None] | None = None
) -> bool:
    """Serve in this process until told to stop; False when it could not start."""
    app = App(settings)
    tls = boot.tls(settings)
    protocol = type("BoundProtocol", (Protocol,), {"settings": settings})
    config = uvicorn.Config(
        app,
        http=protocol,
        ws="websockets-sansio",
        lifespan="on",
        log_config=None,
        access_log=False,
        # X-Forwarded headers are read where they matter, and only the last word of them.
        proxy_headers=False,
        ssl_context_factory=None if tls is None else lambda config, default: tls,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=max(1, int(settings.shutdown_seconds)),
        backlog=_BACKLOG,
    )
    server = _Server(config, app, ready)
    # What is here now stays. Cycles are rare, and a search for them among ten thousand who wait
    # stops the loop.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    await server.serve(sockets=[listener])
    return server.started


def _work(settings: Settings, listener: socket.socket) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        is_started = runner.run(serve_here(settings, listener))
    sys.exit(0 if is_started else 3)


def serve(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT; answers the exit code."""
    boot.keep_memory_private()
    listener = bind(settings)
    count = settings.num_workers or os.cpu_count() or 1
    if count == 1:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return 0 if runner.run(serve_here(settings, listener)) else 3
    return _Supervisor(settings, listener, count).run()


class _Supervisor:
    """Keeps worker processes running: one that ends unasked is started again."""

    def __init__(self, settings: Settings, listener: socket.socket, count: int) -> None:
        self._settings = settings
        self._listener = listener
        self._count = count
        self._context = multiprocessing.get_context("spawn")
        self._workers: list[SpawnProcess] = []
        self._is_stopping = False

    def run(self) -> int:
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._stop)
        self._workers = [self._start() for _ in range(self._count)]
        while not self._is_stopping:
            wait([worker.sentinel for worker in self._workers], timeout=_RESTART_SECONDS)
            for at, worker in enumerate(self._workers):
                if not worker.is_alive() and not self._is_stopping:
                    if worker.exitcode == 3:
                        # It could not start, and neither will the next.
                        self._stop(signal.SIGTERM, None)
                        break
                    self._workers[at] = self._start()
        for worker in self._workers:
            worker.join(self._settings.shutdown_seconds + 10)
            if worker.is_alive():
                worker.kill()
        return 3 if any(worker.exitcode == 3 for worker in self._workers) else 0

    def _start(self) -> SpawnProcess:
        worker = self._context.Process(target=_work, args=(self._settings, self._listener))
        worker.start()
        return worker

    def _stop(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._is_stopping = True
        for worker in self._workers:
            if worker.is_alive() and worker.pid is not None:
                os.kill(worker.pid, signal.SIGTERM)
