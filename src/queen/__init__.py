"""Queen: a message queue and job queue on PostgreSQL."""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from queen.client import cloudevents, outbox
    from queen.client.client import Queen
    from queen.client.consume.consumer import Consumption
    from queen.client.consume.outcomes import BatchError, DeadLetter, Retry
    from queen.client.message import Message
    from queen.client.queue import Queue
    from queen.client.sync import SyncMessage, SyncQueen, SyncQueue
    from queen.errors import (
        ApiError,
        Conflict,
        LeaseLost,
        NotFound,
        OutcomeUnknown,
        PayloadTooLarge,
        PushError,
        QueenError,
        RateLimited,
        RequestTimeout,
        TransportError,
    )

_HOMES = {
    "ApiError": "queen.errors",
    "BatchError": "queen.client.consume.outcomes",
    "Conflict": "queen.errors",
    "Consumption": "queen.client.consume.consumer",
    "DeadLetter": "queen.client.consume.outcomes",
    "LeaseLost": "queen.errors",
    "Message": "queen.client.message",
    "NotFound": "queen.errors",
    "OutcomeUnknown": "queen.errors",
    "PayloadTooLarge": "queen.errors",
    "PushError": "queen.errors",
    "Queen": "queen.client.client",
    "QueenError": "queen.errors",
    "Queue": "queen.client.queue",
    "RateLimited": "queen.errors",
    "RequestTimeout": "queen.errors",
    "Retry": "queen.client.consume.outcomes",
    "SyncMessage": "queen.client.sync",
    "SyncQueen": "queen.client.sync",
    "SyncQueue": "queen.client.sync",
    "TransportError": "queen.errors",
}

__all__ = [
    "ApiError",
    "BatchError",
    "Conflict",
    "Consumption",
    "DeadLetter",
    "LeaseLost",
    "Message",
    "NotFound",
    "OutcomeUnknown",
    "PayloadTooLarge",
    "PushError",
    "Queen",
    "QueenError",
    "Queue",
    "RateLimited",
    "RequestTimeout",
    "Retry",
    "SyncMessage",
    "SyncQueen",
    "SyncQueue",
    "TransportError",
    "cloudevents",
    "outbox",
]


def _refuse_a_mixture() -> None:
    """Reject an installation in which another distribution wrote to this package too."""
    folder = os.path.dirname(os.path.dirname(__file__))
    if not os.path.isdir(folder):
        return  # In a zip file, which contains only one of the two.
    beside = os.listdir(folder)
    if any(name.startswith("queen_mq-") and name.endswith(".dist-info") for name in beside):
        raise ImportError(
            "both queenmq and queen-mq are installed, and both contain the package `queen`: "
            "pip uninstall queen-mq, then install queenmq again with --force-reinstall"
        )


_refuse_a_mixture()


def __getattr__(name: str) -> Any:  # noqa: ANN401 - of many types
    """Import on first use, so that the server and the command line don't load the client."""
    if name in ("cloudevents", "outbox"):
        return import_module(f"queen.client.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'queen' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
