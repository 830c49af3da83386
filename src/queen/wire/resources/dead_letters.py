"""Messages that gave up: found, counted by error, delivered again."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, field

from queen.wire.messages import Request, Wire
from queen.wire.resources.paging import Instant, Name, Text


class DeadLetterFilter(Request, frozen=True, kw_only=True):
    """Which dead letters of a queue."""

    queue: Name | None = None
    consumer_group: Name | None = None
    partition: Name | None = None
    fingerprint: Name | None = None
    from_: Instant | None = field(default=None, name="from")
    to: Instant | None = None


class DeadLettersQuery(DeadLetterFilter, frozen=True, kw_only=True):
    """A page of them."""

    sort: Literal["-failedAt", "failedAt"] = "-failedAt"
    limit: Annotated[int, Meta(ge=1)] | None = None
    cursor: Text | None = None
    reveal: bool = False


class PurgeLettersQuery(DeadLetterFilter, frozen=True, kw_only=True):
    """Which to remove, or only to count."""

    dry_run: bool = False


class DeadLetter(Wire, frozen=True, kw_only=True):
    """A message that gave up, with its own copy."""

    id: str
    message_id: str
    transaction_id: str
    queue: str
    partition: str
    partition_id: str
    offset: int
    priority: int
    consumer_group: str
    data: msgspec.Raw
    data_error: str | None = None
    """Why ``data`` is null, and there are no headers: the code of an error."""
    masked: bool = False
    """It is sealed and was not asked to be revealed: ``data`` is null, and there are no headers."""
    headers: dict[str, str]
    trace_id: str | None
    created_at: datetime
    error_message: str | None
    reason: str
    fingerprint: str
    attempts: int
    failed_at: datetime


class DeadLetters(Wire, frozen=True, kw_only=True):
    """A page of dead letters; ``total`` is null when there are very many."""

    messages: list[DeadLetter]
    next_cursor: str | None
    total: int | None


class ErrorsQuery(Request, frozen=True, kw_only=True):
    """Of which queue."""

    queue: Name


class ErrorKind(Wire, frozen=True, kw_only=True):
    """Dead letters whose errors differ in figures alone."""

    fingerprint: str
    reason: str
    sample: str | None
    count: int
    first_at: datetime
    last_at: datetime


class ErrorKinds(Wire, frozen=True, kw_only=True):
    """The most frequent first, out of the newest dead letters."""

    errors: list[ErrorKind]
    scanned: int
    complete: bool


class RedriveFilter(DeadLetterFilter, frozen=True, kw_only=True):
    """By what they have in common, or by their ids."""

    ids: list[Text] | None = None


class PurgeLettersRequest(Request, frozen=True, kw_only=True):
    """Remove them for ever."""

    filter: RedriveFilter
    dry_run: bool = False


class Destination(Request, frozen=True, kw_only=True):
    """Where new messages go."""

    queue: Name
    partition: Name = "Default"


class RedriveRequest(Request, frozen=True, kw_only=True):
    """Deliver again; with a destination as new messages there."""

    filter: RedriveFilter
    dry_run: bool = False
    rate_per_second: Annotated[float, Meta(gt=0, le=1_000_000)] | None = None
    destination: Destination | None = None


class Counted(Wire, frozen=True, kw_only=True):
    """How many it concerns; at least so many, where not all could be looked at."""

    count: int
    complete: bool = True
