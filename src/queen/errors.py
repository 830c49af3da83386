"""
Every error Queen raises on purpose.

* QueenError
  x ApiError                refused; ``problem`` is what the server said, if it was asked
    RequestError            the caller must change something; nothing was applied
    + BadRequest
    + InvalidName
    + InvalidOption
    + InvalidItem
    + InvalidStatus
    + PayloadTooLarge
    + TooManyItems
    + NotFound
      - QueueNotFound
      - PartitionNotFound
      - GroupNotFound
      - MessageNotFound
      - WorkflowNotFound
    + Conflict              the state of things is against it
      - LeaseLost           the messages are with another consumer now
      - AlreadySettled
      - AmbiguousMessage
      - Duplicate
      - DutyLost            of upkeep: another process has it now
      - SequenceReused
      - SequenceStale
      - SubscriptionConflict
      - VersionMismatch
      - NotRetryable
      - WorkflowExists
      - WorkflowRunning
    + InvalidWorkflow       it is not one that could run
    + BadSettings           this process cannot start as it is configured
    + Unauthorized
    + Forbidden
      - Masked              a payload is sealed, and was not asked to be revealed
    + OriginRefused
    + NoSuchRoute
    + MethodNotAllowed
    + UnsupportedMediaType
    + HeadersTooLarge
    + BodyTooLarge
    + SchemaViolation
    + CrossShard
    ServiceError            nothing was applied; the same call may succeed later
    + RequestTimeout
    + QueueFull
    + TooManyWaiters
    + TooManyBytes
    + RateLimited
    + Overloaded
    + Draining
    + DatabaseUnavailable
    + EncryptionUnavailable
    + MessagesDamaged       stored messages cannot be decoded
    + DatabaseUnsafe
    + BufferFull            of a client: its buffers hold as much as they may
    + ServerUnreachable     of a client: no server answers; a TransportError too
  x OutcomeUnknown          perhaps applied: repeat only what is idempotent
    + ConnectionLost        of a client: no answer came; a TransportError too
  x TransportError          of a client: the network, or whoever is at its other end
  x UndecodablePayload      of a client: a message is not what its consumer's type says
  x PushError               of a client: not everything is stored; says what is
  x WorkflowFailed          of a client: the workflow whose result was asked for did not complete
  x JobFailed               of a client: the job whose result was asked for is a dead letter
  x JobCancelled            of a client: the job whose result was asked for was cancelled
  x DataLost                of a pipeline: what it was still to read is gone
  x LakeDiverged            of a pipeline: the lake and the ledger tell different stories
"""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple


class QueenError(Exception):
    """The root: whatever Queen raises on purpose can be caught by this."""

    code: ClassVar[str] = "internal"
    http_status: ClassVar[int] = 500
    applied: ClassVar[bool | None] = None
    sqlstates: ClassVar[tuple[str, ...]] = ()
    """SQLSTATEs that mean this error; beginnings will do."""

    def __init__(self, message: object = "", **members: Any) -> None:  # noqa: ANN401 - as JSON has it
        super().__init__(message)
        self.members = members
        """What the answer says besides: ``settled``, ``failed_index``, ``retry_after`` …"""

    @property
    def problem(self) -> Any:  # noqa: ANN401 - of `queen.wire`, which is not known here
        """The server's problem document (RFC 9457); None if no server said this."""
        return self.members.get("problem")

    @property
    def retry_after(self) -> float | None:
        """Seconds after which the server wants to be asked again."""
        return self.members.get("retry_after")


class ApiError(QueenError):
    """Refused, by a server or before one was asked: nothing was applied."""

    code = "refused"
    applied = False


class RequestError(ApiError):
    """The caller must change something; nothing was applied."""

    code = "bad_request"
    http_status = 400
    applied = False


class BadRequest(RequestError):
    """The request does not have the form it must have."""


class InvalidName(RequestError):
    """A name is too long or has characters that names cannot have."""

    code = "invalid_name"
    sqlstates = ("QN015",)


class InvalidOption(RequestError):
    """A queue has no such option, or not this value of it."""

    code = "invalid_option"
    sqlstates = ("QN006", "23514", "23502")


class InvalidItem(RequestError):
    """One item of a push cannot be stored as it is."""

    code = "invalid_item"
    http_status = 422
    sqlstates = ("QN014",)


class InvalidStatus(RequestError):
    """An acknowledgment says something other than completed, failed, retry or dlq."""

    code = "invalid_status"


class PayloadTooLarge(RequestError):
    """A payload is larger than the queue or the server allows."""

    code = "payload_too_large"
    http_status = 413


class TooManyItems(RequestError):
    """A request carries more than one request may."""

    code = "too_many_items"
    http_status = 413


class NotFound(RequestError):
    """There is no such thing: a key, an operation, a dead letter, or what a subclass names."""

    code = "not_found"
    http_status = 404


class QueueNotFound(NotFound):
    """There is no queue of this name."""

    code = "queue_not_found"
    http_status = 404
    sqlstates = ("QN001",)


class PartitionNotFound(NotFound):
    """The queue has no partition of this name, or it has been removed."""

    code = "partition_not_found"
    http_status = 404
    sqlstates = ("QN004",)


class GroupNotFound(NotFound):
    """The queue has no group of this name."""

    code = "group_not_found"
    http_status = 404
    sqlstates = ("QN003",)


class MessageNotFound(NotFound):
    """The message is not out with this group, or does not exist."""

    code = "message_not_found"
    http_status = 404


class WorkflowNotFound(NotFound):
    """There is no workflow with this id, or no such step in it."""

    code = "workflow_not_found"
    http_status = 404
    sqlstates = ("QN020",)


class Conflict(RequestError):
    """The state of things is against it: look again before you repeat it."""

    code = "conflict"
    http_status = 409


class LeaseLost(Conflict):
    """The lease is over: its messages are settled, or another consumer has them or will."""

    code = "lease_lost"
    http_status = 409
    sqlstates = ("QN002",)


class AlreadySettled(Conflict):
    """The message was settled before, or was not handed out with this lease."""

    code = "already_settled"
    http_status = 409
    sqlstates = ("QN010",)


class AmbiguousMessage(Conflict):
    """Several messages that are out have this transactionId; say which partition."""

    code = "ambiguous_message"
    http_status = 409


class Duplicate(Conflict):
    """A transactionId of the transaction is known, and the caller asked to roll back then."""

    code = "duplicate"
    http_status = 409


class DutyLost(Conflict):
    """Another process has this duty of upkeep by now; no server answers with it."""

    code = "duty_lost"
    http_status = 409
    sqlstates = ("QN016",)


class SequenceReused(Conflict):
    """The producer has used this sequence number for a request with other contents."""

    code = "sequence_reused"
    http_status = 409


class SequenceStale(Conflict):
    """The producer has used a higher sequence number already."""

    code = "sequence_stale"
    http_status = 409
    sqlstates = ("QN009",)


class SubscriptionConflict(Conflict):
    """The group was made with another start; seek moves a group that exists."""

    code = "subscription_conflict"
    http_status = 409
    sqlstates = ("QN005",)


class VersionMismatch(Conflict):
    """The queue has been configured since the version that the caller saw."""

    code = "version_mismatch"
    http_status = 412
    sqlstates = ("QN007",)


class BadSettings(RequestError):
    """A setting is unknown or has a value that it cannot have: the process does not start."""

    code = "bad_settings"


class Unauthorized(RequestError):
    """The call carries no key or token, or one that is not valid."""

    code = "unauthorized"
    http_status = 401


class Forbidden(RequestError):
    """The caller may not do this here."""

    code = "forbidden"
    http_status = 403


class Masked(Forbidden):
    """What is sealed was not asked to be revealed, and is not searched either."""

    code = "masked"


class OriginRefused(RequestError):
    """A browser sent this from another site's page, or under another host name."""

    code = "origin_refused"
    http_status = 403


class NoSuchRoute(RequestError):
    """There is nothing under this path."""

    code = "no_such_route"
    http_status = 404


class MethodNotAllowed(RequestError):
    """The path exists, and this method does not go with it."""

    code = "method_not_allowed"
    http_status = 405


class UnsupportedMediaType(RequestError):
    """The body is not said to be application/json, or is encoded in a way that is not known."""

    code = "unsupported_media_type"
    http_status = 415


class HeadersTooLarge(RequestError):
    """The HTTP headers are larger than the server allows."""

    code = "headers_too_large"
    http_status = 431


class BodyTooLarge(RequestError):
    """The body, inflated, is larger than the server allows."""

    code = "body_too_large"
    http_status = 413


class NotRetryable(Conflict):
    """The message neither waits for its next attempt nor is dead; or a workflow has not failed."""

    code = "not_retryable"
    http_status = 409
    sqlstates = ("QN022",)


class WorkflowExists(Conflict):
    """Another workflow was started with this id."""

    code = "workflow_exists"
    http_status = 409
    sqlstates = ("QN021",)


class WorkflowRunning(Conflict):
    """The workflow has not ended: cancel it, or wait for it."""

    code = "workflow_running"
    http_status = 409
    sqlstates = ("QN023",)


class InvalidWorkflow(RequestError):
    """The steps of a workflow do not make one that could run; the text says which and why."""

    code = "invalid_workflow"
    http_status = 422


class CrossShard(RequestError):
    """A transaction names something of another shard: it is applied in one database or in none."""

    code = "cross_shard"
    http_status = 422


class SchemaViolation(RequestError):
    """The payload is not what the queue's schema asks for."""

    code = "schema_violation"
    http_status = 422


class ServiceError(ApiError):
    """Nothing was applied; the same call may succeed later."""

    code = "overloaded"
    http_status = 503
    applied = False


class RequestTimeout(ServiceError):
    """The client took too long to send its request: it was not read to its end."""

    code = "request_timeout"
    http_status = 408


class QueueFull(ServiceError):
    """The slowest group has as many messages to settle as the queue's maxSize allows."""

    code = "queue_full"
    http_status = 429


class TooManyWaiters(ServiceError):
    """This process has as many waiting pops as it may."""

    code = "too_many_waiters"
    http_status = 429


class TooManyBytes(ServiceError):
    """The requests in progress, or their unread responses, use all the memory they may."""

    code = "too_many_bytes"
    http_status = 429


class RateLimited(ServiceError):
    """The caller's key allows fewer requests a second, or its address has too many connections."""

    code = "rate_limited"
    http_status = 429


class Overloaded(ServiceError):
    """This process has as much to do as it may take on, or a lock took too long."""

    sqlstates = ("55P03", "57014", "40001", "40P01")


class Draining(ServiceError):
    """This process is stopping and takes no new work."""

    code = "draining"


class DatabaseUnavailable(ServiceError):
    """The database could not be reached, or has no room; nothing was applied."""

    code = "database_unavailable"
    sqlstates = ("53", "57P03", "25006")


class EncryptionUnavailable(ServiceError):
    """This server lacks the key of an encrypted queue, or a payload is not what was sealed."""

    code = "encryption_unavailable"
    sqlstates = ("QN017",)


class MessagesDamaged(ServiceError):
    """Stored messages cannot be decoded. They are set aside, and all others are delivered."""

    code = "messages_damaged"


class DatabaseUnsafe(ServiceError):
    """The database would lose what it confirms: fsync or full_page_writes is off."""

    code = "database_unavailable"


class BufferFull(ServiceError):
    """The buffers of a client hold as much as they may, and the push was not to wait."""

    code = "buffer_full"


class OutcomeUnknown(QueenError):
    """The connection was lost after the call had been sent: perhaps it was applied."""

    code = "outcome_unknown"
    http_status = 503
    sqlstates = ("08", "57P")


class TransportError(QueenError):
    """The network, or whoever is at its other end; says nothing about what was applied."""

    code = "transport_error"


class ServerUnreachable(ServiceError, TransportError):
    """No server answers at the address: nothing was sent."""

    code = "server_unreachable"


class ConnectionLost(OutcomeUnknown, TransportError):
    """The request was sent and no answer came, in time or at all: perhaps it was applied."""

    code = "connection_lost"
    sqlstates = ()


class UndecodablePayload(QueenError):
    """A payload is not what the consumer's type says; the text names the place."""

    code = "undecodable_payload"
    applied = False


class PushError(QueenError):
    """Not everything that was pushed is stored: ``stored`` is, ``failed`` says what is not."""

    code = "push_error"

    @property
    def stored(self) -> list[Any]:
        """The answers for the items that are durable."""
        return self.members["stored"]

    @property
    def failed(self) -> "list[Unstored]":
        """Each item that is not durable, with the reason."""
        return self.members["failed"]


class JobFailed(QueenError):
    """The job whose result was asked for has failed for good; the text is its last error."""

    code = "job_failed"
    applied = False


class JobCancelled(QueenError):
    """The job whose result was asked for was cancelled."""

    code = "job_cancelled"
    applied = False


class WorkflowFailed(QueenError):
    """The workflow whose result was asked for failed or was cancelled; the text says why."""

    code = "workflow_failed"
    applied = False


class DataLost(QueenError):
    """A pipeline was still to read what retention or somebody has removed."""

    code = "data_lost"
    applied = False


class LakeDiverged(QueenError):
    """A lake does not have the batches that the ledger of its archive says, or has others."""

    code = "lake_diverged"
    applied = False


class Unstored(NamedTuple):
    """An item of a push that was not stored."""

    item: Any
    code: str
    error: str


def _tree(root: type[QueenError]) -> Iterator[type[QueenError]]:
    for branch in root.__subclasses__():
        yield from _tree(branch)
    yield root


def of_sqlstate(sqlstate: str) -> type[QueenError] | None:
    """The error that a SQLSTATE means; the longest beginning that fits decides."""
    fitting = (
        (len(beginning), error)
        for error in _tree(QueenError)
        for beginning in error.sqlstates
        if sqlstate.startswith(beginning)
    )
    best = max(fitting, key=lambda pair: pair[0], default=None)
    return best[1] if best else None


def worst(outcomes: Sequence[object]) -> BaseException | None:
    """What to raise for a call's parts: an unknown outcome, else a failure if all have failed."""
    failures = [each for each in outcomes if isinstance(each, BaseException)]
    for each in failures:
        if not isinstance(each, QueenError) or each.applied is None:
            return each
    return failures[0] if failures and len(failures) == len(outcomes) else None


def of_code(code: str) -> type[QueenError] | None:
    """The error with this code of the contract."""
    return next((error for error in _tree(QueenError) if error.code == code), None)


def every() -> dict[str, type[QueenError]]:
    """All errors by their code; where a family shares the code of a leaf, the leaf."""
    return {error.code: error for error in reversed([*_tree(QueenError)])}
