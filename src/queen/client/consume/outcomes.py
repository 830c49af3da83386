"""What a handler says of a message by returning or raising, and how that is told to the server."""

from collections.abc import Mapping
from typing import Any

from queen.client.durations import LONG_SECONDS, Duration, seconds_of
from queen.client.message import Message

Outcome = tuple[Message[Any], bool | str, Mapping[str, Any] | None]
"""A message, its status, and what is said besides."""


class Retry(Exception):
    """
    Raised by a handler: try this again, at once or after ``delay``; no attempt is counted.

    A ``delay`` that is not a duration fails the handler.
    """

    def __init__(self, reason: str = "", *, delay: Duration | None = None) -> None:
        super().__init__(reason)
        seconds = None if delay is None else seconds_of(delay, "delay", most=LONG_SECONDS)
        self.delay = None if seconds is None else max(0.0, seconds)
        """In seconds."""


class DeadLetter(Exception):
    """Raised by a handler: this will never work, keep it with the dead letters."""


class BatchError(Exception):
    """Raised by a handler of a batch: these messages failed, the others are done."""

    def __init__(self, failed: "Mapping[Any, BaseException | str]") -> None:
        # By messages, also those of SyncQueen: a mapping of either kind would not be one of both.
        super().__init__(f"{len(failed)} messages failed")
        self.failed = failed


def outcome(message: Message[Any], failure: BaseException | None) -> Outcome:
    """What is said of a message after its handler has returned or raised."""
    if isinstance(failure, BatchError):
        failed = failure.failed.get(message)
        failure = RuntimeError(failed) if isinstance(failed, str) else failed
    if failure is None:
        return message, True, None
    if isinstance(failure, Retry):
        return message, "retry", {"error": _text(failure), "delaySeconds": failure.delay}
    if isinstance(failure, DeadLetter):
        return message, "dlq", {"error": _text(failure)}
    return message, False, {"error": f"{type(failure).__name__}: {_text(failure)}"}


def _text(failure: BaseException) -> str:
    """What it says, as JSON can carry it; an error that cannot even be told is still one."""
    try:
        text = str(failure)
    except Exception:
        text = "it cannot be shown"
    return text.encode("utf-8", "backslashreplace").decode()
