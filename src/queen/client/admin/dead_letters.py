"""Dead letters: list, redrive, purge."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import msgspec

from queen.client.admin.base import API, query_of
from queen.client.connection import Connection
from queen.client.transport.base import decoded


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetters:
    """
    Usage::

        letters = await queen.queue("orders").dlq().limit(10).get()
        await queen.queue("orders").dlq("billing").redrive(rate=10)
    """

    queen: Connection
    """The client."""
    queue: str
    """The name of the queue."""
    group: str | None = None
    """The consumer group, or None for all."""
    most: int = 100
    """The largest number that `get` returns."""
    after: str | None = None
    """The cursor at which `get` continues."""
    since: str | datetime | None = None
    """The start of the time range."""
    until: str | datetime | None = None
    """The end of the time range."""
    is_revealed: bool = False
    """Whether encrypted payloads are returned instead of masked ones."""

    def limit(self, count: int) -> "DeadLetters":
        """Set the largest number of dead letters that `get` returns. Default: 100."""
        return replace(self, most=count)

    def cursor(self, cursor: str | None) -> "DeadLetters":
        """Continue a list at its ``nextCursor``."""
        return replace(self, after=cursor)

    def from_(self, instant: str | datetime) -> "DeadLetters":
        """Select dead letters from this time on."""
        return replace(self, since=instant)

    def to(self, instant: str | datetime) -> "DeadLetters":
        """Select dead letters before this time."""
        return replace(self, until=instant)

    def reveal(self) -> "DeadLetters":
        """Return encrypted payloads instead of masked ones: needs `consume`, and is logged."""
        return replace(self, is_revealed=True)

    async def get(self) -> dict[str, Any]:
        """Return ``{"messages": […], "total": …, "nextCursor": …}``, newest first."""
        page = {"limit": self.most, "cursor": self.after, "reveal": self.is_revealed or None}
        path = f"{API}/dlq{query_of({**self._filter(), **page})}"
        return decoded(await self.queen.transport.exchange("GET", path), msgspec.json.decode)

    async def redrive(self, *, rate: float | None = None) -> dict[str, Any]:
        """Redeliver to the group that failed. Returns the count or the operation."""
        body: dict[str, Any] = {"filter": self._filter()}
        if rate is not None:
            body["ratePerSecond"] = rate
        path = f"{API}/dlq/redrive"
        reply = await self.queen.transport.exchange("POST", path, msgspec.json.encode(body))
        return decoded(reply, msgspec.json.decode)

    async def purge(self) -> dict[str, Any]:
        """Delete them permanently."""
        path = f"{API}/dlq{query_of(self._filter())}"
        reply = await self.queen.transport.exchange("DELETE", path)
        return decoded(reply, msgspec.json.decode) if reply.body else {}

    def _filter(self) -> dict[str, Any]:
        group, since, until = self.group, self.since, self.until
        given = {"queue": self.queue, "consumerGroup": group, "from": since, "to": until}
        return {name: value for name, value in given.items() if value is not None}
