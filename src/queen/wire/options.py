"""Queue options: their names on the wire, and their columns."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, UnsetType

from queen.wire.messages import Request, Wire


class RateLimit(Request, frozen=True, kw_only=True):
    """The largest number of messages in any period, per group."""

    max: Annotated[int, Meta(ge=1, le=2**31 - 1)]
    duration_millis: Annotated[int, Meta(ge=16, le=2**31 - 1)]
    per: Literal["queue", "partition"] = "queue"

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> "RateLimit | None":
        """Read the rate limit of a queue; None if it has none."""
        if row["rate_max"] is None:
            return None
        return cls(max=row["rate_max"], duration_millis=row["rate_ms"], per=row["rate_per"])


class QueueOptions(Request, frozen=True, kw_only=True, omit_defaults=True):
    """Options of a queue. An absent option keeps its value, ``null`` resets it."""

    lease_time: Annotated[float, Meta(gt=0, le=43_200)] | UnsetType | None = UNSET
    retry_limit: Annotated[int, Meta(ge=0, le=1000)] | UnsetType | None = UNSET
    retry_delay: Annotated[int, Meta(ge=0, le=2**31 - 1)] | UnsetType | None = UNSET
    max_retry_delay: Annotated[int, Meta(ge=0, le=2**31 - 1)] | UnsetType | None = UNSET
    retry_backoff: Annotated[float, Meta(ge=1, le=100)] | UnsetType | None = UNSET
    priority: Annotated[int, Meta(ge=-1000, le=1000)] | UnsetType | None = UNSET
    delayed_processing: Annotated[float, Meta(ge=0, le=31_536_000)] | UnsetType | None = UNSET
    window_buffer: Annotated[float, Meta(ge=0, le=31_536_000)] | UnsetType | None = UNSET
    dlq_after_max_retries: bool | UnsetType | None = UNSET
    dead_letter_queue: bool | UnsetType | None = UNSET
    """Alias of dlqAfterMaxRetries."""
    max_size: Annotated[int, Meta(ge=0, le=2**62)] | UnsetType | None = UNSET
    ttl: Annotated[float, Meta(ge=0, le=315_360_000)] | UnsetType | None = UNSET
    dedup_window_seconds: Annotated[float, Meta(ge=0, le=2_678_400)] | UnsetType | None = UNSET
    ordered: bool | UnsetType | None = UNSET
    rate_limit: RateLimit | UnsetType | None = UNSET
    concurrency_limit: Annotated[int, Meta(ge=0, le=2**31 - 1)] | UnsetType | None = UNSET
    retention_enabled: bool | UnsetType | None = UNSET
    retention_seconds: Annotated[float, Meta(ge=0, le=3_153_600_000)] | UnsetType | None = UNSET
    completed_retention_seconds: (
        Annotated[float, Meta(ge=0, le=3_153_600_000)] | UnsetType | None
    ) = UNSET
    partition_retention_seconds: (
        Annotated[float, Meta(ge=0, le=3_153_600_000)] | UnsetType | None
    ) = UNSET
    max_wait_time_seconds: Annotated[float, Meta(ge=0, le=315_360_000)] | UnsetType | None = UNSET
    paused: bool | UnsetType | None = UNSET
    max_payload_bytes: Annotated[int, Meta(ge=1, le=2**31 - 1)] | UnsetType | None = UNSET
    schema: dict[str, Any] | bool | UnsetType | None = UNSET
    """JSON Schema 2020-12 for every payload. It cannot refer to other documents."""
    encryption_enabled: bool | UnsetType | None = UNSET
    """Payloads and headers are stored encrypted."""

    def columns(self) -> dict[str, Any]:
        """Return the changed columns; None for the default."""
        found: dict[str, Any] = {}
        for name, column in _COLUMNS.items():
            value = getattr(self, name)
            if value is not UNSET:
                found[column] = value
        if self.rate_limit is not UNSET:
            limit = self.rate_limit
            found["rate_max"] = limit and limit.max
            found["rate_ms"] = limit and limit.duration_millis
            found["rate_per"] = limit and limit.per
        return found

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> "QueueOptions":
        """Read all options of a queue."""
        found: dict[str, Any] = {name: plain(row[column]) for name, column in _COLUMNS.items()}
        found["dead_letter_queue"] = UNSET
        found["rate_limit"] = RateLimit.of_row(row)
        return cls(**found)


_RENAMED: Final = {
    "lease_time": "lease_seconds",
    "retry_delay": "retry_delay_ms",
    "max_retry_delay": "max_retry_delay_ms",
    "delayed_processing": "delay_seconds",
    "window_buffer": "window_seconds",
    "dead_letter_queue": "dead_letter",
    "dlq_after_max_retries": "dead_letter",
    "ttl": "ttl_seconds",
    "dedup_window_seconds": "dedup_seconds",
    "max_wait_time_seconds": "max_wait_seconds",
    "encryption_enabled": "encrypted",
}
"""Options whose columns have other names."""
_COLUMNS: Final = _RENAMED | {
    name: name for name in QueueOptions.__struct_fields__ if name not in {*_RENAMED, "rate_limit"}
}


def plain(value: Any) -> Any:  # noqa: ANN401 - of any column
    """Return 300 instead of 300.0, so that users see the value they set."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


class ConfigureRequest(Request, frozen=True, kw_only=True):
    """Create a queue or change its options."""

    queue: str
    namespace: str | None = None
    task: str | None = None
    partition: str | None = None
    """The partition to configure; only ``priority`` can be set then."""
    options: QueueOptions = QueueOptions()
    mode: Literal["merge", "replace"] = "merge"


class Configured(Wire, frozen=True, kw_only=True):
    """A queue with all its options."""

    configured: bool
    queue: str
    namespace: str
    task: str
    options: QueueOptions
    version: int
