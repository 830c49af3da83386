"""Queen: a message queue and job queue on PostgreSQL."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from queen.client.client import Queen
    from queen.client.consumer import BatchError, Consumption, DeadLetter, Retry
    from queen.client.message import Message
    from queen.client.queue import Queue
    from queen.errors import (
        LeaseLost,
        NotFound,
        OutcomeUnknown,
        PayloadTooLarge,
        PushError,
        QueenError,
        RateLimited,
    )

_HOMES = {
    "BatchError": "queen.client.consumer",
    "Consumption": "queen.client.consumer",
    "DeadLetter": "queen.client.consumer",
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
    "Retry": "queen.client.consumer",
}

__all__ = [
    "BatchError",
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
    "Retry",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - of many types
    """Loaded when asked for: the server and the command line do not pay for the client."""
    if name not in _HOMES:
        raise AttributeError(f"module 'queen' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
