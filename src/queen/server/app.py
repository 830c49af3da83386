"""The ASGI app: dispatch one request to its handler."""

import asyncio
import contextlib
import os
from collections.abc import Callable

from starlette.types import Receive, Scope, Send

from queen import errors
from queen.server import logs
from queen.server.auth.oidc import Oidc
from queen.server.auth.origins import Origins
from queen.server.auth.permissions import ANYBODY, AUDITED, NOBODY, Permission
from queen.server.http.answer import Answer, reply
from queen.server.http.call import Call, Route
from queen.server.http.problems import refusal
from queen.server.http.router import Router
from queen.server.http.scope_keys import ClientGone
from queen.server.http.static_files import StaticFiles, without_prefix
from queen.server.memory_budget import Unsent
from queen.server.metrics.host import WorkerSlot
from queen.server.middleware import audit
from queen.server.routes import iceberg
from queen.server.routes.table import ROUTES
from queen.server.runtime import Runtime
from queen.server.stream.connection import StreamConnection
from queen.settings import Settings
from queen.store.connection.database import SPENT
from queen.telemetry import Event

_TIMED = (Permission.BROWSE, Permission.ADMIN)
"""Routes for people: their responses report the time in the database."""


class App:
    """
    The server of one process as an ASGI app.

    The lifespan opens and closes its runtime. Before it closes, `drain` rejects new requests,
    responds to waiting ones, and lets the others finish.
    """

    def __init__(self, settings: Settings, slot: WorkerSlot | None = None) -> None:
        self.settings = settings
        self._slot = slot
        self._router = Router((*ROUTES, *iceberg.ROUTES))
        self._origins = Origins(settings)
        self._oidc = Oidc(settings) if settings.oidc_client_id else None
        self._files = StaticFiles(settings, self._oidc)
        self.unsent = Unsent(settings.max_unsent_bytes)
        self.runtime: Runtime | None = None
        self._running = 0
        self._is_idle = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.settings.path_prefix and scope["type"] != "lifespan":
            without_prefix(scope, self.settings.path_prefix)
        if scope["type"] == "http":
            await self._serve(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)
        elif self.runtime is not None and scope["path"] == "/ws/dashboard":
            call = Call(scope, receive, self.runtime.state)
            await self.runtime.feed.serve(scope, receive, send, call)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self.runtime is not None
        call = Call(scope, receive, self.runtime.state)
        self._running += 1
        try:
            answer = await self.runtime.observer.answer(call, self._answer)
        except ClientGone:
            return
        finally:
            self._running -= 1
            call.share.give_back()
            if not self._running:
                self._is_idle.set()
        headers = [
            (b"x-request-id", call.request_id.encode("latin-1", "replace")),
            *self._origins.headers,
        ]
        if (origin := call.header(b"origin")) is not None:
            headers += self._origins.cors(origin)
        if call.spent is not None:
            headers.append((b"server-timing", b"db;dur=%.1f" % (1000 * sum(call.spent))))
        is_head = scope["method"] == "HEAD"
        await reply(send, call.exchange, answer, headers, is_head=is_head)

    async def _answer(self, call: Call) -> Answer:
        """Find the route, check the origin and the caller, and run the handler."""
        if call.scope["method"] == "OPTIONS" and call.header(b"access-control-request-method"):
            return Answer(status=204, headers=self._origins.preflight(call.header(b"origin")))
        raw_path: bytes = call.scope["raw_path"] or call.scope["path"].encode()
        try:
            route, call.parameters = self._router.find(call.scope["method"], raw_path)
        except errors.NoSuchRoute:
            answer = await self._files.find(call.method, raw_path, call.header)
            self._origins.check(call.header, call.scope["scheme"], is_page=True)
            return answer
        call.route = route
        self._origins.check(
            call.header,
            call.scope["scheme"],
            is_page=route.is_public,
            is_taking=route.method == "GET" and route.permission is Permission.CONSUME,
        )
        await _authorize(call, route)
        return await self._handle(call, route)

    async def _handle(self, call: Call, route: Route) -> Answer:
        """Run the handler of an authorized call, and write the audit record."""
        assert self.runtime is not None
        observer, cache = self.runtime.observer, self.runtime.cache
        try:
            with observer.span(call):
                if not route.is_probe:
                    await call.refuse_unknown(route)
                if route.method == "GET" and route.permission in _TIMED:
                    call.spent = []
                    SPENT.set(call.spent)
                if route.is_shared:
                    answer = await cache.answer(call, route.handler)
                else:
                    answer = await route.handler(call)
        except errors.QueenError as error:
            answer = refusal(error, call.request_id)
        except ClientGone:
            raise
        except Exception as error:
            answer = observer.unexpected(call, error)
        if route.method != "GET" and route.permission in AUDITED:
            cache.clear()
        if route.permission in AUDITED or route.is_payload_view:
            await audit.write(call, route, answer.status)
        return answer

    async def _live(self, receive: Receive, send: Send) -> None:
        """Open the runtime at startup, and close it at shutdown."""
        await receive()
        try:
            self.runtime = await Runtime.open(
                self.settings,
                self._slot,
                origins=self._origins,
                oidc=self._oidc,
                unsent=self.unsent,
            )
        except errors.QueenError as error:
            logs.get().error(Event.START_FAILED, reason=str(error))
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        log = self.runtime.log
        log.info(Event.WORKER_STARTED, pid=os.getpid())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        try:
            await self.runtime.close()
        except Exception as error:
            log.error(Event.STOP_FAILED, error=error)
        await send({"type": "lifespan.shutdown.complete"})

    async def drain(self) -> None:
        """Reject new requests, respond to waiting ones, and wait for the others up to a limit."""
        if self.runtime is None:
            return
        state = self.runtime.state
        state.is_draining = True
        self.runtime.streams.stop()
        await state.engine.stop_waiting()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.settings.shutdown_seconds):
                while self._running:
                    self._is_idle.clear()
                    await self._is_idle.wait()
                await self.runtime.streams.drained()

    def open_stream(self, call: Call, on_end: Callable[[], None]) -> StreamConnection:
        """Create the protocol of a stream. ``on_end``: called when it has ended."""
        assert self.runtime is not None
        return self.runtime.streams.open(call, on_end)


async def _authorize(call: Call, route: Route) -> None:
    """Find the caller, and raise if it may not use this route."""
    authenticator = call.state.authenticator
    if route.is_public:
        call.caller = ANYBODY if authenticator.is_open else NOBODY
        return
    if call.state.is_draining:
        raise errors.Draining("this process is shutting down")
    call.caller = caller = await authenticator.caller(call.header(b"authorization"))
    if caller.requests_per_second is not None:
        await authenticator.spend(caller)
    if route.permission is not None:
        caller.require(route.permission)
    if route.permission is Permission.ADMIN:
        caller.require_unscoped()
