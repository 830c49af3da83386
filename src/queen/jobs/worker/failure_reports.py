"""Failed jobs: the text of their errors, and the jobs that report them."""

import traceback
from typing import Any, Final

import msgspec

from queen.client.message import Message
from queen.jobs.envelope import item_of
from queen.jobs.registry import Registry
from queen.wire.messages import PushItem

QUEUE: Final = "dead-letter-queue"
"""The reserved queue. If an application has a processor for it, each failure adds a job."""
_MAX_ERROR_CHARACTERS: Final = 8_000


class _Named(msgspec.Struct):
    name: str
    data: msgspec.Raw = msgspec.Raw(b"null")


_DECODE: Final = msgspec.json.Decoder(_Named).decode


def report_of(registry: Registry, message: Message[Any], reason: str) -> PushItem | None:
    """
    Return the job that reports a failure, or None without a processor for it.

    A failed report is not reported. Data of an encrypted queue is not copied to an unencrypted one.
    """
    names = [name for queue, name in registry.processors if queue == QUEUE]
    if not names or message.queue == QUEUE:
        return None
    payload = _payload(message.raw)
    own: str | None = payload.get("name")
    name = own if own and registry.processor_of(QUEUE, own) else names[0] or "failed-job"
    is_shown = registry.is_encrypted(message.queue) is False or registry.is_encrypted(QUEUE) is True
    report = {
        "originalQueue": message.queue,
        "originalName": own,
        "originalId": message.transaction_id,
        "originalData": payload.get("data") if is_shown else None,
        "failureReason": reason,
        "attempts": message.attempt,
    }
    return item_of(QUEUE, name, report, None)


def _payload(raw: bytes) -> dict[str, Any]:
    """Return the name and data of a job. A message that is not a job has only data."""
    try:
        job = _DECODE(raw)
    except msgspec.ValidationError:
        return {"data": msgspec.Raw(raw)}
    return {"name": job.name, "data": job.data}


def describe_error(error: BaseException) -> str:
    """Return the error with its stack trace, as stored with a dead letter."""
    try:
        lines = traceback.format_exception(error)
        text = f"{type(error).__name__}: {error}\n\n{''.join(lines)}"
    except Exception:
        text = f"{type(error).__name__}: str() of the error failed"
    if len(text) > _MAX_ERROR_CHARACTERS:
        text = f"{text[: _MAX_ERROR_CHARACTERS // 2]}\n…\n{text[-_MAX_ERROR_CHARACTERS // 2 :]}"
    return text.encode("utf-8", "backslashreplace").decode()
