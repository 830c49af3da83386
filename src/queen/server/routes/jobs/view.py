"""Jobs as the API shows them: their message and their outcome."""

from typing import Final

import msgspec

from queen.codec.ids import message_id, reference
from queen.engine.encryption.sealer import Sealer
from queen.engine.inspect.message import Stored
from queen.engine.settle.results import Outcome
from queen.server.http.call import Call
from queen.wire.jobs import PRIORITIES, Envelope, JobInfo, JobStatus, WorkflowStep

_NULL: Final = msgspec.Raw(b"null")
_DECODE: Final = msgspec.json.Decoder(Envelope).decode
STATUS: Final[dict[str, JobStatus]] = {
    "scheduled": "scheduled",
    "pending": "waiting",
    "failed": "waiting",
    "processing": "active",
    "completed": "completed",
    "dead_letter": "failed",
    "cancelled": "cancelled",
}
"""Job status by message status."""


async def info(
    call: Call,
    queue: str,
    id_: str,
    outcome: Outcome,
    message: Stored | None,
    sealer: Sealer | None,
) -> JobInfo:
    """Build the response for a job. ``sealer`` decrypts payloads, and the access is logged."""
    engine = call.state.engine
    envelope = opened(message.payload if message else None)
    status, place = outcome.status, outcome.place
    is_masked = outcome.is_sealed and sealer is None
    if is_masked:
        outcome = outcome._replace(result=None, progress=None)
    elif outcome.is_sealed or (message is not None and message.is_revealed):
        call.revealed(id_)
        outcome = await engine.results.reveal(outcome)
    return JobInfo(
        id=id_,
        queue=queue,
        name=envelope.name or None,
        status=STATUS[status],
        priority=PRIORITIES.get(message.level) if message else None,
        key=message.partition if message and message.partition != "Default" else None,
        data=envelope.data,
        masked=is_masked or (message is not None and message.is_masked),
        attempt=outcome.attempts,
        attempts=envelope.attempts,
        result=_NULL if outcome.result is None else msgspec.Raw(outcome.result),
        progress=_NULL if outcome.progress is None else msgspec.Raw(outcome.progress),
        error=outcome.error,
        metadata=envelope.metadata,
        created_at=message.created_at if message else None,
        scheduled_at=message.due_at if message else None,
        next_attempt_at=outcome.until if status == "failed" else None,
        lease_expires_at=outcome.until if status == "processing" else None,
        settled_at=outcome.settled_at,
        dead_letter_id=None
        if outcome.dead_letter_id is None
        else reference(outcome.dead_letter_id),
        message_id=None
        if place is None or place.offset is None
        else message_id(place.partition_id, place.offset),
        workflow=None
        if envelope.workflow is None
        else WorkflowStep(
            id=envelope.workflow.id, step=envelope.workflow.step, part=envelope.workflow.part
        ),
    )


def opened(payload: bytes | None) -> Envelope:
    """Decode the envelope of a job; an empty one if the payload is not a job."""
    if payload is not None:
        try:
            return _DECODE(payload)
        except msgspec.DecodeError:
            pass
    return Envelope(name="")
