"""Long-running operations and their progress."""

from datetime import datetime
from typing import Literal

from queen.wire.messages import Wire


class Operation(Wire, frozen=True, kw_only=True):
    """A long-running operation and its progress."""

    id: str
    """Id of the operation."""
    kind: str
    """`purge`, `delete`, `redrive`, `purge_dead_letters` or `move_slots`."""
    state: Literal["running", "done", "failed", "cancelled"]
    """`running`, `done`, `failed` or `cancelled`."""
    done: int
    """Number of messages, dead letters, slots or steps that are done."""
    total: int | None
    """Expected final value of `done`; null if it is unknown."""
    error: str | None
    """Reason of a failure, or what a running operation waits for; otherwise null."""
    queue: str | None
    """Name of the queue; null if the operation concerns several."""
    created_by: str
    """Caller that started the operation."""
    created_at: datetime
    """Time when the operation started."""
    finished_at: datetime | None
    """Time when the operation ended; null while it runs."""


class OperationStarted(Wire, frozen=True, kw_only=True):
    """The operation continues after this response."""

    operation: Operation
    """The operation and its progress."""


class Operations(Wire, frozen=True, kw_only=True):
    """A page of operations, newest first."""

    operations: list[Operation]
    """Operations of this page. Ended ones are listed for seven days."""
    next_cursor: str | None
    """Cursor of the next page; null at the end of the list."""
