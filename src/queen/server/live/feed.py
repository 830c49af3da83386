"""The live feed: one snapshot per process and interval, for all open dashboards."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from queen import errors, tasks, telemetry
from queen.cluster.cluster import Cluster
from queen.meters import Snapshot
from queen.server import logs
from queen.server.auth.origins import Origins
from queen.server.http.call import Call
from queen.server.http.problems import problem
from queen.server.live.admission import admit, check_origin
from queen.server.live.subscriber import Flow, Subscriber
from queen.server.metrics.host import HostMetrics
from queen.server.metrics.requests import VERSION
from queen.server.routes.views import buffer_info, of_row, operation_info, without_counts
from queen.settings import Settings
from queen.telemetry import OTHER, Event
from queen.wire.live_feed import (
    Depth,
    Depths,
    EventName,
    Frame,
    Processed,
    ProcessedQueues,
    Stats,
)
from queen.wire.messages import Request
from queen.wire.resources import Operation

_TICK_SECONDS: Final = 1.0
_OPERATIONS: Final = 50
"""Number of the newest operations whose progress is sent."""
_ENCODE: Final = msgspec.json.Encoder().encode
_FLOW: Final = {
    telemetry.PUSHED.name: "pushed",
    telemetry.POPPED.name: "popped",
    telemetry.ACKED.name: "acked",
    telemetry.NACKED.name: "nacked",
    telemetry.DEAD_LETTERED.name: "dead_lettered",
}


class DashboardQuery(Request, frozen=True, kw_only=True):
    """A ticket, because browsers cannot send headers with a WebSocket."""

    ticket: str | None = None


class Feed:
    """All open WebSockets of this process. Without any, it collects no data."""

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        metrics: HostMetrics,
        origins: Origins,
        log: logs.Log,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._metrics = metrics
        self._origins = origins
        self._log = log
        self._open: set[Subscriber] = set()
        self._task: asyncio.Task[None] | None = None
        self._flow: Flow = {}
        self._operations: dict[str, Operation] = {}

    async def close(self) -> None:
        await tasks.stop(self._task)

    async def serve(self, scope: Scope, receive: Receive, send: Send, call: Call) -> None:
        """Serve one dashboard until it disconnects."""
        socket = WebSocket(scope, receive, send)
        try:
            query = call.query(DashboardQuery)
            check_origin(call, self._origins)
            if call.state.is_draining:
                raise errors.Draining("this process is shutting down")
            if len(self._open) >= self._settings.ws_max_connections:
                raise errors.Overloaded("this process has reached its limit of dashboards")
            call.caller = await admit(call, query.ticket)
        except errors.QueenError as error:
            self._metrics.process.count_error(type(error), scope["path"])
            self._log.warning(Event.SOCKET_REFUSED, code=error.code, request_id=call.request_id)
            await socket.send_denial_response(_refusal(error, call.request_id))
            return
        await socket.accept()
        subscriber = Subscriber(call, socket)
        self._add(subscriber)
        revocations = call.state.authenticator.revocations
        revocations.add(call.caller, subscriber.has_ended.set)
        try:
            await subscriber.run(self._log)
        finally:
            revocations.remove(call.caller, subscriber.has_ended.set)
            self._remove(subscriber)

    async def _send(self, event: EventName, data: object, queue: str | None) -> None:
        """Send an event to subscribers that may see its queue; None: that may see all queues."""
        for subscriber in tuple(self._open):
            if event not in subscriber.events:
                continue
            if queue is None:
                is_visible = subscriber.call.caller.scopes is None
            else:
                is_visible = bool(await subscriber.visible({queue}))
            if is_visible:
                subscriber.put(_frame(event, data))

    def _is_wanted(self, event: EventName) -> bool:
        return any(event in subscriber.events for subscriber in self._open)

    def _add(self, subscriber: Subscriber) -> None:
        subscriber.flow = self._flow
        self._open.add(subscriber)
        self._metrics.process.websockets = len(self._open)
        if self._task is None:
            self._task = asyncio.create_task(self._feed())

    def _remove(self, subscriber: Subscriber) -> None:
        self._open.discard(subscriber)
        self._metrics.process.websockets = len(self._open)
        if not self._open and self._task is not None:
            self._task.cancel()
            self._task = None

    async def _feed(self) -> None:
        """Send processed messages once per second, and depths and statistics at their intervals."""
        depths_at = stats_at = 0.0
        is_first = True
        while True:
            now = time.monotonic()
            try:
                if is_first:
                    self._flow = _flow(await self._metrics.gather())
                    for subscriber in self._open:
                        subscriber.flow = self._flow
                    self._operations = await self._newest_operations()
                    is_first = False
                snapshot = await self._metrics.gather()
                # First, because it reports an unavailable database, which makes the others fail.
                if now >= stats_at:
                    stats_at = now + self._settings.system_stats_update_ms / 1000
                    self._send_stats(snapshot)
                await self._send_processed(_flow(snapshot), now)
                await self._send_operations()
                if now >= depths_at:
                    depths_at = now + self._settings.queue_depth_update_ms / 1000
                    await self._send_depths()
            except errors.QueenError:
                pass
            except Exception as error:
                # The next second is sent even if this one failed.
                self._log.error(Event.FEED_FAILED, error=error)
            await asyncio.sleep(_TICK_SECONDS)

    async def _send_processed(self, flow: Flow, now: float) -> None:
        """Send immediately after a pause, then at each subscriber's interval."""
        self._flow = flow
        due: dict[int, list[Subscriber]] = {}
        for subscriber in self._open:
            # A tick may be early by the resolution of the timer.
            if now + _TICK_SECONDS / 2 >= subscriber.due_at:
                due.setdefault(id(subscriber.flow), []).append(subscriber)
        for subscribers in due.values():
            changed = _changed(flow, subscribers[0].flow)
            async for subscriber, is_sent in self._send_by_queue(
                "message.processed", changed, ProcessedQueues, subscribers
            ):
                subscriber.flow = flow
                if is_sent:
                    subscriber.due_at = now + subscriber.seconds

    async def _newest_operations(self) -> dict[str, Operation]:
        """Read the newest operations of all processes."""
        newest: dict[str, Operation] = {}
        for engine in self._cluster.engines.values():
            with contextlib.suppress(errors.QueenError):
                rows = await engine.store.operations.page(before=2**63 - 1, limit=_OPERATIONS)
                newest |= {each.id: each for each in map(operation_info, rows)}
        return newest

    async def _send_operations(self) -> None:
        if not self._is_wanted("operation.updated"):
            return
        newest = await self._newest_operations()
        for id_, operation in newest.items():
            if operation != self._operations.get(id_):
                await self._send("operation.updated", operation, operation.queue)
        self._operations = newest

    async def _send_depths(self) -> None:
        if not self._is_wanted("queue.depth.updated"):
            return
        depths: dict[str, Depth] = {}
        for engine in self._cluster.engines.values():
            with contextlib.suppress(errors.QueenError):
                rows = await engine.store.database.fetch("newest_samples", None)
                depths |= {r["queue"]: of_row(Depth, r) for r in rows if r["group_id"] == 0}
        if depths:
            async for _ in self._send_by_queue("queue.depth.updated", depths, Depths, self._open):
                pass

    async def _send_by_queue(
        self,
        event: EventName,
        by_queue: Mapping[str, Processed | Depth],
        type_: Callable[..., ProcessedQueues | Depths],
        subscribers: Iterable[Subscriber],
    ) -> AsyncIterator[tuple[Subscriber, bool]]:
        """
        Send one frame to all subscribers that see every queue, and individual ones to the others.

        Yields each subscriber and whether a frame was sent. A subscriber whose visible queues
        cannot be read now is left out.
        """
        names = set(by_queue)
        whole: bytes | None = None
        for subscriber in tuple(subscribers):
            seen: set[str] = set()
            if event in subscriber.events:
                try:
                    seen = await subscriber.visible(names)
                except errors.QueenError:
                    continue
            if seen and seen == names:
                whole = whole or _frame(event, type_(queues=list(by_queue.values())))
                subscriber.put(whole)
            elif seen:
                some = [each for name, each in by_queue.items() if name in seen]
                subscriber.put(_frame(event, type_(queues=some)))
            yield subscriber, bool(seen)

    def _send_stats(self, snapshot: Snapshot) -> None:
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
            buffer=buffer_info(self._cluster.first, self._settings),
        )
        whole = _frame("system.stats", stats)
        partial = _frame("system.stats", _partial(stats))
        for subscriber in tuple(self._open):
            if "system.stats" in subscriber.events:
                is_scoped = subscriber.call.caller.scopes is not None
                subscriber.put(partial if is_scoped else whole)


def _partial(stats: Stats) -> Stats:
    """Return the part for callers with scopes, without data of other callers."""
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
        buffer=without_counts(stats.buffer),
    )


def _flow(snapshot: Snapshot) -> Flow:
    flow: Flow = {}
    for each in snapshot.values:
        if (name := _FLOW.get(each.name)) is not None and (queue := each.labels[0]) != OTHER:
            flow[queue, name] = flow.get((queue, name), 0.0) + each.value
    return flow


def _changed(flow: Flow, before: Flow) -> dict[str, Processed]:
    """Count the messages of each queue since then."""
    changes: dict[str, dict[str, int]] = {}
    for key, figure in flow.items():
        if change := int(figure - before.get(key, 0)):
            queue, name = key
            changes.setdefault(queue, {})[name] = change
    return {queue: Processed(queue=queue, **figures) for queue, figures in changes.items()}


def _frame(event: EventName, data: object) -> bytes:
    return _ENCODE(Frame(event=event, data=msgspec.Raw(_ENCODE(data)), at=datetime.now(UTC)))


def _refusal(error: errors.QueenError, request_id: str) -> Response:
    return Response(
        _ENCODE(problem(error, request_id)),
        status_code=error.http_status,
        media_type="application/problem+json",
    )
