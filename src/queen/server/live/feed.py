"""The live feed: one snapshot a process and interval, for however many dashboards are open."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from queen import errors, telemetry
from queen.engine.engine import Engine
from queen.meters import Snapshot
from queen.server import logs
from queen.server.auth.revocations import REASON
from queen.server.http.call import Call, problem
from queen.server.http.protocol import ABORT
from queen.server.live.admission import admit, check_origin
from queen.server.metrics.requests import VERSION, Meter
from queen.server.routes import buffers, operations
from queen.settings import Settings
from queen.telemetry import OTHER, Event
from queen.wire.live_feed import (
    EVENTS,
    Depth,
    Depths,
    EventName,
    Frame,
    Processed,
    ProcessedQueues,
    Stats,
    Subscribe,
)
from queen.wire.messages import Request
from queen.wire.resources import Operation

_TICK_SECONDS: Final = 1.0
_MOST_FRAMES: Final = 64
_MOST_BYTES: Final = 2**20
"""That a dashboard may be behind; then it is dropped. One frame always fits."""
_CLOSE_SECONDS: Final = 0.2
_OPERATIONS: Final = 50
"""The newest, whose progress is told."""
_ENCODE: Final = msgspec.json.Encoder().encode
_SUBSCRIBE: Final = msgspec.json.Decoder(Subscribe)
_FLOW: Final = {
    telemetry.PUSHED.name: "pushed",
    telemetry.POPPED.name: "popped",
    telemetry.ACKED.name: "acked",
    telemetry.NACKED.name: "nacked",
    telemetry.DEAD_LETTERED.name: "dead_lettered",
}


Flow = dict[tuple[str, str], float]
"""What each figure of each queue came to so far, over its groups."""


class DashboardQuery(Request, frozen=True, kw_only=True):
    """A ticket, for a browser's WebSocket sends no headers."""

    ticket: str | None = None


class Dashboard:
    """One open WebSocket: what it wants, and what it has not read yet."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.events: frozenset[EventName] = frozenset(EVENTS)
        self.queues: frozenset[str] | None = None
        self.seconds = 1
        """From one frame of what was processed to the next, at least."""
        self.due_at = 0.0
        self.flow: Flow = {}
        """As it was when it was last told of it."""
        self.frames: deque[bytes] = deque()
        self.has_frames = asyncio.Event()
        self.is_slow = asyncio.Event()
        self.has_ended = asyncio.Event()
        """Its key or token is no longer accepted."""

    def put(self, frame: bytes) -> None:
        if len(self.frames) >= _MOST_FRAMES or sum(map(len, self.frames)) >= _MOST_BYTES:
            self.is_slow.set()
        else:
            self.frames.append(frame)
            self.has_frames.set()

    async def shown(self, names: set[str]) -> set[str]:
        """Those of the queues that it asked for and may see: judged anew for each frame."""
        return await self.call.visible(names if self.queues is None else names & self.queues)


class Dashboards:
    """All open WebSockets of this process; nothing is gathered while there is none."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        meter: Meter,
        gather: Callable[[], Awaitable[Snapshot]],
        log: logs.Log,
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._meter = meter
        self._gather = gather
        self._log = log
        self._open: set[Dashboard] = set()
        self._task: asyncio.Task[None] | None = None
        self._flow: Flow = {}
        self._operations: dict[str, Operation] = {}

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def serve(self, scope: Scope, receive: Receive, send: Send, call: Call) -> None:
        """Speak with one dashboard until it goes."""
        socket = WebSocket(scope, receive, send)
        try:
            query = call.query(DashboardQuery)
            check_origin(call)
            if call.state.is_draining:
                raise errors.Draining("this process is stopping")
            if len(self._open) >= self._settings.ws_max_connections:
                raise errors.Overloaded("this process has as many dashboards as it may")
            call.caller = await admit(call, query.ticket)
        except errors.QueenError as error:
            self._meter.count_error(type(error), scope["path"])
            self._log.warning(Event.SOCKET_REFUSED, code=error.code, request_id=call.request_id)
            await socket.send_denial_response(_refusal(error, call.request_id))
            return
        await socket.accept()
        dashboard = Dashboard(call)
        self._add(dashboard)
        revocations = call.state.gate.revocations
        revocations.add(call.caller, dashboard.has_ended.set)
        try:
            await self._converse(socket, dashboard)
        finally:
            revocations.remove(call.caller, dashboard.has_ended.set)
            self._remove(dashboard)

    async def tell(self, event: EventName, data: object, queue: str | None) -> None:
        """
        Something happened now: say so to those who asked for it and may see its queue.

        What is of several queues is for those who see them all.
        """
        for dashboard in tuple(self._open):
            if event not in dashboard.events:
                continue
            if queue is None:
                is_shown = dashboard.call.caller.scopes is None
            else:
                is_shown = bool(await dashboard.shown({queue}))
            if is_shown:
                dashboard.put(_frame(event, data))

    def _is_wanted(self, event: EventName) -> bool:
        return any(event in dashboard.events for dashboard in self._open)

    def _add(self, dashboard: Dashboard) -> None:
        dashboard.flow = self._flow
        self._open.add(dashboard)
        self._meter.websockets = len(self._open)
        if self._task is None:
            self._task = asyncio.create_task(self._feed())

    def _remove(self, dashboard: Dashboard) -> None:
        self._open.discard(dashboard)
        self._meter.websockets = len(self._open)
        if not self._open and self._task is not None:
            self._task.cancel()
            self._task = None

    async def _converse(self, socket: WebSocket, dashboard: Dashboard) -> None:
        hearing = asyncio.create_task(self._hear(socket, dashboard))
        saying = asyncio.create_task(self._say(socket, dashboard))
        slow = asyncio.create_task(dashboard.is_slow.wait())
        ended = asyncio.create_task(dashboard.has_ended.wait())
        tasks: set[asyncio.Task[Any]] = {hearing, saying, slow, ended}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if dashboard.is_slow.is_set():
            self._log.warning(Event.SOCKET_DROPPED, request_id=dashboard.call.request_id)
            # Not by a close frame: it would stand behind what is not read.
            if (abort := dashboard.call.scope.get(ABORT)) is not None:
                abort()
        elif dashboard.has_ended.is_set() and hearing.cancelled():
            await _close(socket, dashboard)

    async def _hear(self, socket: WebSocket, dashboard: Dashboard) -> None:
        with contextlib.suppress(WebSocketDisconnect):
            while True:
                text = await socket.receive_text()
                try:
                    wanted = _SUBSCRIBE.decode(text)
                except msgspec.DecodeError as error:
                    await socket.close(1008, str(error)[:100])
                    return
                dashboard.events = frozenset(
                    EVENTS if wanted.subscribe is None else wanted.subscribe
                )
                dashboard.queues = None if wanted.queues is None else frozenset(wanted.queues)
                dashboard.seconds = wanted.seconds

    async def _say(self, socket: WebSocket, dashboard: Dashboard) -> None:
        with contextlib.suppress(WebSocketDisconnect):
            while True:
                await dashboard.has_frames.wait()
                call = dashboard.call
                if not await call.state.gate.is_valid(call.caller):
                    dashboard.has_ended.set()
                    return
                while dashboard.frames:
                    await socket.send_text(dashboard.frames.popleft().decode())
                dashboard.has_frames.clear()

    async def _feed(self) -> None:
        """Once a second: what happened; at their intervals depths and the system."""
        depths_at = stats_at = 0.0
        is_first = True
        while True:
            now = time.monotonic()
            try:
                if is_first:
                    self._flow = _flow(await self._gather())
                    for dashboard in self._open:
                        dashboard.flow = self._flow
                    self._operations = await self._newest_operations()
                    is_first = False
                snapshot = await self._gather()
                # First: it says that the database is away, which the others need.
                if now >= stats_at:
                    stats_at = now + self._settings.system_stats_update_ms / 1000
                    self._tell_stats(snapshot)
                await self._tell_processed(_flow(snapshot), now)
                await self._tell_operations()
                if now >= depths_at:
                    depths_at = now + self._settings.queue_depth_update_ms / 1000
                    await self._tell_depths()
            except errors.QueenError:
                pass
            except Exception as error:
                # Whatever it is, open dashboards hear of the next second.
                self._log.error(Event.FEED_FAILED, error=error)
            await asyncio.sleep(_TICK_SECONDS)

    async def _tell_processed(self, flow: Flow, now: float) -> None:
        """At once after a pause, then at each one's interval; who was told together is again."""
        self._flow = flow
        told: dict[int, list[Dashboard]] = {}
        for dashboard in self._open:
            # A tick may be early by less than a timer can tell.
            if now + _TICK_SECONDS / 2 >= dashboard.due_at:
                told.setdefault(id(dashboard.flow), []).append(dashboard)
        for dashboards in told.values():
            changed = _changed(flow, dashboards[0].flow)
            async for dashboard, is_told in self._tell_queues(
                "message.processed", changed, ProcessedQueues, dashboards
            ):
                dashboard.flow = flow
                if is_told:
                    dashboard.due_at = now + dashboard.seconds

    async def _newest_operations(self) -> dict[str, Operation]:
        """Whichever process runs them: what all have written down."""
        with contextlib.suppress(errors.QueenError):
            rows = await self._engine.store.operations.page(before=2**63 - 1, limit=_OPERATIONS)
            return {each.id: each for each in map(operations.shown, rows)}
        return {}

    async def _tell_operations(self) -> None:
        if not self._is_wanted("operation.updated"):
            return
        newest = await self._newest_operations()
        for id_, operation in newest.items():
            if operation != self._operations.get(id_):
                await self.tell("operation.updated", operation, operation.queue)
        self._operations = newest

    async def _tell_depths(self) -> None:
        if not self._is_wanted("queue.depth.updated"):
            return
        rows = await self._engine.store.database.fetch("newest_samples", None)
        depths = {
            row["queue"]: Depth(
                queue=row["queue"],
                depth=row["depth"],
                oldest_age_seconds=row["oldest_age_seconds"],
                dead_letters=row["dead_letters"],
                scheduled=row["scheduled"],
                paused=row["paused"],
            )
            for row in rows
            if row["group_id"] == 0
        }
        if depths:
            async for _ in self._tell_queues("queue.depth.updated", depths, Depths, self._open):
                pass

    async def _tell_queues(
        self,
        event: EventName,
        by_queue: Mapping[str, Processed | Depth],
        type_: Callable[..., ProcessedQueues | Depths],
        dashboards: Iterable[Dashboard],
    ) -> AsyncIterator[tuple[Dashboard, bool]]:
        """
        One frame for all who see all; for others one of what they see.

        Says of each whether it was told; nothing of one of whom nobody can say what it sees now.
        """
        names = set(by_queue)
        whole: bytes | None = None
        for dashboard in tuple(dashboards):
            shown: set[str] = set()
            if event in dashboard.events:
                try:
                    shown = await dashboard.shown(names)
                except errors.QueenError:
                    continue
            if shown and shown == names:
                whole = whole or _frame(event, type_(queues=list(by_queue.values())))
                dashboard.put(whole)
            elif shown:
                some = [each for name, each in by_queue.items() if name in shown]
                dashboard.put(_frame(event, type_(queues=some)))
            yield dashboard, bool(shown)

    def _tell_stats(self, snapshot: Snapshot) -> None:
        idle = int(snapshot.of(telemetry.DB_POOL, "idle"))
        lags = [each.value for each in snapshot.values if each.name == telemetry.LOOP_LAG.name]
        stats = Stats(
            messages_per_second=round(snapshot.recent, 3),
            processes=int(snapshot.of(telemetry.PROCESSES)),
            waiters=int(snapshot.of(telemetry.WAITERS)),
            websockets=int(snapshot.of(telemetry.WEBSOCKETS)),
            pool_size=idle + int(snapshot.of(telemetry.DB_POOL, "used")),
            idle_connections=idle,
            waiting_requests=int(snapshot.of(telemetry.DB_WAITING)),
            event_loop_lag_seconds=round(max(lags, default=0.0), 6),
            version=VERSION,
            buffer=buffers.shown(self._engine, self._settings),
        )
        whole = _frame("system.stats", stats)
        partial = _frame("system.stats", _partial(stats))
        for dashboard in tuple(self._open):
            if "system.stats" in dashboard.events:
                is_scoped = dashboard.call.caller.scopes is not None
                dashboard.put(partial if is_scoped else whole)


def _partial(stats: Stats) -> Stats:
    """What callers with scopes may know of a server that others use too."""
    return Stats(
        messages_per_second=None,
        processes=stats.processes,
        waiters=None,
        websockets=None,
        pool_size=None,
        idle_connections=None,
        waiting_requests=None,
        event_loop_lag_seconds=None,
        version=stats.version,
        buffer=buffers.uncounted(stats.buffer),
    )


def _flow(snapshot: Snapshot) -> Flow:
    flow: Flow = {}
    for each in snapshot.values:
        if (name := _FLOW.get(each.name)) is not None and (queue := each.labels[0]) != OTHER:
            flow[queue, name] = flow.get((queue, name), 0.0) + each.value
    return flow


def _changed(flow: Flow, before: Flow) -> dict[str, Processed]:
    """What happened to queues since."""
    news: dict[str, dict[str, int]] = {}
    for key, figure in flow.items():
        if change := int(figure - before.get(key, 0)):
            queue, name = key
            news.setdefault(queue, {})[name] = change
    return {queue: Processed(queue=queue, **figures) for queue, figures in news.items()}


def _frame(event: EventName, data: object) -> bytes:
    return _ENCODE(Frame(event=event, data=msgspec.Raw(_ENCODE(data)), at=datetime.now(UTC)))


async def _close(socket: WebSocket, dashboard: Dashboard) -> None:
    """Say why, also to a client that does not read: then only its connection ends."""
    try:
        async with asyncio.timeout(_CLOSE_SECONDS):
            await socket.close(1008, REASON)
    except TimeoutError:
        if (abort := dashboard.call.scope.get(ABORT)) is not None:
            abort()


def _refusal(error: errors.QueenError, request_id: str) -> Response:
    return Response(
        _ENCODE(problem(error, request_id)),
        status_code=error.http_status,
        media_type="application/problem+json",
    )
