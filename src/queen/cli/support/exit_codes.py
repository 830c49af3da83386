"""Exit codes of commands."""

import os
import signal
from typing import NoReturn

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


# What is told on the command line, and found wrong here or by the server.
_WORDS = (errors.InvalidName, errors.InvalidOption)


class FileTrouble(Exception):
    """A file that was named cannot be read or written, or has what it should not."""


def exit_code(error: errors.QueenError) -> int:
    """Not found, refused, not reached, late and in conflict are told apart from what failed."""
    if isinstance(error, errors.PushError) and isinstance(error.__cause__, errors.QueenError):
        return exit_code(error.__cause__)
    if isinstance(error, errors.DatabaseUnavailable | errors.ServerUnreachable):
        return UNREACHABLE
    if isinstance(error, errors.OutcomeUnknown):
        return TIMEOUT if isinstance(error.__cause__, TimeoutError) else FAILED
    if isinstance(error, errors.TransportError):
        return UNREACHABLE
    # No server has said so: it was noticed before anything was sent.
    is_ours = error.problem is None and isinstance(error, errors.BadRequest)
    if is_ours or isinstance(error, _WORDS):
        return USAGE
    return _BY_STATUS.get(error.http_status, FAILED)


def exit_closed_pipe() -> NoReturn:
    """End by SIGPIPE, which Python ignores, as other tools do if their reader has closed."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGPIPE)
    raise AssertionError("unreachable")
