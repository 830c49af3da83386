"""The composition root: settings in, ASGI app out."""

import asyncio
import contextlib
import os

import msgspec
from starlette.types import Receive, Scope, Send

from queen import errors
from queen.engine.buffer.file_buffer import FileBuffer
from queen.engine.engine import Engine
from queen.engine.upkeep.loop import Upkeep
from queen.server import logs
from queen.server.auth.authenticator import Gate
from queen.server.auth.oidc import Oidc
from queen.server.auth.origins import Origins
from queen.server.auth.permissions import ANYBODY, AUDITED, NOBODY, Permission
from queen.server.heartbeat import Pulse
from queen.server.http import openapi
from queen.server.http.call import Answer, Call, ClientGone, refusal, reply
from queen.server.http.decoding import Bodies
from queen.server.http.memory_budget import Budget, Unsent
from queen.server.http.router import Route, Router
from queen.server.http.static_files import Pages, without_prefix
from queen.server.metrics.host import Seat
from queen.server.middleware import audit
from queen.server.middleware.audit_log import AuditLog
from queen.server.middleware.observer import Watch
from queen.server.middleware.response_cache import Answers
from queen.server.operations.kinds import kinds
from queen.server.operations.runner import Operations
from queen.server.process.readiness import Readiness
from queen.server.routes.table import ROUTES
from queen.server.state import State
from queen.settings import Settings
from queen.store.connection.database import SPENT
from queen.store.migrations import migrate, pending
from queen.telemetry import Event

_TIMED = (Permission.BROWSE, Permission.ADMIN)
"""Answers to people, who may want to know what took so long."""


class App:
    """
    The server of one process as an ASGI app.

    The engine is opened by the lifespan's start and closed by its end; ``drain`` comes before that:
    nothing new, waiters answered, what runs is finished.
    """

    def __init__(self, settings: Settings, seat: Seat | None = None) -> None:
        self.settings = settings
        self._seat = seat
        self.router = Router(ROUTES)
        self.origins = Origins(settings)
        self.oidc = Oidc(settings) if settings.oidc_client_id else None
        self.pages = Pages(settings, self.oidc)
        self.unsent = Unsent(settings.max_unsent_bytes)
        self._requests = Budget(settings.max_inflight_bytes)
        self.state: State | None = None
        self._running = 0
        self._is_idle = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.settings.path_prefix and scope["type"] != "lifespan":
            without_prefix(scope, self.settings.path_prefix)
        if scope["type"] == "http":
            await self._serve(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)
        elif self.state is not None and scope["path"] == "/ws/dashboard":
            call = Call(scope, receive, self.state)
            await self.state.watch.dashboards.serve(scope, receive, send, call)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self.state is not None
        call = Call(scope, receive, self.state)
        self._running += 1
        try:
            answer = await self.state.watch.answer(call, self._answer)
        except ClientGone:
            return
        finally:
            self._running -= 1
            call.share.give_back()
            if not self._running:
                self._is_idle.set()
        headers = self.origins.headers
        if (origin := call.header(b"origin")) is not None:
            headers += self.origins.cors(origin)
        if call.spent is not None:
            headers += ((b"server-timing", b"db;dur=%.1f" % (1000 * sum(call.spent))),)
        await reply(send, answer, call.request_id, headers, is_head=scope["method"] == "HEAD")

    async def _answer(self, call: Call) -> Answer:
        """What the handler says, or the problem that it raised."""
        try:
            if call.scope["method"] == "OPTIONS" and call.header(b"access-control-request-method"):
                return Answer(status=204, headers=self.origins.preflight(call.header(b"origin")))
            raw_path: bytes = call.scope["raw_path"] or call.scope["path"].encode()
            try:
                route, call.parameters = self.router.find(call.scope["method"], raw_path)
            except errors.NoSuchRoute:
                return await self._page(call, raw_path)
            call.route = route
            self.origins.check(
                call.header,
                call.scope["scheme"],
                is_page=route.is_public,
                is_taking=route.method == "GET" and route.permission is Permission.CONSUME,
            )
            await self._admit(call, route)
        except errors.QueenError as error:
            return refusal(error, call.request_id)
        try:
            with call.state.watch.spans(call):
                if not route.is_probe:
                    await call.refuse_unknown(route)
                if route.method == "GET" and route.permission in _TIMED:
                    call.spent = []
                    SPENT.set(call.spent)
                if route.is_shared:
                    answer = await call.state.answers.of(call, route.handler)
                else:
                    answer = await route.handler(call)
        except errors.QueenError as error:
            answer = refusal(error, call.request_id)
        except ClientGone:
            raise
        except Exception as error:
            answer = call.state.watch.unforeseen(call, error)
        if route.method != "GET" and route.permission in AUDITED:
            call.state.answers.forget()
        if route.permission in AUDITED or route.is_payload_view:
            try:
                await audit.write(call, route, answer.status)
            except errors.QueenError as error:
                return refusal(error, call.request_id)
        return answer

    async def _page(self, call: Call, raw_path: bytes) -> Answer:
        """What is no route may be a file or a page of the dashboard; raises NoSuchRoute."""
        answer = await self.pages.find(call.method, raw_path, call.header)
        self.origins.check(call.header, call.scope["scheme"], is_page=True)
        return answer

    async def _admit(self, call: Call, route: Route) -> None:
        """Let the caller in, as whoever it is, or raise why not."""
        gate = call.state.gate
        if route.is_public:
            call.caller = ANYBODY if gate.is_open else NOBODY
            return
        if call.state.is_draining:
            raise errors.Draining("this process is stopping")
        call.caller = caller = await gate.caller(call.header(b"authorization"))
        if caller.requests_per_second is not None:
            await gate.spend(caller)
        if route.permission is not None:
            caller.require(route.permission)
        if route.permission is Permission.ADMIN:
            caller.require_unscoped()

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            self.state = await self.open()
        except errors.QueenError as error:
            logs.get().error(Event.START_FAILED, reason=str(error))
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        self.state.watch.log.info(Event.WORKER_STARTED, pid=os.getpid())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        try:
            await self._close(self.state)
        except Exception as error:
            self.state.watch.log.error(Event.STOP_FAILED, error=error)
        await send({"type": "lifespan.shutdown.complete"})

    async def _close(self, state: State) -> None:
        """Close all parts, the engine last, also if one of them fails."""
        async with contextlib.AsyncExitStack() as parts:
            parts.push_async_callback(state.engine.close)
            parts.push_async_callback(state.audit.close)
            if self.oidc is not None:
                parts.push_async_callback(self.oidc.close)
            parts.push_async_callback(state.gate.close)
            parts.push_async_callback(state.pulse.leave)
            parts.push_async_callback(state.operations.close)
            parts.push_async_callback(state.watch.close)
            if state.upkeep is not None:
                parts.push_async_callback(state.upkeep.close)

    async def open(self) -> State:
        """Bring the database to this release if allowed to, and open the engine over it."""
        settings = self.settings
        buffer = FileBuffer.open(settings)
        is_away = False
        try:
            await self._bring_up()
        except errors.DatabaseUnavailable as error:
            if buffer is None or not buffer.folder.is_known:
                raise
            # Pushes go to disk, as they would if it had gone a moment later.
            is_away = True
            logs.get().error(Event.DATABASE_LOST, reason=str(error))
        engine = await Engine.open(
            settings.dsn,
            settings=settings,
            defaults=settings.queue_defaults,
            buffer=buffer,
            is_away=is_away,
            is_warmed=True,
        )
        if is_away:
            engine.store.database.welcome = self._bring_up
        if buffer is not None and not is_away:
            buffer.folder.know()
        watch = Watch(engine, settings, self._seat)
        watch.meter.requests = self._requests
        watch.meter.unsent = self.unsent.budget
        await watch.start()
        operations = Operations(engine.store, kinds(engine))
        pulse = Pulse(engine, name=settings.worker_id, adopt=operations.adopt)
        operations.owner = pulse.id
        await pulse.join()
        gate = Gate(settings, engine.store.keys)
        # One process of a host is enough.
        upkeep = (
            Upkeep(engine.core, settings) if self._seat is None or self._seat.place == 0 else None
        )
        if upkeep is not None:
            upkeep.start()
            await gate.start()
        return State(
            settings=settings,
            engine=engine,
            watch=watch,
            answers=Answers(),
            audit=AuditLog(engine.store.audit),
            bodies=Bodies(settings.max_items),
            requests=self._requests,
            unsent=self.unsent,
            operations=operations,
            pulse=pulse,
            readiness=Readiness(engine.store),
            upkeep=upkeep,
            gate=gate,
            origins=self.origins,
            openapi=msgspec.json.encode(openapi.document(self.router.routes)),
        )

    async def _bring_up(self) -> None:
        """Let the database have what this release needs, or raise that it has not."""
        settings = self.settings
        if settings.auto_migrate:
            await migrate(settings.dsn)
        elif missing := await pending(settings.dsn):
            raise errors.DatabaseUnavailable(
                f"the database lacks {', '.join(missing)}; run `queen migrate up`"
            )

    async def drain(self) -> None:
        """Take nothing new, answer those who wait, and let what runs end, for a bounded time."""
        if self.state is None:
            return
        self.state.is_draining = True
        await self.state.engine.stop_waiting()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.settings.shutdown_seconds):
                while self._running:
                    self._is_idle.clear()
                    await self._is_idle.wait()
