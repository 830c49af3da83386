"""
Every error that Queen raises on purpose.

* QueenError
  x ApiError                rejected, by a server or before one was called
    RequestError            change the request; it was not applied
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
    + Conflict              the current state does not allow the request
      - LeaseLost
      - AlreadySettled
      - AmbiguousMessage
      - Duplicate
      - DutyLost            internal: another process took over a background task
      - QueueHeld
      - SequenceReused
      - SequenceStale
      - SlotBusy
      - SubscriptionConflict
      - VersionMismatch
      - NotRetryable
      - WorkflowExists
      - WorkflowRunning
    + InvalidWorkflow
    + BadSettings           the process cannot start with this configuration
    + Unauthorized
    + Forbidden
      - Masked
    + OriginRefused
    + NoSuchRoute
    + MethodNotAllowed
    + UnsupportedMediaType
    + UpgradeRequired
    + HeadersTooLarge
    + BodyTooLarge
    + SchemaViolation
    + CrossShard
    ServiceError            not applied; the same request may succeed later
    + RequestTimeout
    + QueueFull
    + TooManyWaiters
    + TooManyBytes
    + RateLimited
    + Overloaded
    + Draining
    + DatabaseUnavailable
    + SlotMoved
    + EncryptionUnavailable
    + MessagesDamaged
    + DatabaseUnsafe
    + BufferFull            client only
    + ServerUnreachable     client only; also a TransportError
  x OutcomeUnknown          may have been applied; repeat only idempotent requests
    + ConnectionLost        client only; also a TransportError
  x TransportError          client only: a network error
  x UndecodablePayload      client only
  x PushError               client only: part of a push was not stored
  x WorkflowFailed          client only
  x JobFailed               client only
  x JobCancelled            client only
  x DataLost                pipelines only
  x LakeDiverged            pipelines only
  x LakeUnavailable         pipelines only
"""

from queen.errors.base import (
    ApiError as ApiError,
    OutcomeUnknown as OutcomeUnknown,
    QueenError as QueenError,
    RequestError as RequestError,
    ServiceError as ServiceError,
    TransportError as TransportError,
    every as every,
    of_code as of_code,
    of_sqlstate as of_sqlstate,
    worst as worst,
)
from queen.errors.conflicts import (
    AlreadySettled as AlreadySettled,
    AmbiguousMessage as AmbiguousMessage,
    Conflict as Conflict,
    Duplicate as Duplicate,
    DutyLost as DutyLost,
    LeaseLost as LeaseLost,
    NotRetryable as NotRetryable,
    QueueHeld as QueueHeld,
    SequenceReused as SequenceReused,
    SequenceStale as SequenceStale,
    SlotBusy as SlotBusy,
    SubscriptionConflict as SubscriptionConflict,
    VersionMismatch as VersionMismatch,
    WorkflowExists as WorkflowExists,
    WorkflowRunning as WorkflowRunning,
)
from queen.errors.outcomes import (
    DataLost as DataLost,
    JobCancelled as JobCancelled,
    JobFailed as JobFailed,
    LakeDiverged as LakeDiverged,
    LakeUnavailable as LakeUnavailable,
    PushError as PushError,
    UndecodablePayload as UndecodablePayload,
    Unstored as Unstored,
    WorkflowFailed as WorkflowFailed,
)
from queen.errors.requests import (
    BadRequest as BadRequest,
    BadSettings as BadSettings,
    BodyTooLarge as BodyTooLarge,
    CrossShard as CrossShard,
    Forbidden as Forbidden,
    GroupNotFound as GroupNotFound,
    HeadersTooLarge as HeadersTooLarge,
    InvalidItem as InvalidItem,
    InvalidName as InvalidName,
    InvalidOption as InvalidOption,
    InvalidStatus as InvalidStatus,
    InvalidWorkflow as InvalidWorkflow,
    Masked as Masked,
    MessageNotFound as MessageNotFound,
    MethodNotAllowed as MethodNotAllowed,
    NoSuchRoute as NoSuchRoute,
    NotFound as NotFound,
    OriginRefused as OriginRefused,
    PartitionNotFound as PartitionNotFound,
    PayloadTooLarge as PayloadTooLarge,
    QueueNotFound as QueueNotFound,
    SchemaViolation as SchemaViolation,
    TooManyItems as TooManyItems,
    Unauthorized as Unauthorized,
    UnsupportedMediaType as UnsupportedMediaType,
    UpgradeRequired as UpgradeRequired,
    WorkflowNotFound as WorkflowNotFound,
)
from queen.errors.services import (
    BufferFull as BufferFull,
    ConnectionLost as ConnectionLost,
    DatabaseUnavailable as DatabaseUnavailable,
    DatabaseUnsafe as DatabaseUnsafe,
    Draining as Draining,
    EncryptionUnavailable as EncryptionUnavailable,
    MessagesDamaged as MessagesDamaged,
    Overloaded as Overloaded,
    QueueFull as QueueFull,
    RateLimited as RateLimited,
    RequestTimeout as RequestTimeout,
    ServerUnreachable as ServerUnreachable,
    SlotMoved as SlotMoved,
    TooManyBytes as TooManyBytes,
    TooManyWaiters as TooManyWaiters,
)

for _error in every().values():
    _error.__module__ = __name__  # Tracebacks and pickles show the public name.
