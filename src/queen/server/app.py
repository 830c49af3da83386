"""The ASGI app: dispatch one request to its handler."""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from starlette.types import Receive, Scope, Send

from queen import errors
from queen.server import logs
from queen.server.auth.oidc import Oidc
from queen.server.auth.origins import Origins, encoded
from queen.server.auth.permissions import ANONYMOUS, ANYBODY, AUDITED, Permission
from queen.server.databases import dispatch
from queen.server.http.answer import Answer, reply
from queen.server.http.call import Call, Route
from queen.server.http.cycles import DirectCycle
from queen.server.http.head import Connection, Head
from queen.server.http.known_heads import KnownHeads, Recognised
from queen.server.http.router import Router
from queen.server.http.scope_keys import EXCHANGE, ClientGone, Exchange
from queen.server.http.static_files import StaticFiles, without_prefix
from queen.server.memory_budget import Unsent
from queen.server.metrics.host import WorkerSlot
from queen.server.middleware import audit
from queen.server.middleware.response_cache import ResponseCache
from queen.server.routes import iceberg
from queen.server.routes.table import ROUTES
from queen.server.runtime import Runtime
from queen.server.stream.connection import StreamConnection
from queen.settings import Settings
from queen.store.connection.database import SPENT
from queen.telemetry import Event

_FEED: Final = "/ws/dashboard"
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
        preferred = ",".join(settings.preferred or ()).encode()
        self._preferred = encoded([(b"queen-preferred-databases", preferred)] if preferred else [])
        """With it, clients read the map of slots."""
        self._oidc = Oidc(settings) if settings.oidc_client_id else None
        self._files = StaticFiles(settings, self._oidc)
        self.unsent = Unsent(settings.max_unsent_bytes)
        self.known_heads = KnownHeads(settings.max_body_bytes)
        self.runtime: Runtime | None = None
        self._running = 0
        self._is_idle = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if self.settings.path_prefix:
            without_prefix(scope, self.settings.path_prefix)
        if self.runtime is None or (scope["type"] == "websocket" and scope["path"] != _FEED):
            await send({"type": "websocket.close", "code": 1008})
            return
        exchange: Exchange | None = scope.pop(EXCHANGE, None)
        call = Call(Head(scope), self.runtime.state, Connection.of(scope), exchange, receive)
        call.authorization = call.header(b"authorization")
        if scope["type"] == "http":
            await self.respond(call, send)
        else:
            await self.runtime.feed.serve(scope, receive, send, call)

    def respond_directly(
        self, found: Recognised, cycle: DirectCycle, connection: Connection
    ) -> Coroutine[Any, Any, None]:
        """Respond to a whole request with a known head. The caller runs the coroutine."""
        assert self.runtime is not None
        known, _, authorization = found
        call = Call(known.head, self.runtime.state, connection, cycle)
        call.route, call.parameters = known.route, known.parameters
        call.authorization, call.is_known = authorization, True
        return self.respond(call)

    async def respond(self, call: Call, send: Send | None = None) -> None:
        """Handle a call, and send its response."""
        runtime = self.runtime
        assert runtime is not None
        started_at = time.perf_counter()
        self._running += 1
        try:
            answer = await self._answer(call, runtime)
        except ClientGone:
            return
        except Exception as error:
            answer = runtime.observer.refused(call, error)
        finally:
            self._running -= 1
            call.share.give_back()
            if not self._running:
                self._is_idle.set()
        runtime.observer.count(call, answer, time.perf_counter() - started_at)
        exchange = call.exchange
        if exchange is not None and (raw_head := exchange.raw_head) and answer.status < 400:
            self.known_heads.learn(raw_head, call)
        request_id = call.request_id.encode("latin-1", "replace")
        headers = b"x-request-id: %b\r\n%b%b" % (
            request_id,
            self._origins.encoded_headers,
            self._preferred,
        )
        if (origin := call.header(b"origin")) is not None:
            headers += encoded(self._origins.cors(origin))
        if call.spent is not None:
            headers += b"server-timing: db;dur=%.1f\r\n" % (1000 * sum(call.spent))
        await reply(send, exchange, answer, headers, is_head=call.head.method == "HEAD")

    async def _answer(self, call: Call, runtime: Runtime) -> Answer:
        """Find the route, check the origin and the caller, and write the audit record."""
        if call.route is None:
            answer = await self._route(call)
            if answer is not None:
                return answer
        route = call.route
        assert route is not None
        if call.state.is_draining and not route.is_public:
            raise errors.Draining("this process is shutting down")
        if call.state.authenticator.is_open:
            call.caller = ANYBODY
        else:
            await _authorize(call, route)
        observer = runtime.observer
        handling = _handle(call, route, runtime.cache)
        try:
            answer = await (observer.traced(call, handling) if observer.is_tracing else handling)
        except ClientGone:
            raise
        except Exception as error:
            answer = observer.refused(call, error)
        is_audited = route.permission in AUDITED
        if is_audited and route.method != "GET":
            runtime.cache.clear()
        if is_audited or route.is_payload_view:
            await audit.write(call, route, answer.status)
        return answer

    async def _route(self, call: Call) -> Answer | None:
        """Find the route and check the origin, or respond without a route."""
        head = call.head
        if head.method == "OPTIONS" and call.header(b"access-control-request-method"):
            return Answer(status=204, headers=self._origins.preflight(call.header(b"origin")))
        try:
            route, call.parameters = self._router.find(head.method, head.raw_path)
        except errors.NoSuchRoute:
            answer = await self._files.find(head.method, head.raw_path, call.header)
            self._origins.check(call.header, head.scheme, is_page=True)
            return answer
        call.route = route
        self._origins.check(
            call.header,
            head.scheme,
            is_page=route.is_public,
            is_taking=route.method == "GET" and route.permission is Permission.CONSUME,
        )
        return None

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
                responding=App.respond.__code__,
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
        for each in state.of_engine.values():
            each.is_draining = True
        self.runtime.streams.stop()
        for engine in state.cluster.engines.values():
            await engine.stop_waiting()
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
        call.caller = ANONYMOUS
        return
    call.caller = caller = await authenticator.caller(call.authorization)
    if caller.requests_per_second is not None:
        await authenticator.spend(caller)
    if route.permission is not None:
        caller.require(route.permission)
    if route.permission is Permission.ADMIN:
        caller.require_unscoped()


async def _handle(call: Call, route: Route, cache: ResponseCache) -> Answer:
    """Run the handler of an authorized call."""
    if not (call.is_known or route.is_probe):
        await call.refuse_unknown(route)
    if route.method == "GET" and route.permission in _TIMED:
        call.spent = []
        SPENT.set(call.spent)
    if route.is_shared:
        return await cache.answer(call, lambda each: dispatch.answer(each, route))
    return await dispatch.answer(call, route)
