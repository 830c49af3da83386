"""`queen serve`: one port, a process a core, and a stop that loses nothing."""

import asyncio
import contextlib
import ctypes
import gc
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from types import FrameType

import uvicorn
import uvloop

from queen import errors, original_settings
from queen.server import logs
from queen.server.app import App
from queen.server.auth.jwt_tokens import shares_roles
from queen.server.http.connection_limits import Peers
from queen.server.http.protocol import Protocol, Socket, sweep_for_ever
from queen.server.metrics.host import Seat, Workers
from queen.server.metrics.requests import VERSION
from queen.server.process import preflight
from queen.settings import Settings
from queen.telemetry import Event

_BACKLOG = 2048
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_LARGE_BYTES = 2**22
_TRIM_BYTES = 2**24
_LOOK_SECONDS = 1.0
_STABLE_SECONDS = 30.0
"""A worker that ran for so long ended by chance, and is replaced at once."""
_MOST_PAUSE_SECONDS = 30.0


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
        if self._app.state is not None:
            self._app.state.watch.meter.connections = self.server_state.connections

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._app.state is not None:
            self._app.state.watch.log.info(Event.STOPPING, pid=os.getpid())
        await self._app.drain()
        if self._sweeper is not None:
            self._sweeper.cancel()
        await super().shutdown(sockets)


def bind(settings: Settings) -> socket.socket:
    """The listening socket; says in one sentence why it cannot be had, or would not be safe."""
    preflight.check(settings)
    host = preflight.host_of(settings)
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
    settings: Settings,
    listener: socket.socket,
    seat: Seat | None = None,
    *,
    ready: Callable[[], None] | None = None,
) -> bool:
    """Serve in this process until told to stop; False when it could not start."""
    app = App(settings, seat)
    tls = preflight.tls(settings)
    # Behind a proxy all connections come from one address, and the bound is the proxy's to set.
    most = 0 if settings.behind_proxy else settings.max_connections_per_address
    bound = {"settings": settings, "peers": Peers(most), "unsent": app.unsent}
    protocol = type("BoundProtocol", (Protocol,), bound)
    config = uvicorn.Config(
        app,
        http=protocol,
        ws=Socket,
        ws_max_size=settings.ws_max_payload_bytes,
        ws_ping_interval=settings.ws_heartbeat_ms / 1000,
        ws_ping_timeout=settings.ws_idle_timeout_seconds,
        ws_per_message_deflate=settings.ws_compression,
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
    _return_large_blocks()
    await server.serve(sockets=[listener])
    return server.started


def _end_with_supervisor() -> None:
    """A supervisor that was killed cannot say so: without it, nobody would start or stop this."""
    supervisor = multiprocessing.parent_process()
    assert supervisor is not None
    wait([supervisor.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)


def _work(settings: Settings, listener: socket.socket, seat: Seat) -> None:
    logs.configure(settings)
    threading.Thread(target=_end_with_supervisor, daemon=True).start()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        is_started = runner.run(serve_here(settings, listener, seat))
    sys.exit(0 if is_started else 3)


def serve(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT; answers the exit code."""
    preflight.keep_memory_private()
    logs.configure(settings)
    listener = bind(settings)
    count = settings.num_workers or os.cpu_count() or 1
    log = logs.get(pid=os.getpid())
    host, port = listener.getsockname()[:2]
    log.info(Event.STARTED, host=host, port=port, processes=count, version=VERSION)
    for variable, reason in original_settings.unused(os.environ).items():
        log.warning(Event.SETTING_UNUSED, variable=variable, reason=reason)
    if shares_roles(settings):
        advice = "set JWT_ROLES_PREFIX, or JWT_ROLES_CLAIM to a claim of Queen's own"
        log.warning(Event.ROLES_SHARED, advice=advice)
    if count == 1:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            code = 0 if runner.run(serve_here(settings, listener)) else 3
    else:
        code = _Supervisor(settings, listener, count).run()
    log.info(Event.STOPPED, code=code)
    return code


def _return_large_blocks() -> None:
    """
    Let large blocks of memory go back to the system as soon as they are freed.

    glibc raises its threshold to the largest block that was ever freed, up to 32 MiB, and keeps
    smaller ones: after a few large requests a process held twice the memory that it used.
    """
    with contextlib.suppress(OSError, AttributeError):  # Another libc has no such options.
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        libc.mallopt(_M_TRIM_THRESHOLD, _TRIM_BYTES)


class Pause:
    """How long to wait before a worker is started again: longer each time it ends soon."""

    def __init__(self) -> None:
        self.ends_at: float | None = None
        """None while the worker runs."""
        self._seconds = 0.0
        self._started_at = 0.0

    def started(self, now: float) -> None:
        self.ends_at = None
        self._started_at = now

    def begin(self, now: float, least: float = 0.0) -> float:
        """The worker has ended: the seconds until the next start."""
        if now - self._started_at >= _STABLE_SECONDS:
            self._seconds = 0.0
        seconds = max(self._seconds, least)
        self._seconds = min(2 * seconds or _LOOK_SECONDS, _MOST_PAUSE_SECONDS)
        self.ends_at = now + seconds
        return seconds

    def is_over(self, now: float) -> bool:
        return self.ends_at is not None and self.ends_at <= now


class _Supervisor:
    """Keeps worker processes running: one that ends unasked is started again."""

    def __init__(self, settings: Settings, listener: socket.socket, count: int) -> None:
        self._settings = settings
        self._listener = listener
        self._count = count
        self._context = multiprocessing.get_context("spawn")
        self._workers: list[tuple[int, SpawnProcess]] = []
        self._figures = Workers()
        self._log = logs.get(pid=os.getpid())
        self._starts = 0
        self._pauses = [Pause() for _ in range(count)]
        self._is_stopping = False

    def run(self) -> int:
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._stop)
        self._figures.open()
        try:
            return self._keep()
        finally:
            self._figures.close()

    def _keep(self) -> int:
        for place in range(self._count):
            self._workers.append(self._start(place))
        while not self._is_stopping:
            running = [worker.sentinel for _, worker in self._workers if worker.is_alive()]
            wait(running, timeout=_LOOK_SECONDS)
            for place, (number, worker) in enumerate(self._workers):
                if not worker.is_alive() and not self._is_stopping:
                    if worker.exitcode == 3 and not any(
                        each.is_alive() for _, each in self._workers
                    ):
                        # None could start, and neither will the next.
                        self._stop(signal.SIGTERM, None)
                        break
                    self._replace(place, number, worker)
        self._log.info(Event.STOPPING)
        for _, worker in self._workers:
            worker.join(self._settings.shutdown_seconds + 10)
            if worker.is_alive():
                worker.kill()
        return 3 if any(worker.exitcode == 3 for _, worker in self._workers) else 0

    def _replace(self, place: int, number: int, worker: SpawnProcess) -> None:
        """Start another in the place of one that ended, when its pause is over."""
        pause = self._pauses[place]
        if pause.ends_at is None:
            # While another process runs, what this one lacked may come back: a database, mostly.
            least = _LOOK_SECONDS if worker.exitcode == 3 else 0.0
            seconds = pause.begin(time.monotonic(), least)
            self._figures.bury(number)
            self._log.error(
                Event.WORKER_ENDED, worker=number, code=worker.exitcode, restart_seconds=seconds
            )
        if pause.is_over(time.monotonic()):
            self._workers[place] = self._start(place)

    def _start(self, place: int) -> tuple[int, SpawnProcess]:
        self._starts += 1
        seat = self._figures.seat(self._starts, place)
        worker = self._context.Process(target=_work, args=(self._settings, self._listener, seat))
        worker.start()
        self._pauses[place].started(time.monotonic())
        return self._starts, worker

    def _stop(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._is_stopping = True
        for _, worker in self._workers:
            if worker.is_alive() and worker.pid is not None:
                os.kill(worker.pid, signal.SIGTERM)
