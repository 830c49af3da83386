"""How a handler's return or exception becomes the status of a message."""

from collections.abc import Mapping
from typing import Any

from queen.client.durations import LONG_SECONDS, Duration, seconds_of
from queen.client.message import Message

Outcome = tuple[Message[Any], bool | str, Mapping[str, Any] | None]
"""A message, its status, and the context of the acknowledgment."""


class Retry(Exception):
    """
    Raised by a handler: redeliver immediately or after ``delay``, without counting an attempt.

    A ``delay`` that is not a duration fails the handler.
    """

    def __init__(self, reason: str = "", *, delay: Duration | None = None) -> None:
        super().__init__(reason)
        seconds = None if delay is None else seconds_of(delay, "delay", most=LONG_SECONDS)
        self.delay = None if seconds is None else max(0.0, seconds)
        """In seconds."""


class DeadLetter(Exception):
    """Raised by a handler: dead-letter the message, because it can never succeed."""


class BatchError(Exception):
    """Raised by a handler of a batch: these messages failed, the others are completed."""

    def __init__(self, failed: "Mapping[Any, BaseException | str]") -> None:
        # Keyed by message, also those of SyncQueen: no mapping type would accept both kinds.
        super().__init__(f"{len(failed)} messages failed")
        self.failed = failed
        """The failed messages, each with its error."""


def outcome(message: Message[Any], failure: BaseException | None) -> Outcome:
    """The outcome of a message after its handler has returned or raised."""
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
    """Return the text of an error as JSON can represent it."""
    try:
        text = str(failure)
    except Exception:
        text = "the error has no text"
    return text.encode("utf-8", "backslashreplace").decode()
