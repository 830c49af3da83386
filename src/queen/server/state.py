"""What the handlers of one process share."""

import time
from typing import TYPE_CHECKING

import msgspec

from queen.engine.engine import Engine
from queen.engine.upkeep.loop import Upkeep
from queen.server.audit_log import AuditLog
from queen.server.budget import Budget, Unsent
from queen.server.decoding import Bodies
from queen.server.gate import Gate
from queen.server.operations import Operations
from queen.server.origins import Origins
from queen.server.pulse import Pulse
from queen.server.readiness import Readiness
from queen.settings import Settings

if TYPE_CHECKING:
    from queen.server.answers import Answers
    from queen.server.watch import Watch


class State(msgspec.Struct, kw_only=True):
    """Made once at the start and passed to every call."""

    settings: Settings
    engine: Engine
    gate: Gate
    origins: Origins
    watch: "Watch"
    answers: "Answers"
    bodies: Bodies
    requests: Budget
    """Memory of the requests in progress."""
    unsent: Unsent
    openapi: bytes
    """The document that describes all routes."""
    audit: AuditLog
    operations: Operations
    pulse: Pulse
    readiness: Readiness
    upkeep: Upkeep | None
    """Of one process of a host."""
    started_at: float = msgspec.field(default_factory=time.monotonic)
    is_draining: bool = False
