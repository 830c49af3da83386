"""Describe the open transaction that keeps readers of whole queues waiting."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any


def holder(row: Mapping[str, Any]) -> str:
    """
    Name the transaction of a row of `horizon_holder`: ``pid 4711 of database x since 00:41:10``.

    PostgreSQL hides the start of other users' transactions from roles without pg_read_all_stats.
    """
    if row["kind"] == "transaction of the primary":
        return "an open transaction of the primary"
    named = f"pid {row['pid']}" if row["kind"] == "session" else f"{row['kind']} {row['name']}"
    started_at: datetime | None = row["started_at"]
    if started_at is None:
        return (
            f"{named} of database {row['database']} (user {row['user']}; its start is hidden from"
            " this role)"
        )
    started_at = started_at.astimezone(UTC)
    is_today = datetime.now(UTC) - started_at < timedelta(days=1)
    since = f"{started_at:%H:%M:%S}" if is_today else f"{started_at:%Y-%m-%d %H:%M:%S}"
    return f"{named} of database {row['database']} since {since} UTC"
