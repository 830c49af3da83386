"""Environment variables of the original Queen that have another name or no effect here."""

from collections.abc import Mapping
from typing import Final

ALIASES: Final = {
    "DB_QUERY_TIMEOUT": "DB_STATEMENT_TIMEOUT",
    "DEFAULT_DLQ_ENABLED": "DEFAULT_DLQ_AFTER_MAX_RETRIES",
    "POLL_MAX_INTERVAL": "QUEEN_SAFETY_POLL_MS",
}
"""Read as a setting of another name. That setting wins if both are set."""

_NO_POLLING: Final = "Pops are woken by pushes, so there is no poll interval to tune."
_COUNTED: Final = (
    "Requests and messages are always counted. METRICS_ENDPOINT_ENABLED=false hides the counts."
)
_BATCHED: Final = (
    "Queen sizes its batches itself. QUEEN_SEGMENT_MAX_MESSAGES, QUEEN_SEGMENT_MAX_BYTES and"
    " QUEEN_FLUSH_MAX_BYTES bound them."
)
_RELATED: Final = "There is no list of related messages. Search by traceId or trace name instead."

UNUSED: Final = {
    "API_DEFAULT_OFFSET": "Lists are paged by cursor, not by offset.",
    "BATCH_INSERT_SIZE": _BATCHED,
    "BATCH_PUSH_MAX_SIZE_MB": _BATCHED,
    "BATCH_PUSH_TARGET_SIZE_MB": _BATCHED,
    "ENABLE_LOGGING": "The server always logs. LOG_LEVEL=error logs errors only.",
    "ENABLE_MESSAGE_COUNTING": _COUNTED,
    "ENABLE_REQUEST_COUNTING": _COUNTED,
    "LEASE_RECLAIM_INTERVAL": (
        "Pops find expired leases themselves. QUEEN_DUE_SEARCH_MS sets how often busy groups do."
    ),
    "LOG_TIMESTAMP": "Every log line has a timestamp.",
    "MAX_RELATED_MESSAGES": _RELATED,
    "POLL_DB_INTERVAL": _NO_POLLING,
    "POLL_WORKER_INTERVAL": _NO_POLLING,
    "QUEUE_POLL_INTERVAL": _NO_POLLING,
    "QUEUE_POLL_INTERVAL_FILTERED": _NO_POLLING,
    "RELATED_MESSAGE_WINDOW": _RELATED,
}
"""Variables without effect, and the reason."""

FOREIGN: Final = frozenset(
    {"HIGH_PERF", "NODE_OPTIONS", "REDIS_DB", "REDIS_HOST", "REDIS_PASSWORD", "REDIS_PORT"}
)
"""Listed in the original documentation, but usually meant for other programs: no warning."""


def translated(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with Queen's names, and with equivalent values."""
    found = dict(environ)
    for original, name in ALIASES.items():
        if original in found:
            found.setdefault(name, found[original])
    if found.get("LOG_LEVEL", "").lower() == "warn":
        found["LOG_LEVEL"] = "warning"
    level = found.get("WS_COMPRESSION", "")
    if level.isdecimal():
        found["WS_COMPRESSION"] = "true" if int(level) else "false"  # Originally a level.
    return found


def unused(environ: Mapping[str, str]) -> dict[str, str]:
    """Return variables that are set without effect, with the reason."""
    found = {name: reason for name, reason in UNUSED.items() if name in environ}
    for original, name in ALIASES.items():
        if original in environ and environ.get(name, environ[original]) != environ[original]:
            found[original] = f"{name} is set and wins."
    return found
