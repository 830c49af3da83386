"""Errors as problem documents (RFC 9457)."""

from typing import Final

from queen import errors
from queen.server.http.answer import Answer
from queen.wire.problems import Problem

MEDIA_TYPE: Final = "application/problem+json"
_MEMBERS: Final = {"errors", "failed_index", "messages", "settled"}


def problem(error: errors.QueenError, request_id: str | None = None) -> Problem:
    """Convert an error to the problem document of the contract."""
    detail = str(error) or error.default_message
    return Problem(
        type=f"urn:queen:{error.code}",
        title=error.code.replace("_", " ").capitalize(),
        status=error.http_status,
        code=error.code,
        detail=detail,
        error=detail,
        applied=error.applied,
        request_id=request_id,
        **{name: value for name, value in error.members.items() if name in _MEMBERS},
    )


def refusal(error: errors.QueenError, request_id: str) -> Answer:
    """Build the response for an error."""
    headers: dict[str, str] = {}
    if isinstance(error, errors.ServiceError | errors.OutcomeUnknown):
        headers["Retry-After"] = str(error.members.get("retry_after", 1))
    if isinstance(error, errors.Unauthorized):
        headers["WWW-Authenticate"] = 'Bearer realm="queen"'
    if isinstance(error, errors.MethodNotAllowed):
        headers["Allow"] = error.members["allow"]
    return Answer(
        problem(error, request_id),
        status=error.http_status,
        headers=headers,
        media_type=MEDIA_TYPE,
        error=type(error),
    )
