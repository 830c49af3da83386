"""Dead letters: list, redrive, purge."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

import msgspec

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
    queue: str
    group: str | None = None
    most: int = 100
    after: str | None = None
    since: str | None = None
    until: str | None = None
    is_revealed: bool = False

    def limit(self, count: int) -> "DeadLetters":
        return replace(self, most=count)

    def cursor(self, cursor: str | None) -> "DeadLetters":
        """Continue a list at its ``nextCursor``."""
        return replace(self, after=cursor)

    def from_(self, instant: str | datetime) -> "DeadLetters":
        return replace(self, since=_text(instant))

    def to(self, instant: str | datetime) -> "DeadLetters":
        return replace(self, until=_text(instant))

    def reveal(self) -> "DeadLetters":
        """Return encrypted payloads instead of masked ones: needs `consume`, and is logged."""
        return replace(self, is_revealed=True)

    async def get(self) -> dict[str, Any]:
        """Return ``{"messages": […], "total": …, "nextCursor": …}``, newest first."""
        query = {**self._filter(), "limit": self.most, "cursor": self.after}
        if self.is_revealed:
            query["reveal"] = "true"
        text = urlencode({name: value for name, value in query.items() if value is not None})
        reply = await self.queen.transport.exchange("GET", f"/api/v1/dlq?{text}")
        return decoded(reply, msgspec.json.decode)

    async def redrive(self, *, rate: float | None = None) -> dict[str, Any]:
        """Redeliver to the group that failed. Returns the count or the operation."""
        given = {name: value for name, value in self._filter().items() if value is not None}
        body: dict[str, Any] = {"filter": given}
        if rate is not None:
            body["ratePerSecond"] = rate
        reply = await self.queen.transport.exchange(
            "POST", "/api/v1/dlq/redrive", msgspec.json.encode(body)
        )
        return decoded(reply, msgspec.json.decode)

    async def purge(self) -> dict[str, Any]:
        """Delete them permanently."""
        given = {name: value for name, value in self._filter().items() if value is not None}
        reply = await self.queen.transport.exchange("DELETE", f"/api/v1/dlq?{urlencode(given)}")
        return decoded(reply, msgspec.json.decode) if reply.body else {}

    def _filter(self) -> dict[str, Any]:
        return {
            "queue": self.queue,
            "consumerGroup": self.group,
            "from": self.since,
            "to": self.until,
        }


def _text(instant: str | datetime) -> str:
    return instant.isoformat() if isinstance(instant, datetime) else instant
