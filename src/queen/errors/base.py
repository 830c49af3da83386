"""The families of errors, and how SQLSTATEs and codes map to them."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar


class QueenError(Exception):
    """The base class of all errors that Queen raises on purpose."""

    code: ClassVar[str] = "internal"
    http_status: ClassVar[int] = 500
    applied: ClassVar[bool | None] = None
    default_message: ClassVar[str] = "An internal error occurred. The server's log has the details."
    """The text for clients if the error was raised without one. Part of the API."""
    remedy: ClassVar[str] = (
        "Search the server's log for the request id, and report the problem with that log entry."
    )
    """Advice to the caller, printed by `queen errors`."""
    is_local: ClassVar[bool] = False
    """Raised in clients, workers, pipelines or at startup. No server returns it over HTTP."""
    sqlstates: ClassVar[tuple[str, ...]] = ()
    """SQLSTATEs, or prefixes of them, that PostgreSQL reports for this error."""

    def __init__(self, message: object = "", **members: Any) -> None:  # noqa: ANN401 - as JSON has it
        super().__init__(message)
        self.members = members
        """More fields of the problem document: ``settled``, ``failed_index``, ``retry_after`` …"""

    @property
    def problem(self) -> Any:  # noqa: ANN401 - of `queen.wire`, which is not known here
        """The server's problem document (RFC 9457); None if the error was raised locally."""
        return self.members.get("problem")

    @property
    def retry_after(self) -> float | None:
        """Seconds to wait before the next attempt, as the server asked."""
        return self.members.get("retry_after")


class ApiError(QueenError):
    """The request was rejected, by a server or before one was called. It was not applied."""

    code = "refused"
    applied = False
    default_message = "The request was rejected. It was not applied."
    remedy = "Fix the cause that the message names."


class RequestError(ApiError):
    """The caller must change the request. It was not applied."""

    code = "bad_request"
    http_status = 400
    applied = False
    default_message = "The request is not valid. Change it before you send it again."
    remedy = "Correct the request. If you send it unchanged, it fails again."


class ServiceError(ApiError):
    """The request was not applied. The same request may succeed later."""

    code = "overloaded"
    http_status = 503
    applied = False
    default_message = "The server cannot handle the request now. Try again later."
    remedy = "Send the same request again after a pause, and double the pause after each failure."


class OutcomeUnknown(QueenError):
    """The connection was lost after the request was sent, so it may have been applied."""

    code = "outcome_unknown"
    http_status = 503
    sqlstates = ("08", "57P")
    default_message = (
        "The connection was lost after the request was sent. It may have been applied: repeat "
        "it only if it is idempotent."
    )
    remedy = (
        "Send it again only if it is idempotent, such as a push with a transactionId. Otherwise "
        "check first whether it was applied."
    )


class TransportError(QueenError):
    """A network error. Whether the request was applied depends on the subclass."""

    code = "transport_error"
    default_message = "The request failed because of a network error."
    is_local = True
    remedy = "Check the network, the proxies and the TLS settings between client and server."


def _tree(root: type[QueenError]) -> Iterator[type[QueenError]]:
    for branch in root.__subclasses__():
        yield from _tree(branch)
    yield root


def of_sqlstate(sqlstate: str) -> type[QueenError] | None:
    """Return the error class for a SQLSTATE. The longest matching prefix wins."""
    fitting = (
        (len(beginning), error)
        for error in _tree(QueenError)
        for beginning in error.sqlstates
        if sqlstate.startswith(beginning)
    )
    best = max(fitting, key=lambda pair: pair[0], default=None)
    return best[1] if best else None


def worst(outcomes: Sequence[object]) -> BaseException | None:
    """Return the error of several outcomes: an unknown one, or the first one if all failed."""
    failures = [each for each in outcomes if isinstance(each, BaseException)]
    for each in failures:
        if not isinstance(each, QueenError) or each.applied is None:
            return each
    return failures[0] if failures and len(failures) == len(outcomes) else None


def of_code(code: str) -> type[QueenError] | None:
    """Return the error class with this code."""
    return next((error for error in _tree(QueenError) if error.code == code), None)


def every() -> dict[str, type[QueenError]]:
    """Return all error classes by code. A subclass wins over a family with the same code."""
    return {error.code: error for error in reversed([*_tree(QueenError)])}
