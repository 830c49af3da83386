"""Count, log and trace every call."""

import contextlib
from collections.abc import Awaitable
from contextlib import AbstractContextManager
from typing import Final

from queen import errors
from queen.server import logs
from queen.server.http.answer import Answer
from queen.server.http.call import Call
from queen.server.http.problems import refusal
from queen.server.metrics.requests import RequestMetrics
from queen.server.middleware.tracing import Tracing
from queen.telemetry import Event

_NO_SPAN: Final = contextlib.nullcontext()
_NO_ROUTE: Final = "(none)"
"""The route of a call that matches none."""


class Observer:
    """Wraps the responses of one process."""

    def __init__(
        self,
        log: logs.Log,
        metrics: RequestMetrics,
        *,
        tracing: Tracing | None,
        logs_all: bool,
    ) -> None:
        self.log = log
        self._metrics = metrics
        self._tracing = tracing
        self._logs_all = logs_all

    def refused(self, call: Call, error: Exception) -> Answer:
        """Convert an error to a response. Unexpected ones are logged."""
        shown = error if isinstance(error, errors.QueenError) else self.shown(call, error)
        return refusal(shown, call.request_id)

    def count(self, call: Call, answered: Answer, seconds: float) -> None:
        """Count a call, and log it if it failed."""
        path = call.route.path if call.route else _NO_ROUTE
        self._metrics.count_request(path, call.head.method, answered.status, seconds)
        if answered.error is not None:
            self._metrics.count_error(answered.error, path)
        if answered.status >= 500 or self._logs_all:
            self._log_call(call, answered, seconds)

    @property
    def is_tracing(self) -> bool:
        """Whether calls have spans."""
        return self._tracing is not None

    def span(self, call: Call) -> AbstractContextManager[None]:
        """Return the context that an operation runs in."""
        return _NO_SPAN if self._tracing is None else self._tracing.of_call(call)

    async def traced(self, call: Call, handling: Awaitable[Answer]) -> Answer:
        """Await the response of a handler within the span of its call."""
        with self.span(call):
            return await handling

    def shown(self, call: Call, error: BaseException) -> errors.QueenError:
        """Log an unexpected error, and return one without its text, which may contain secrets."""
        self._log_of(call).error(Event.UNEXPECTED, error=error)
        return errors.QueenError("an unexpected error occurred. The server's log has the details.")

    def _log_call(self, call: Call, answered: Answer, seconds: float) -> None:
        if call.route is not None and call.route.is_probe:
            return
        # An unavailable database is logged once, not for every call.
        is_warning = answered.status >= 500 and not (
            call.state.engine.store.database.is_away
            and answered.error is not None
            and issubclass(answered.error, errors.DatabaseUnavailable)
        )
        log = self._log_of(call)
        code = answered.error.code if answered.error else None
        (log.warning if is_warning else log.debug)(
            Event.REQUEST, status=answered.status, code=code, seconds=round(seconds, 6)
        )

    def _log_of(self, call: Call) -> logs.Log:
        """Return the log of one call. The query string is omitted, as it may contain a ticket."""
        return self.log.bind(
            request_id=call.request_id,
            trace_id=call.trace_id,
            method=call.method,
            path=call.head.path,
        )
