"""`queen serve`: one port, one process per core, and a graceful stop."""

import asyncio
import contextlib
import ctypes
import functools
import gc
import os
import socket
import sys
from collections.abc import Callable
from types import FrameType

import uvicorn
import uvloop

from queen import errors, original_settings
from queen.server import logs
from queen.server.app import App
from queen.server.auth.jwt_tokens import shares_roles
from queen.server.http.connection_limits import ConnectionLimits
from queen.server.http.protocol import Protocol, Socket, sweep_forever
from queen.server.metrics.host import WorkerSlot
from queen.server.metrics.requests import VERSION
from queen.server.process import preflight
from queen.server.process.cores import usable_cores
from queen.server.process.supervisor import Supervisor, end_with_supervisor
from queen.settings import Settings
from queen.telemetry import Event

_BACKLOG = 2048
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_LARGE_BYTES = 2**22
_TRIM_BYTES = 2**24


class _Server(uvicorn.Server):
    """uvicorn's server, which drains before it closes, and sweeps slow connections."""

    def __init__(self, config: uvicorn.Config, app: App, ready: Callable[[], None] | None) -> None:
        super().__init__(config)
        self._app = app
        self._ready = ready
        self._sweeper: asyncio.Task[None] | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        # Not raised again at the end: a requested stop is not a failure.
        self._captured_signals.clear()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._sweeper = asyncio.create_task(sweep_forever(self.server_state))
        if self.started and self._ready is not None:
            self._ready()
        if (runtime := self._app.runtime) is not None:
            runtime.state.metrics.process.connections = self.server_state.connections

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if (runtime := self._app.runtime) is not None:
            runtime.log.info(Event.STOPPING, pid=os.getpid())
        await self._app.drain()
        if self._sweeper is not None:
            self._sweeper.cancel()
        await super().shutdown(sockets)


def bind(settings: Settings) -> socket.socket:
    """Open the listening socket; raises BadSettings if that fails or is unsafe."""
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
            f"cannot listen on {host} port {settings.port}: {error.strerror}. "
            "Set HOST or PORT, or stop the process that uses it."
        ) from error
    listener.listen(_BACKLOG)
    listener.set_inheritable(True)
    return listener


async def serve_here(
    settings: Settings,
    listener: socket.socket,
    slot: WorkerSlot | None = None,
    *,
    ready: Callable[[], None] | None = None,
) -> bool:
    """Serve in this process until a signal; returns False if it could not start."""
    app = App(settings, slot)
    tls = preflight.tls(settings)
    # Behind a proxy, all connections come from its address, so the proxy must limit them.
    most = 0 if settings.behind_proxy else settings.max_connections_per_address
    bound = {
        "settings": settings,
        "limits": ConnectionLimits(most),
        "unsent": app.unsent,
        "direct": app,
        "open_stream": app.open_stream,
    }
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
        # Read only where needed, and only the last value, which the proxy appended.
        proxy_headers=False,
        ssl_context_factory=None if tls is None else lambda config, default: tls,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=max(1, int(settings.shutdown_seconds)),
        backlog=_BACKLOG,
    )
    server = _Server(config, app, ready)
    # Existing objects stay. Cycles are rare, and searching ten thousand waiting requests for them
    # would stall the loop.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    _return_large_blocks()
    await server.serve(sockets=[listener])
    return server.started


def _work(settings: Settings, listener: socket.socket, slot: WorkerSlot) -> None:
    """Run one worker process."""
    logs.configure(settings)
    end_with_supervisor()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        is_started = runner.run(serve_here(settings, listener, slot))
    sys.exit(0 if is_started else 3)


def serve(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code."""
    preflight.keep_memory_private()
    logs.configure(settings)
    listener = bind(settings)
    count = settings.num_workers or usable_cores()
    log = logs.get(pid=os.getpid())
    host, port = listener.getsockname()[:2]
    log.info(Event.STARTED, host=host, port=port, processes=count, version=VERSION)
    for variable, reason in original_settings.unused(os.environ).items():
        log.warning(Event.SETTING_UNUSED, variable=variable, reason=reason)
    if shares_roles(settings):
        advice = "set JWT_ROLES_PREFIX, or set JWT_ROLES_CLAIM to a claim that only Queen uses"
        log.warning(Event.ROLES_SHARED, advice=advice)
    if count == 1:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            code = 0 if runner.run(serve_here(settings, listener)) else 3
    else:
        code = Supervisor(settings, count, functools.partial(_work, settings, listener)).run()
    log.info(Event.STOPPED, code=code)
    return code


def _return_large_blocks() -> None:
    """
    Return large memory blocks to the system as soon as they are freed.

    glibc raises its threshold to the largest block that was ever freed, up to 32 MiB, and keeps
    smaller ones. After a few large requests, a process would occupy twice the memory that it uses.
    """
    with contextlib.suppress(OSError, AttributeError):  # Only glibc has these options.
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        libc.mallopt(_M_TRIM_THRESHOLD, _TRIM_BYTES)
