"""What the handlers of one process share."""

import time
from typing import TYPE_CHECKING

import msgspec

from queen.engine.engine import Engine
from queen.engine.upkeep.loop import Upkeep
from queen.server.auth.authenticator import Gate
from queen.server.auth.origins import Origins
from queen.server.heartbeat import Pulse
from queen.server.http.decoding import Bodies
from queen.server.http.memory_budget import Budget, Unsent
from queen.server.middleware.audit_log import AuditLog
from queen.server.operations.runner import Operations
from queen.server.process.readiness import Readiness
from queen.settings import Settings

if TYPE_CHECKING:
    from queen.server.middleware.observer import Watch
    from queen.server.middleware.response_cache import Answers


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
