"""What a command's exit code says."""

from queen import errors

FAILED = 1
USAGE = 2
NOT_FOUND = 3
NOT_ALLOWED = 4
UNREACHABLE = 5
TIMEOUT = 6
CONFLICT = 7
INTERRUPTED = 130

_BY_STATUS = {
    401: NOT_ALLOWED,
    403: NOT_ALLOWED,
    404: NOT_FOUND,
    408: TIMEOUT,
    409: CONFLICT,
    412: CONFLICT,
}


def exit_code(error: errors.QueenError) -> int:
    """Not found, refused, not reached, late and in conflict are told apart from what failed."""
    if isinstance(error, errors.PushError) and isinstance(error.__cause__, errors.QueenError):
        return exit_code(error.__cause__)
    if isinstance(error, errors.DatabaseUnavailable | errors.ServerUnreachable):
        return UNREACHABLE
    if isinstance(error, errors.OutcomeUnknown) and isinstance(error.__cause__, TimeoutError):
        return TIMEOUT
    return _BY_STATUS.get(error.http_status, FAILED)
