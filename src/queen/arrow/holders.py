"""Find the open transaction that readers of a whole queue wait for."""

import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from queen.arrow.database import Connection, call
from queen.horizon import holder

_LONG_SECONDS: Final = 2.0
"""Most transactions end earlier. A reader only waits for the others without progress."""


class Wait(NamedTuple):
    """Committed messages wait for an open transaction."""

    by: str
    """The transaction, in words."""
    is_long: bool


class Holders:
    """Remembers when each transaction was first seen, because its start may be hidden."""

    def __init__(self) -> None:
        self._xid = 0
        self._seen_at = 0.0

    def find(
        self,
        connection: Connection,
        position: int,
        queues: Sequence[str] = (),
        queue_ids: Sequence[int] = (),
        end_xid: int | None = None,
    ) -> Wait | None:
        """Return what messages from this position on wait for. None if they are readable."""
        messages = (
            [*queues],
            [*queue_ids],
            str(position),
            None if end_xid is None else str(end_xid),
        )
        if not call(connection, "is_held_back", *messages)[0]["is_held_back"]:
            return None
        rows = call(connection, "horizon_holder")
        if not rows:  # It has just ended.
            return Wait("a transaction that has just ended", is_long=False)
        row = rows[0]
        if row["xid"] != self._xid:
            self._xid, self._seen_at = row["xid"], time.monotonic()
        seconds = max(row["age_seconds"] or 0.0, time.monotonic() - self._seen_at)
        return Wait(holder(row), is_long=seconds >= _LONG_SECONDS)


def newest(connection: Connection) -> int:
    """Return a transaction number. All messages that are committed now have lower ones."""
    return call(connection, "newest")[0]["xid"]
