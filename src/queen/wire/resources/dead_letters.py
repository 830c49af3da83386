"""Dead letters: list, count by error, redrive, delete."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, field

from queen.wire.messages import Request, Wire
from queen.wire.resources.paging import Instant, Name, Text


class DeadLetterFilter(Request, frozen=True, kw_only=True):
    """A filter for the dead letters of a queue."""

    queue: Name | None = None
    consumer_group: Name | None = None
    partition: Name | None = None
    fingerprint: Name | None = None
    from_: Instant | None = field(default=None, name="from")
    to: Instant | None = None


class DeadLettersQuery(DeadLetterFilter, frozen=True, kw_only=True):
    """A page of dead letters."""

    sort: Literal["-failedAt", "failedAt"] = "-failedAt"
    limit: Annotated[int, Meta(ge=1)] | None = None
    cursor: Text | None = None
    reveal: bool = False


class PurgeLettersQuery(DeadLetterFilter, frozen=True, kw_only=True):
    """The dead letters to delete, or only to count."""

    dry_run: bool = False


class DeadLetter(Wire, frozen=True, kw_only=True):
    """A dead-lettered message, with its own copy of the payload."""

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
    """The error code that explains why ``data`` is null and headers are missing."""
    masked: bool = False
    """The message is encrypted and not revealed: ``data`` is null, and headers are missing."""
    headers: dict[str, str]
    trace_id: str | None
    created_at: datetime
    error_message: str | None
    reason: str
    fingerprint: str
    attempts: int
    failed_at: datetime


class DeadLetters(Wire, frozen=True, kw_only=True):
    """A page of dead letters; ``total`` is null above a limit."""

    messages: list[DeadLetter]
    next_cursor: str | None
    total: int | None


class ErrorsQuery(Request, frozen=True, kw_only=True):
    """The queue of the errors."""

    queue: Name


class ErrorKind(Wire, frozen=True, kw_only=True):
    """Dead letters whose errors differ only in numbers."""

    fingerprint: str
    reason: str
    sample: str | None
    count: int
    first_at: datetime
    last_at: datetime


class ErrorKinds(Wire, frozen=True, kw_only=True):
    """Kinds of errors among the newest dead letters, the most frequent first."""

    errors: list[ErrorKind]
    scanned: int
    complete: bool


class RedriveFilter(DeadLetterFilter, frozen=True, kw_only=True):
    """A filter, or a list of ids."""

    ids: list[Text] | None = None


class PurgeLettersRequest(Request, frozen=True, kw_only=True):
    """The dead letters to delete permanently."""

    filter: RedriveFilter
    dry_run: bool = False


class Destination(Request, frozen=True, kw_only=True):
    """The queue of the new messages."""

    queue: Name
    partition: Name = "Default"


class RedriveRequest(Request, frozen=True, kw_only=True):
    """Redeliver dead letters, or push them to a destination as new messages."""

    filter: RedriveFilter
    dry_run: bool = False
    rate_per_second: Annotated[float, Meta(gt=0, le=1_000_000)] | None = None
    destination: Destination | None = None


class Counted(Wire, frozen=True, kw_only=True):
    """The number of affected entries; a minimum if not all could be counted."""

    count: int
    complete: bool = True
