"""All routes of the server."""

from typing import Final

from queen.server.http.call import Route
from queen.server.routes import (
    access,
    analytics,
    buffers,
    dead_letters,
    deliveries,
    groups,
    health,
    metrics,
    openapi,
    operations,
    pipelines,
    schedules,
    stream,
    system,
    traces,
    workflows,
)
from queen.server.routes.jobs import jobs, listing, queues as job_queues
from queen.server.routes.messages import messages
from queen.server.routes.messaging import ack, lease, pop, push, transaction
from queen.server.routes.queues import configure, overview, queues
from queen.server.routes.shards import cluster_map, pins, rebalance, shards

ROUTES: Final[tuple[Route, ...]] = (
    *push.ROUTES,
    *pop.ROUTES,
    *ack.ROUTES,
    *transaction.ROUTES,
    *lease.ROUTES,
    *stream.ROUTES,
    *configure.ROUTES,
    *overview.ROUTES,
    *queues.ROUTES,
    *deliveries.ROUTES,
    *groups.ROUTES,
    *messages.ROUTES,
    *dead_letters.ROUTES,
    *traces.ROUTES,
    *schedules.ROUTES,
    *workflows.ROUTES,
    *jobs.ROUTES,
    *listing.ROUTES,
    *job_queues.ROUTES,
    *operations.ROUTES,
    *pipelines.ROUTES,
    *shards.ROUTES,
    *pins.ROUTES,
    *cluster_map.ROUTES,
    *rebalance.ROUTES,
    *system.ROUTES,
    *buffers.ROUTES,
    *analytics.ROUTES,
    *metrics.ROUTES,
    *health.ROUTES,
    *access.ROUTES,
    *openapi.ROUTES,
)
