"""Long work, and how far it came."""

from datetime import datetime
from typing import Literal

from queen.wire.messages import Wire


class Operation(Wire, frozen=True, kw_only=True):
    """Long work, and how far it came."""

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
    """The work goes on after this answer."""

    operation: Operation


class Operations(Wire, frozen=True, kw_only=True):
    """A page of operations, newest first."""

    operations: list[Operation]
    next_cursor: str | None
