"""Jobs about jobs that failed for good: what processors of the queue `dead-letter-queue` run."""

from typing import TYPE_CHECKING, Any, Final

import msgspec

from queen.jobs.envelope import item_of
from queen.wire.messages import PushItem

if TYPE_CHECKING:
    from queen.client.message import Message
    from queen.jobs.app import QueueManager

QUEUE: Final = "dead-letter-queue"
"""The reserved queue: an application with a processor for it has a job added per failure."""


class _Named(msgspec.Struct):
    name: str
    data: msgspec.Raw = msgspec.Raw(b"null")


_DECODE: Final = msgspec.json.Decoder(_Named).decode


def report_of(app: "QueueManager", message: "Message[Any]", why: str) -> PushItem | None:
    """
    The job that reports a failure; None if the application has no processor for it.

    A failed report is not reported. Data of an encrypted queue stays out of a plain one.
    """
    names = [name for queue, name in app.processors if queue == QUEUE]
    if not names or message.queue == QUEUE:
        return None
    payload = _payload(message.raw)
    own: str | None = payload.get("name")
    name = own if own and app.processor_of(QUEUE, own) else names[0] or "failed-job"
    is_shown = app.is_encrypted(message.queue) is False or app.is_encrypted(QUEUE) is True
    report = {
        "originalQueue": message.queue,
        "originalName": own,
        "originalId": message.transaction_id,
        "originalData": payload.get("data") if is_shown else None,
        "failureReason": why,
        "attempts": message.attempt,
    }
    return item_of(QUEUE, name, report, None)


def _payload(raw: bytes) -> dict[str, Any]:
    """What a job's message holds; a message that is not a job has no name, only data."""
    try:
        job = _DECODE(raw)
    except msgspec.ValidationError:
        return {"data": msgspec.Raw(raw)}
    return {"name": job.name, "data": job.data}
