"""How jobs are added and run: priority, backoff, rate, and what one says besides its data."""

import random
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import IntEnum
from typing import Any, Literal, TypedDict

import msgspec

from queen import errors
from queen.client.durations import seconds_of
from queen.wire.jobs import Link, RetryBackoff


class JobPriority(IntEnum):
    """Which job goes first; none starves another."""

    CRITICAL = 1
    HIGH = 2
    NORMAL = 3
    LOW = 4
    BACKGROUND = 5


class Backoff:
    """
    How long a job waits before its next attempt.

    Usage::

        Backoff("fixed", delay="5s")
        Backoff("exponential", delay="2s", max="10m")
    """

    __slots__ = ("wire",)

    def __init__(
        self,
        type: Literal["fixed", "exponential"] = "exponential",
        *,
        delay: float | str = 1.0,
        factor: float = 2.0,
        max: float | str = "1h",
        jitter: float = 0.2,
    ) -> None:
        wire = RetryBackoff(
            type=type,
            delay_seconds=seconds_of(delay),
            factor=factor,
            max_seconds=seconds_of(max),
            jitter=jitter,
        )
        try:
            # The struct checks what it is decoded from, not what it is made of.
            self.wire = msgspec.convert(msgspec.to_builtins(wire), RetryBackoff)
        except msgspec.ValidationError as error:
            raise errors.BadRequest(f"this is no backoff: {error}") from error

    def __call__(self, attempt: int) -> float:
        """Seconds after an attempt that failed; 1 is the first."""
        return delay_of(self.wire, attempt)


BackoffRule = Backoff | Callable[[int], float]
"""A backoff, or a function of one's own: from the attempt that failed to seconds."""


def delay_of(backoff: RetryBackoff, attempt: int) -> float:
    """Seconds to wait after an attempt that failed."""
    delay = backoff.delay_seconds
    if backoff.type == "exponential":
        try:
            delay *= backoff.factor ** (attempt - 1)
        except OverflowError:
            delay = backoff.max_seconds
    return min(delay, backoff.max_seconds) * (1 - backoff.jitter * random.random())


class Rate:
    """
    At most so many jobs in any period, for all workers together.

    Usage::

        Rate(max=100, duration="1m")
        Rate(max=5, duration="1s", per="key")
    """

    __slots__ = ("duration_seconds", "max", "per")

    def __init__(
        self, *, max: int, duration: float | str, per: Literal["queue", "key"] = "queue"
    ) -> None:
        self.max = max
        self.duration_seconds = seconds_of(duration)
        self.per = per

    def option(self) -> dict[str, Any]:
        """The option of a queue that says this."""
        return {
            "max": self.max,
            "durationMillis": round(self.duration_seconds * 1000),
            "per": "partition" if self.per == "key" else "queue",
        }


class RunOptions(TypedDict, total=False):
    """How a job is run; what is not said is its processor's to say."""

    attempts: int
    backoff: Backoff
    timeout: float | str
    result_ttl: float | str
    """For how long its result is kept; a day if not said."""
    metadata: Mapping[str, Any]
    correlation_id: str
    tags: Sequence[str]


class LinkOptions(RunOptions, total=False):
    """What a job of a chain may say."""

    priority: JobPriority
    delay: float | str
    unique: str
    key: str
    chain_to: Sequence[Link]


class JobOptions(LinkOptions, total=False):
    """What may be said when a job is added."""

    scheduled_at: datetime
    ttl: float | str
    """A job that waits longer than this is dropped."""


def metadata_of(options: Mapping[str, Any]) -> dict[str, Any] | None:
    """The metadata of a job: what it was given, its correlation id and its tags."""
    found: dict[str, Any] = dict(options.get("metadata") or {})
    if (correlation_id := options.get("correlation_id")) is not None:
        found["correlationId"] = correlation_id
    if (tags := options.get("tags")) is not None:
        found["tags"] = list(tags)
    return found or None


def running_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of running as the wire has them; what is not said is left out."""
    found: dict[str, Any] = {}
    if (attempts := options.get("attempts")) is not None:
        if attempts < 1:
            raise errors.BadRequest("a job has at least one attempt")
        found["attempts"] = attempts
    if (backoff := options.get("backoff")) is not None:
        if not isinstance(backoff, Backoff):
            raise errors.BadRequest("a function as backoff belongs to a processor, not to a job")
        found["backoff"] = backoff.wire
    for name, field in (("timeout", "timeout_seconds"), ("result_ttl", "result_seconds")):
        if (duration := options.get(name)) is not None:
            found[field] = seconds_of(duration)
    if (metadata := metadata_of(options)) is not None:
        found["metadata"] = metadata
    return found


def link_of(queue: str, name: str, data: object, options: Mapping[str, Any]) -> Link:
    """A job of a chain; ``data`` UNSET is the result of the one before."""
    from queen.client.payloads import encode

    found = running_of(options)
    for each in ("priority", "key", "unique"):
        if (value := options.get(each)) is not None:
            found[each] = int(value) if each == "priority" else value
    if (delay := options.get("delay")) is not None:
        found["delay_seconds"] = seconds_of(delay)
    return Link(
        queue=queue,
        name=name,
        data=msgspec.UNSET if data is msgspec.UNSET else encode(data),
        chain=tuple(options.get("chain_to") or ()),
        **found,
    )
