"""Queue options: their names on the wire, and their columns."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, UnsetType

from queen.wire.messages import Manager, Request, Wire


class RateLimit(Request, frozen=True, kw_only=True):
    """The largest number of messages in any period, per group."""

    max: Annotated[int, Meta(ge=1, le=2**31 - 1)]
    """Largest number of messages in any period of `durationMillis`."""
    duration_millis: Annotated[int, Meta(ge=16, le=2**31 - 1)]
    """Length of the period in milliseconds, at least 16."""
    per: Literal["queue", "partition"] = "queue"
    """Whether the limit applies to the whole `queue` (default) or to each `partition`."""

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> "RateLimit | None":
        """Read the rate limit of a queue; None if it has none."""
        if row["rate_max"] is None:
            return None
        return cls(max=row["rate_max"], duration_millis=row["rate_ms"], per=row["rate_per"])


class QueueOptions(Request, frozen=True, kw_only=True, omit_defaults=True):
    """Options of a queue. An absent option keeps its value, ``null`` resets it."""

    lease_time: Annotated[float, Meta(gt=0, le=43_200)] | UnsetType | None = UNSET
    """Lease time of a delivery in seconds. Default: 300."""
    retry_limit: Annotated[int, Meta(ge=0, le=1000)] | UnsetType | None = UNSET
    """Retries after the first attempt. Default: 3."""
    retry_delay: Annotated[int, Meta(ge=0, le=2**31 - 1)] | UnsetType | None = UNSET
    """Delay before the first retry in milliseconds. Default: 1000."""
    max_retry_delay: Annotated[int, Meta(ge=0, le=2**31 - 1)] | UnsetType | None = UNSET
    """Longest delay before a retry in milliseconds. Default: 300000."""
    retry_backoff: Annotated[float, Meta(ge=1, le=100)] | UnsetType | None = UNSET
    """Factor by which the delay grows with each attempt. Default: 2."""
    priority: Annotated[int, Meta(ge=-1000, le=1000)] | UnsetType | None = UNSET
    """Order of queues in a pop across a namespace or task, higher first. With `partition` in the
    request, the priority of that partition. Default: 0."""
    delayed_processing: Annotated[float, Meta(ge=0, le=31_536_000)] | UnsetType | None = UNSET
    """Seconds between the push of a message and its delivery. Default: 0."""
    window_buffer: Annotated[float, Meta(ge=0, le=31_536_000)] | UnsetType | None = UNSET
    """Seconds between the first undelivered message of a partition and its delivery. Default: 0."""
    dlq_after_max_retries: bool | UnsetType | None = UNSET
    """Keep messages with exhausted retries as dead letters; false drops them. Default: true."""
    dead_letter_queue: bool | UnsetType | None = UNSET
    """Alias of `dlqAfterMaxRetries`."""
    max_size: Annotated[int, Meta(ge=0, le=2**62)] | UnsetType | None = UNSET
    """Reject pushes while the slowest group has this many unacknowledged messages. Default: 0, no
    limit."""
    ttl: Annotated[float, Meta(ge=0, le=315_360_000)] | UnsetType | None = UNSET
    """Age in seconds at which messages expire, counted from when they are available. Default: 0,
    never."""
    dedup_window_seconds: Annotated[float, Meta(ge=0, le=2_678_400)] | UnsetType | None = UNSET
    """Seconds for which a `transactionId` is remembered. Default: 86400; 0 turns deduplication
    off."""
    ordered: bool | UnsetType | None = UNSET
    """Deliver each partition in order, under one lease per group. False allows many leases per
    partition. Default: true."""
    rate_limit: RateLimit | UnsetType | None = UNSET
    """Largest number of messages per period, for each group. Default: null, no limit."""
    concurrency_limit: Annotated[int, Meta(ge=0, le=2**31 - 1)] | UnsetType | None = UNSET
    """Largest number of leased deliveries per group. Default: 0, no limit."""
    retention_enabled: bool | UnsetType | None = UNSET
    """Turn on `retentionSeconds` and `completedRetentionSeconds`. Default: false."""
    retention_seconds: Annotated[float, Meta(ge=0, le=3_153_600_000)] | UnsetType | None = UNSET
    """Age in seconds at which messages are deleted, acknowledged or not. Default: 0, never."""
    completed_retention_seconds: (
        Annotated[float, Meta(ge=0, le=3_153_600_000)] | UnsetType | None
    ) = UNSET
    """Age in seconds at which messages are deleted if every group has acknowledged them. Default:
    0, never."""
    partition_retention_seconds: (
        Annotated[float, Meta(ge=0, le=3_153_600_000)] | UnsetType | None
    ) = UNSET
    """Seconds without a push after which an empty partition is deleted. Default: 0, the server's
    `PARTITION_CLEANUP_DAYS`."""
    max_wait_time_seconds: Annotated[float, Meta(ge=0, le=315_360_000)] | UnsetType | None = UNSET
    """Seconds after which an undelivered message is dead-lettered as `evicted`. Default: 0,
    never."""
    paused: bool | UnsetType | None = UNSET
    """Stop deliveries; pushes continue. Default: false."""
    max_payload_bytes: Annotated[int, Meta(ge=1, le=2**31 - 1)] | UnsetType | None = UNSET
    """Largest payload in bytes. Default: null, the limit of the server."""
    schema: dict[str, Any] | bool | UnsetType | None = UNSET
    """JSON Schema 2020-12 that every payload must match. It cannot refer to other documents.
    Default: null."""
    encryption_enabled: bool | UnsetType | None = UNSET
    """Store payloads and headers encrypted, from the next push on. Default: false."""
    managed_by: Manager | UnsetType | None = UNSET
    """Name of the configuration that owns the queue. `queen apply` sets it. Default: null."""

    placement: Literal["home", "spread"] | UnsetType | None = UNSET
    """Where the partitions are, if there are several databases: all in one (`home`), or each by its
    name in any (`spread`). Fixed when the queue is created. Default: `home`."""

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


def columns_of_options() -> dict[str, str]:
    """Return the columns of the options; a rate limit is stored in three columns."""
    return dict(_COLUMNS)


def plain(value: Any) -> Any:  # noqa: ANN401 - of any column
    """Return 300 instead of 300.0, so that users see the value they set."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


class ConfigureRequest(Request, frozen=True, kw_only=True):
    """Create a queue or change its options."""

    queue: str
    """Name of the queue, 1 to 255 bytes."""
    namespace: str | None = None
    """Namespace of the queue. Default: unchanged, or empty for a new queue."""
    task: str | None = None
    """Task of the queue. Default: unchanged, or empty for a new queue."""
    partition: str | None = None
    """Name of a partition to configure instead of the queue. It only has the option `priority`."""
    options: QueueOptions = QueueOptions()
    """Options to set. Default: none."""
    mode: Literal["merge", "replace"] = "merge"
    """`merge` (default) keeps absent options unchanged, `replace` resets them to their defaults."""


class QueueConfiguration(Wire, frozen=True, kw_only=True):
    """A queue with all its options."""

    queue: str
    """Name of the queue."""
    namespace: str
    """Namespace of the queue; empty if it has none."""
    task: str
    """Task of the queue; empty if it has none."""
    options: QueueOptions
    """All options of the queue, as they are in force."""
    version: int
    """Version of the configuration, which rises with each change. Send it as `If-Match`."""


class Configured(QueueConfiguration, frozen=True, kw_only=True):
    """A queue that was created or changed, with all its options."""

    configured: bool
    """Always true."""
