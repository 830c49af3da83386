"""Counts of requests, and a snapshot of all metrics of a process."""

import asyncio
import contextlib
import platform
import time
from collections import deque
from collections.abc import Collection
from importlib.metadata import version
from typing import Final

from queen import errors, telemetry
from queen.cluster.cluster import Cluster
from queen.engine.engine import Engine
from queen.meters import Histogram, Snapshot, merged
from queen.server.memory_budget import Budget
from queen.server.metrics.jobs import JobMetrics
from queen.server.metrics.slot_moves import SlotMoveMetrics
from queen.server.metrics.streams import StreamMetrics
from queen.server.metrics.watchdog import Watchdog
from queen.settings import Settings

VERSION: Final = version("queenmq")
_TICK_SECONDS: Final = 1.0
_BUSY: Final = {
    error.code
    for error in (
        errors.Overloaded,
        errors.QueueFull,
        errors.RateLimited,
        errors.TooManyBytes,
        errors.TooManyWaiters,
    )
}


class RequestMetrics:
    """Metrics of one process."""

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        watchdog: Watchdog,
        *,
        requests: Budget,
        unsent: Budget,
    ) -> None:
        """``requests``, ``unsent``: memory of requests in progress, and of unsent responses."""
        self._cluster = cluster
        self.watchdog = watchdog
        self._request_bytes = requests
        self._unsent_bytes = unsent
        self._requests: dict[tuple[str, str, int], Histogram] = {}
        self._rejections: dict[str, int] = {}
        self._failures: dict[str, int] = {}
        self._errors: dict[str, int] = {}
        self._started_at = time.time()
        self._loop_lag = 0.0
        self._window = settings.recent_message_window_seconds
        self._pushed: deque[tuple[float, int]] = deque([(time.monotonic(), 0)])
        self.connections: Collection[object] = ()
        """Open client connections, shared with the server."""
        self.websockets = 0
        self.jobs = JobMetrics(settings.metrics_max_queues)
        self.streams = StreamMetrics()
        self.slot_moves = SlotMoveMetrics()
        self.sampled: dict[Engine, Snapshot] = {}
        """Samples of each database, while this process takes them."""

    def count_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request by its route and status."""
        key = (route, method, status)
        histogram = self._requests.get(key)
        if histogram is None:
            histogram = self._requests[key] = Histogram()
        histogram.observe(seconds)

    def count_error(self, error: type[errors.QueenError], route: str) -> None:
        """Count a rejected or failed request."""
        if error.code in _BUSY:
            self._rejections[error.code] = self._rejections.get(error.code, 0) + 1
        elif issubclass(error, errors.Unauthorized | errors.Forbidden | errors.OriginRefused):
            self._failures[error.code] = self._failures.get(error.code, 0) + 1
        elif error.code == errors.QueenError.code:
            self._errors[route] = self._errors.get(route, 0) + 1

    async def tick_forever(self) -> None:
        """Once per second, record the delay of the loop and the number of pushed messages."""
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            self._loop_lag = self.watchdog.take_worst()
            now = time.monotonic()
            self._pushed.append((now, self._pushed_messages))
            while self._pushed[0][0] < now - self._window:
                self._pushed.popleft()

    @property
    def rate(self) -> float:
        """Messages pushed per second, over the recent window."""
        (since, before), now = self._pushed[0], time.monotonic()
        return (self._pushed_messages - before) / max(now - since, 1.0)

    @property
    def _pushed_messages(self) -> int:
        return sum(each.counters.pushed for each in self._cluster.engines.values())

    async def snapshot(self) -> Snapshot:
        engines = self._cluster.engines.values()
        snapshots = [await each.snapshot() for each in engines]
        snapshot = snapshots[0] if len(snapshots) == 1 else merged(snapshots)
        snapshot.recent = self.rate
        for (route, method, status), histogram in self._requests.items():
            snapshot.add_histogram(telemetry.HTTP, histogram, route, method, str(status))
        for metric, counts in (
            (telemetry.RATE_LIMITED, self._rejections),
            (telemetry.AUTH_FAILURES, self._failures),
            (telemetry.ERRORS, self._errors),
        ):
            for label, count in counts.items():
                snapshot.add(metric, count, label)
        self.jobs.add_to(snapshot)
        self.streams.add_to(snapshot)
        self.slot_moves.add_to(snapshot)
        await self._count_added(snapshot)
        snapshot.add(telemetry.LOOP_LAG, self._loop_lag)
        snapshot.add_histogram(telemetry.LOOP_STALLS, self.watchdog.stalls)
        snapshot.add(telemetry.CONNECTIONS, len(self.connections))
        snapshot.add(telemetry.REQUEST_BYTES, self._request_bytes.used_bytes)
        snapshot.add(telemetry.UNSENT_BYTES, self._unsent_bytes.used_bytes)
        snapshot.add(telemetry.WEBSOCKETS, self.websockets)
        snapshot.add(telemetry.FOLLOWED, self._cluster.following.repeated)
        snapshot.add(telemetry.PROCESSES, 1)
        snapshot.add(telemetry.STARTED, self._started_at)
        snapshot.add(telemetry.BUILD, 1, VERSION, platform.python_version())
        snapshot.values.extend(merged(self.sampled.values()).values)
        return snapshot

    async def _count_added(self, snapshot: Snapshot) -> None:
        """Count messages in unordered queues as jobs."""
        pushed = {
            each.labels[0]: each.value
            for each in snapshot.values
            if each.name == telemetry.PUSHED.name
        }
        # Old cache entries are sufficient: a queue keeps its order, and its last push cached it.
        known = self._cluster.remembered(pushed)
        with contextlib.suppress(errors.ServiceError, errors.OutcomeUnknown):
            known |= await self._cluster.queues(pushed.keys() - known.keys() - {telemetry.OTHER})
        for queue in known.values():
            if not queue.is_ordered:
                snapshot.add(telemetry.JOBS_ADDED, pushed[queue.name], queue.name)
