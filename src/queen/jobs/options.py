"""Options for adding and running jobs: priority, backoff, rate limit and metadata."""

import random
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Any, Final, Literal, TypedDict

import msgspec

from queen import errors
from queen.client.durations import (
    KEPT_SECONDS,
    LONG_SECONDS,
    SHORT_SECONDS,
    Duration,
    seconds_of,
)
from queen.wire.jobs import Link, RetryBackoff

_DURATIONS: Final = (
    ("timeout", "timeout_seconds", LONG_SECONDS),
    ("result_ttl", "result_seconds", KEPT_SECONDS),
)


class JobPriority(IntEnum):
    """The order of jobs. Low priorities still get their turn."""

    CRITICAL = 1
    """Before all others."""
    HIGH = 2
    """For users who wait."""
    NORMAL = 3
    """The default."""
    LOW = 4
    """After normal jobs."""
    BACKGROUND = 5
    """After all others."""


class Backoff:
    """
    The delay before the next attempt of a job.

    Usage::

        Backoff("fixed", delay="5s")
        Backoff("exponential", delay="2s", max="10m")
    """

    __slots__ = ("wire",)

    def __init__(
        self,
        type: Literal["fixed", "exponential"] = "exponential",
        *,
        delay: Duration = 1.0,
        factor: float = 2.0,
        max: Duration = "1h",
        jitter: float = 0.2,
    ) -> None:
        wire = RetryBackoff(
            type=type,
            delay_seconds=seconds_of(delay, "delay", most=SHORT_SECONDS),
            factor=factor,
            max_seconds=seconds_of(max, "max", most=LONG_SECONDS),
            jitter=jitter,
        )
        try:
            # Structs check their fields when they are decoded, not when they are created.
            self.wire = msgspec.convert(msgspec.to_builtins(wire), RetryBackoff)
            """The backoff as it is sent to the server."""
        except msgspec.ValidationError as error:
            raise errors.BadRequest(f"invalid backoff: {error}") from error

    @classmethod
    def of(cls, given: "Backoff | Mapping[str, Any]") -> "Backoff":
        """Convert a mapping of other job queues, whose plain numbers are milliseconds."""
        if isinstance(given, Backoff):
            return given
        members = dict(given)
        for name in ("delay", "max"):
            if isinstance(value := members.get(name), int | float):
                members[name] = timedelta(milliseconds=value)
            if (value := members.pop(f"{name}Seconds", None)) is not None:
                members[name] = timedelta(seconds=value)
        try:
            return cls(**members)
        except TypeError as error:
            raise errors.BadRequest(
                f"invalid backoff {dict(given)!r}: {error}. Write Backoff('exponential',"
                " delay='2s'), or a mapping with 'type' and 'delay' in milliseconds."
            ) from error

    def __call__(self, attempt: int) -> float:
        """Return the seconds to wait after a failed attempt. 1 is the first attempt."""
        return delay_of(self.wire, attempt)


BackoffRule = Backoff | Callable[[int], float]
"""A backoff, or a function from the number of the failed attempt to seconds."""


def rule_of(given: BackoffRule | Mapping[str, Any]) -> BackoffRule:
    """Return the backoff of a processor."""
    return given if callable(given) else Backoff.of(given)


def delay_of(backoff: RetryBackoff, attempt: int) -> float:
    """Return the seconds to wait after a failed attempt."""
    delay = backoff.delay_seconds
    if backoff.type == "exponential":
        try:
            delay *= backoff.factor ** (attempt - 1)
        except OverflowError:
            delay = backoff.max_seconds
    return min(delay, backoff.max_seconds) * (1 - backoff.jitter * random.random())


class Rate:
    """
    A limit of jobs per period, for all workers together.

    Usage::

        Rate(max=100, duration="1m")
        Rate(max=5, duration="1s", per="key")
    """

    __slots__ = ("duration_seconds", "max", "per")

    def __init__(
        self, *, max: int, duration: Duration, per: Literal["queue", "key"] = "queue"
    ) -> None:
        self.max = max
        """The number of jobs per period."""
        self.duration_seconds = seconds_of(duration, "duration", most=SHORT_SECONDS)
        """The period in seconds."""
        self.per = per
        """``queue``, or ``key`` for a separate limit per key."""

    @classmethod
    def of(cls, given: "Rate | Mapping[str, Any]") -> "Rate":
        """Convert a mapping of other job queues, whose plain numbers are milliseconds."""
        if isinstance(given, Rate):
            return given
        members = dict(given)
        if isinstance(duration := members.get("duration"), int | float):
            members["duration"] = timedelta(milliseconds=duration)
        try:
            return cls(**members)
        except TypeError as error:
            raise errors.BadRequest(
                f"invalid rate limit {dict(given)!r}: {error}. Write Rate(max=100,"
                " duration='1m'), or a mapping with 'max' and 'duration' in milliseconds."
            ) from error

    def option(self) -> dict[str, Any]:
        """Return the queue option for this rate."""
        return {
            "max": self.max,
            "durationMillis": round(self.duration_seconds * 1000),
            "per": "partition" if self.per == "key" else "queue",
        }


class RunOptions(TypedDict, total=False):
    """How a job is run. The processor has the defaults."""

    attempts: int
    """Number of attempts before the job fails. Default: 3."""
    backoff: Backoff | Mapping[str, Any]
    """Delay before the next attempt."""
    timeout: Duration
    """Time limit of one attempt."""
    result_ttl: Duration
    """How long its result is kept. Default: a day."""
    metadata: Mapping[str, Any]
    """Your own fields, which the processor receives."""
    correlation_id: str
    """An id that connects related jobs."""
    tags: Sequence[str]
    """Words by which you can find the job."""


class LinkOptions(RunOptions, total=False):
    """Options of a job in a chain."""

    priority: JobPriority
    """Order among waiting jobs. Default: NORMAL."""
    delay: Duration
    """Time before the job can start."""
    unique: str
    """Name under which the job is added only once."""
    key: str
    """The partition, for example a tenant. Limits per key count by it."""
    chain_to: Sequence[Link | Mapping[str, Any]]
    """Jobs that are added when this one completes. They receive its result."""


class JobOptions(LinkOptions, total=False):
    """Options for adding a job."""

    scheduled_at: datetime
    """Time at which the job can start."""
    ttl: Duration
    """Time until a waiting job expires."""


class ProcessorOptions(TypedDict, total=False):
    """How a processor runs its jobs."""

    attempts: int
    backoff: BackoffRule | Mapping[str, Any] | None
    timeout: Duration | None
    result_ttl: Duration | None
    process: bool
    """Run a plain function in its own process instead of a thread."""


def metadata_of(options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the metadata of a job, with its correlation id and tags."""
    found: dict[str, Any] = dict(options.get("metadata") or {})
    if (correlation_id := options.get("correlation_id")) is not None:
        found["correlationId"] = correlation_id
    if (tags := options.get("tags")) is not None:
        found["tags"] = list(tags)
    return found or None


def durations_of(options: Mapping[str, Any]) -> dict[str, float]:
    """Return the durations of the run options, with the names of the wire."""
    return {
        field: seconds_of(duration, name, most=most)
        for name, field, most in _DURATIONS
        if (duration := options.get(name)) is not None
    }


def running_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the run options with the names of the wire, without options that are not set."""
    found: dict[str, Any] = {}
    if (attempts := options.get("attempts")) is not None:
        if attempts < 1:
            raise errors.BadRequest("a job has at least one attempt")
        found["attempts"] = attempts
    if (backoff := options.get("backoff")) is not None:
        if callable(backoff) and not isinstance(backoff, Backoff):
            raise errors.BadRequest(
                "A job cannot have a function as its backoff, because it is stored as JSON."
                " Give the function to the processor, or give the job a Backoff."
            )
        found["backoff"] = Backoff.of(backoff).wire
    found.update(durations_of(options))
    if (metadata := metadata_of(options)) is not None:
        found["metadata"] = metadata
    return found
