"""Frames of a stream."""

from typing import Annotated, Final

import msgspec

from queen.wire.messages import Request

Id = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]
MAX_OPERATIONS: Final = 1_000
"""Operations in progress per stream, without waiting pops."""
MAX_WAITING: Final = 1_000
"""Pops in progress per stream, including those of its subscriptions."""
MAX_PER_FRAME: Final = 1_000
"""Operations per frame."""


class Credit(Request, frozen=True, kw_only=True):
    """More messages that a subscription may send."""

    id: Id
    """Id of the subscription."""
    messages: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
    """Number of messages, in addition to those granted before."""


class Complete(Request, frozen=True, kw_only=True):
    """The delivery to acknowledge, or to release."""

    lease_id: str
    """Id of the lease."""


class Operation(Request, frozen=True, kw_only=True):
    """One operation of a client: exactly one of the fields from `push` to `cancel` is set."""

    id: Id | None = None
    """Id that the response repeats. Not used by any other operation in progress."""
    push: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """Body of `POST /push`."""
    pop: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """Body of `POST /pop`."""
    consume: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """Body of `POST /pop`, and `credit`."""
    ack: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """Body of `POST /ack`."""
    ack_batch: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """Body of `POST /ack/batch`."""
    complete: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """`leaseId`, as in `POST /lease/{leaseId}/ack`."""
    extend: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """Body of `POST /lease/extend`."""
    release: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """`leaseId`, as in `POST /lease/{leaseId}/release`."""
    credit: Credit | msgspec.UnsetType = msgspec.UNSET
    """Grants messages to a subscription. It has no response."""
    cancel: Id | msgspec.UnsetType = msgspec.UNSET
    """Id of a pop or a subscription to end. It has no response of its own."""
    traceparent: str | None = None
    """Trace of the operation, as the header of this name."""


class Response(msgspec.Struct, frozen=True, gc=False):
    """A frame of the server, as the client reads it. One of the fields after `id` is set."""

    id: int
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    problem: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    messages: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    runs: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    reason: str | None = None
    retry_after: int | None = msgspec.field(default=None, name="retryAfter")


VERBS: Final = (
    "push",
    "complete",
    "pop",
    "ack_batch",
    "ack",
    "extend",
    "release",
    "consume",
)
"""The fields of `Operation` with a response, the most frequent first."""
