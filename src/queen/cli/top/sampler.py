"""Samples for `queen top`: metrics of all queues, and rates between two samples."""

import time
from collections import deque
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from queen import errors
from queen.cli.support.client import some

if TYPE_CHECKING:
    from queen import Queen

_QUEUES: Final = 1_000
_WINDOW_SECONDS: Final = 15.0
"""Servers store their counts every few seconds, and a rate needs several of those."""
_ANCHOR_SECONDS: Final = 600.0
_DETAILS: Final = 20

Counts = dict[str, tuple[int, int]]
"""Messages pushed and acknowledged until now, by queue."""


class QueueRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A queue. Unknown values are null."""

    name: str
    lag: int | None
    """Unacknowledged messages of the slowest group."""
    pushed_per_second: float | None
    acked_per_second: float | None
    oldest_age_seconds: float | None
    held: int | None
    waiting: int | None
    dead_letters: int | None
    paused: bool


class Servers(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The processes and their database. Null if the API key has no access."""

    processes: int | None = None
    waiters: int | None = None
    database_bytes: int | None = None
    dead_rows: int | None = None
    oldest_transaction_seconds: float | None = None


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One sample of the complete server."""

    at: datetime
    server: str
    queues: list[QueueRow]
    is_complete: bool
    """False if there are more queues than one sample reads."""
    servers: Servers


class Detail(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One queue: its groups, its leases, and its partitions with messages."""

    name: str
    groups: list[Any]
    deliveries: list[Any]
    partitions: list[Any]


class Sampler:
    """Sample a server repeatedly."""

    def __init__(self, queen: "Queen") -> None:
        self._queen = queen
        self._anchor = 0.0
        self._history: deque[tuple[float, Counts]] = deque()

    async def sample(self) -> Snapshot:
        queues = await some(self._queen.admin.queues(limit=_QUEUES), _QUEUES + 1)
        rates = await self._rates()
        return Snapshot(
            at=datetime.now(UTC),
            server=self._queen.config.urls[0],
            queues=[
                QueueRow(
                    name=each.name,
                    lag=each.pending,
                    pushed_per_second=rates.get(each.name, (None, None))[0],
                    acked_per_second=rates.get(each.name, (None, None))[1],
                    oldest_age_seconds=each.oldest_age_seconds,
                    held=each.held,
                    waiting=each.waiting,
                    dead_letters=each.dead_letters,
                    paused=each.paused,
                )
                for each in queues[:_QUEUES]
            ],
            is_complete=len(queues) <= _QUEUES,
            servers=await self._servers(),
        )

    async def detail(self, name: str) -> Detail:
        admin = self._queen.admin
        return Detail(
            name=name,
            groups=await some(admin.groups(queue=name, limit=_DETAILS), _DETAILS),
            deliveries=await some(admin.deliveries(name, limit=_DETAILS), _DETAILS),
            partitions=await some(admin.partitions(name, state="ready", limit=_DETAILS), _DETAILS),
        )

    async def _rates(self) -> dict[str, tuple[float | None, float | None]]:
        """Return messages per second over the last seconds, or since the anchor."""
        now = time.time()
        if now - self._anchor > _ANCHOR_SECONDS:
            # The anchor is a whole minute. It moves regularly, so that time ranges stay short.
            self._anchor = (now // 60 - 1) * 60
            self._history.clear()
        counts = await self._counts()
        self._history.append((now, counts))
        while len(self._history) > 2 and now - self._history[1][0] >= _WINDOW_SECONDS:
            self._history.popleft()
        since, before = self._history[0]
        if now - since < _WINDOW_SECONDS / 3:
            since, before = self._anchor, {}
        seconds = now - since
        return {
            name: (
                max(pushed - before.get(name, (0, 0))[0], 0) / seconds,
                max(acked - before.get(name, (0, 0))[1], 0) / seconds,
            )
            for name, (pushed, acked) in counts.items()
        }

    async def _counts(self) -> Counts:
        query: dict[str, Any] = {
            "from_": datetime.fromtimestamp(self._anchor, UTC),
            "to": datetime.now(UTC) + timedelta(minutes=1),
            "bucket_seconds": 60,
            "limit": _QUEUES,
        }
        found: Counts = {}
        while len(found) < _QUEUES:
            page = await self._queen.admin.analytics_of_queues(**query)
            for each in page.queues:
                found[each.queue] = (each.totals.pushed or 0, each.totals.acked or 0)
            if page.next_cursor is None:
                break
            query["cursor"] = page.next_cursor
        return found

    async def _servers(self) -> Servers:
        try:
            processes = await some(self._queen.admin.instances(), _QUEUES)
            known = await self._queen.admin.tables()
        except errors.Forbidden:
            return Servers()
        alive = [each for each in processes if each.alive]
        oldest = known.oldest_transaction
        return Servers(
            processes=len(alive),
            waiters=sum(each.waiters for each in alive),
            database_bytes=sum(each.total_bytes for each in known.tables),
            dead_rows=sum(each.dead_rows for each in known.tables),
            oldest_transaction_seconds=None if oldest is None else oldest.age_seconds,
        )
