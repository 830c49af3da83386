"""The objects that all handlers of one process share."""

import time
from collections.abc import Callable

import msgspec

from queen.cluster.cluster import Cluster
from queen.engine.engine import Engine
from queen.server.audit_log import AuditLog
from queen.server.auth.authenticator import Authenticator
from queen.server.compression import Compressible
from queen.server.decoding.bodies import Bodies
from queen.server.heartbeat import Heartbeat
from queen.server.lake_tables import LakeTables
from queen.server.memory_budget import Budget, Unsent
from queen.server.metrics.host import HostMetrics
from queen.server.operations.runner import Operations
from queen.server.readiness import Readiness
from queen.settings import Settings


class State(msgspec.Struct, kw_only=True):
    """Created at startup and passed to every call."""

    settings: Settings
    cluster: Cluster
    engine: Engine
    """The engine of the request's database, or of the first one."""
    of_engine: "dict[Engine, State]"
    """The same for each database. They share what does not belong to one."""
    authenticator: Authenticator
    metrics: HostMetrics
    bodies: Bodies
    requests: Budget
    """Memory of the requests in progress."""
    unsent: Unsent
    openapi: Callable[[], Compressible]
    """Return the OpenAPI document. Slow at the first call."""
    audit: AuditLog
    operations: Operations
    heartbeat: Heartbeat
    readiness: Readiness
    tables: LakeTables
    started_at: float = msgspec.field(default_factory=time.monotonic)
    is_draining: bool = False
