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
DIFFERENT = 8
INTERRUPTED = 130

_BY_STATUS = {
    401: NOT_ALLOWED,
    403: NOT_ALLOWED,
    404: NOT_FOUND,
    408: TIMEOUT,
    409: CONFLICT,
    412: CONFLICT,
}


class FileTrouble(Exception):
    """A file can't be read or written, or its content is invalid."""


def exit_code(error: errors.QueenError) -> int:
    """Map an error to its exit code."""
    if isinstance(error, errors.PushError) and isinstance(error.__cause__, errors.QueenError):
        return exit_code(error.__cause__)
    if isinstance(error, errors.DatabaseUnavailable | errors.ServerUnreachable):
        return UNREACHABLE
    if isinstance(error, errors.OutcomeUnknown):
        return TIMEOUT if isinstance(error.__cause__, TimeoutError) else FAILED
    if isinstance(error, errors.TransportError):
        return UNREACHABLE
    # An error in the command line, found by the server, or before anything was sent.
    is_ours = error.problem is None and isinstance(error, errors.BadRequest)
    if is_ours or isinstance(error, errors.InvalidName | errors.InvalidOption):
        return USAGE
    return _BY_STATUS.get(error.http_status, FAILED)


def exit_closed_pipe() -> NoReturn:
    """End by SIGPIPE as other tools do if their reader has closed. Python ignores that signal."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGPIPE)
    raise AssertionError("unreachable")
