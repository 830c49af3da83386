"""Finds buffered messages that may be stored although the database has forgotten their ids."""

import math
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec import structs

from queen.engine.buffer.file_buffer import BufferedPush, part_of
from queen.engine.push.producers import Producer
from queen.settings import Settings
from queen.store.store import Store

_DRIFT: Final = 0.001
"""How far the clocks of this machine and the database may diverge, relative to the elapsed time."""


class Judged(NamedTuple):
    """A buffered request, split by whether it can be stored safely."""

    push: BufferedPush | None
    """The messages that can be stored, or None."""
    doubtful: BufferedPush | None
    """The messages that could be stored twice."""
    until: float
    """The deadline for sending it, by this machine's clock."""


class RetryWindow:
    """
    Decides whether a push without a response can be sent again.

    The database recognises a duplicate by the producer's sequence, or by the transactionIds of its
    messages. It forgets both after some time, and then the push must not be sent again.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._producer_seconds = settings.producer_ttl_seconds
        attempt_ms = settings.db_statement_timeout_ms + settings.db_connection_timeout_ms
        self._sending_seconds = (1 + settings.db_max_retries) * attempt_ms / 1000

    def seconds(self, known_seconds: float) -> float:
        """How long a push can be repeated, if its ids are remembered for ``known_seconds``."""
        return known_seconds * (1 - _DRIFT) - self._sending_seconds

    def is_repeatable(self, producer: Producer | None, known_seconds: Sequence[float]) -> bool:
        """Return whether a push that is sent now can be repeated for a while."""
        if producer is not None:
            return self.seconds(self._producer_seconds) > 0
        return all(self.seconds(each) > 0 for each in known_seconds)

    async def judge(self, push: BufferedPush, *, is_counted: bool = True) -> Judged:
        """``is_counted``: the producer, if any, has not continued since."""
        if push.tried_at is None:
            return Judged(push, None, math.inf)
        tried_at, now = push.tried_at / 1e9, time.time()
        if is_counted and push.producer_id is not None:
            until = tried_at + self.seconds(self._producer_seconds)
            if until > now:
                return Judged(push, None, until)
        # Not from the cache: somebody may have shortened a window.
        rows = await self._store.queues.named([*{item.queue for item in push.items}])
        windows: dict[str, float] = {row["name"]: row["dedup_seconds"] for row in rows}
        # A window that was extended later did not cover this push.
        untils = [
            tried_at + self.seconds(min(item.known_seconds, windows.get(item.queue, math.inf)))
            for item in push.items
        ]
        kept = [each for each, until in zip(push.items, untils, strict=True) if until > now]
        lost = [each for each, until in zip(push.items, untils, strict=True) if until <= now]
        return Judged(
            structs.replace(push, items=kept, digest=None) if kept else None,
            (part_of(push, lost) if kept else push) if lost else None,
            min((until for until in untils if until > now), default=math.inf),
        )
