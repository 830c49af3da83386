"""Long-running operations and their progress."""

from datetime import datetime
from typing import Literal

from queen.wire.messages import Wire


class Operation(Wire, frozen=True, kw_only=True):
    """A long-running operation and its progress."""

    id: str
    kind: str
    state: Literal["running", "done", "failed", "cancelled"]
    done: int
    total: int | None
    error: str | None
    queue: str | None
    created_by: str
    created_at: datetime
    finished_at: datetime | None


class OperationStarted(Wire, frozen=True, kw_only=True):
    """The operation continues after this response."""

    operation: Operation


class Operations(Wire, frozen=True, kw_only=True):
    """A page of operations, newest first."""

    operations: list[Operation]
    next_cursor: str | None
