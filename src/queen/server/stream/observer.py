"""Count and trace the operations of streams."""

from contextlib import AbstractContextManager
from typing import Final

from queen import errors
from queen.server.http.call import Call
from queen.server.metrics.requests import RequestMetrics
from queen.server.middleware.observer import Observer

_ROUTE: Final = "/api/v1/stream"


class StreamObserver:
    """Wraps the observer of requests."""

    def __init__(self, observer: Observer, metrics: RequestMetrics) -> None:
        self._observer = observer
        self._requests = metrics
        self.metrics = metrics.streams

    @property
    def is_tracing(self) -> bool:
        """Whether operations have spans."""
        return self._observer.is_tracing

    def span(self, call: Call) -> AbstractContextManager[None]:
        """Return the context that an operation runs in."""
        return self._observer.span(call)

    def rejected(self, error: BaseException, call: Call) -> errors.QueenError:
        """Count an error, and return the one to send. Unexpected ones are logged."""
        if not isinstance(error, errors.QueenError):
            error = self._observer.shown(call, error)
        self._requests.count_error(type(error), _ROUTE)
        return error
