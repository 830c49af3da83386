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
    """Name of the queue. Required to delete or redrive by filter."""
    consumer_group: Name | None = None
    """Only dead letters of this group. In queue mode the group is `__QUEUE_MODE__`."""
    partition: Name | None = None
    """Only dead letters of this partition."""
    fingerprint: Name | None = None
    """Only dead letters with this error fingerprint, as listed by `GET /dlq/errors`."""
    from_: Instant | None = field(default=None, name="from")
    """Only messages that were dead-lettered at this time or later."""
    to: Instant | None = None
    """Only messages that were dead-lettered before this time."""


class DeadLettersQuery(DeadLetterFilter, frozen=True, kw_only=True):
    """A filter and an order of dead letters."""

    sort: Literal["-failedAt", "failedAt"] = "-failedAt"
    """`-failedAt` (default) lists the newest first, `failedAt` the oldest."""
    limit: Annotated[int, Meta(ge=1)] | None = None
    """Largest number of entries on the page, by default at most 1,000; higher values are lowered.
    Default: 100."""
    cursor: Text | None = None
    """The `nextCursor` of the previous page. Default: the start of the list."""
    reveal: bool = False
    """Whether to decrypt payloads of an encrypted queue. Requires `queue` and the permission
    `consume`, and is recorded in the audit log. Default: false."""


class PurgeLettersQuery(DeadLetterFilter, frozen=True, kw_only=True):
    """The dead letters to delete, or only to count."""

    dry_run: bool = False
    """Whether to only count the matching dead letters. Default: false."""


class DeadLetter(Wire, frozen=True, kw_only=True):
    """A dead-lettered message, with its own copy of the payload."""

    id: str
    """Id of the dead letter."""
    message_id: str
    """Id of the message."""
    transaction_id: str
    """The `transactionId` of the push; without one, the same as `messageId`."""
    queue: str
    """Name of the queue."""
    partition: str
    """Name of the partition."""
    partition_id: str
    """Id of the partition."""
    offset: int
    """Position of the message in its partition, starting at 0."""
    priority: int
    """Priority of the message, 0 to 9."""
    consumer_group: str
    """Group that failed to process the message; `__QUEUE_MODE__` in queue mode."""
    data: msgspec.Raw
    """Payload of the message."""
    data_error: str | None = None
    """Error code that explains why `data` is null and headers are missing; otherwise null."""
    masked: bool = False
    """True if the message is encrypted and not revealed: `data` is null, and headers are
    missing."""
    headers: dict[str, str]
    """Headers of the message by name; empty if it has none."""
    trace_id: str | None
    """Id of the trace that the message belongs to; null if it has none."""
    created_at: datetime
    """Time when the message was stored."""
    error_message: str | None
    """Error of the last attempt; null if the consumer gave none."""
    reason: str
    """`failed` or `expired`: retries exhausted after a failure or an expired lease. `dead`:
    dead-lettered on request. `evicted`: waited longer than `maxWaitTimeSeconds`."""
    fingerprint: str
    """Hash of the reason and the error without numbers. Equal errors have equal fingerprints."""
    attempts: int
    """Number of delivery attempts."""
    failed_at: datetime
    """Time when the message was dead-lettered."""


class DeadLetters(Wire, frozen=True, kw_only=True):
    """A page of dead letters, newest first by default."""

    messages: list[DeadLetter]
    """Dead letters of this page."""
    next_cursor: str | None
    """Cursor of the next page; null at the end of the list."""
    total: int | None
    """Number of matching dead letters; null without `queue`, or if the queue has more than
    10,000."""


class ErrorsQuery(Request, frozen=True, kw_only=True):
    """The queue of the errors."""

    queue: Name
    """Name of the queue."""


class ErrorKind(Wire, frozen=True, kw_only=True):
    """Dead letters whose errors differ only in numbers."""

    fingerprint: str
    """Hash of the reason and the error without numbers."""
    reason: str
    """`failed` or `expired`: retries exhausted after a failure or an expired lease. `dead`:
    dead-lettered on request. `evicted`: waited longer than `maxWaitTimeSeconds`."""
    sample: str | None
    """Error of one of these dead letters; null if it has none."""
    count: int
    """Number of dead letters."""
    first_at: datetime
    """Time of the oldest of these dead letters."""
    last_at: datetime
    """Time of the newest of these dead letters."""


class ErrorKinds(Wire, frozen=True, kw_only=True):
    """Kinds of errors among the newest dead letters, the most frequent first."""

    errors: list[ErrorKind]
    """Kinds of errors."""
    scanned: int
    """Number of dead letters that were scanned, at most 100,000."""
    complete: bool
    """True if all dead letters of the queue were scanned."""


class RedriveFilter(DeadLetterFilter, frozen=True, kw_only=True):
    """A filter, or a list of ids."""

    ids: list[Text] | None = None
    """Ids of dead letters, at most 10,000 by default. Excludes all other filters."""


class PurgeLettersRequest(Request, frozen=True, kw_only=True):
    """The dead letters to delete permanently."""

    filter: RedriveFilter
    """Which dead letters to delete."""
    dry_run: bool = False
    """Whether to only count the matching dead letters. Default: false."""


class Destination(Request, frozen=True, kw_only=True):
    """The queue of the new messages."""

    queue: Name
    """Name of the queue, which must exist."""
    partition: Name = "Default"
    """Name of the partition, created if it does not exist. Default: `Default`."""


class RedriveRequest(Request, frozen=True, kw_only=True):
    """Redeliver dead letters, or push them to a destination as new messages."""

    filter: RedriveFilter
    """Which dead letters to redrive."""
    dry_run: bool = False
    """Whether to only count the matching dead letters. Default: false."""
    rate_per_second: Annotated[float, Meta(gt=0, le=1_000_000)] | None = None
    """Largest number of dead letters to redrive per second. Default: no limit."""
    destination: Destination | None = None
    """Queue that receives them as new messages. Default: back to the group that failed them."""


class Counted(Wire, frozen=True, kw_only=True):
    """The number of affected entries; a minimum if not all could be counted."""

    count: int
    """Number of dead letters or messages; a minimum if `complete` is false."""
    complete: bool = True
    """False if there were too many to count all of them."""
