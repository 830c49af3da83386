"""The messaging routes: decode the request, call the engine once, respond."""

from typing import Final

from queen.server.routes.messaging import ack, lease, pop, push, transaction

ROUTES: Final = (
    *push.ROUTES,
    *pop.ROUTES,
    *ack.ROUTES,
    *transaction.ROUTES,
    *lease.ROUTES,
)
