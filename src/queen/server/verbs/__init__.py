"""The verbs of the message plane: decode, one call to the engine, reply."""

from typing import Final

from queen.server.verbs import ack, configure, lease, pop, push, transaction

ROUTES: Final = (
    *push.ROUTES,
    *pop.ROUTES,
    *ack.ROUTES,
    *transaction.ROUTES,
    *lease.ROUTES,
    *configure.ROUTES,
)
