"""Messages of workflow steps: their step, and the token that only their consumer receives."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import msgspec

from queen import errors
from queen.engine.encryption.sealer import Sealer
from queen.store.messages import Advance, Settlement
from queen.store.store import Store

_MASKED: Final = b'"masked"'


class _Place(msgspec.Struct, gc=False):
    id: str
    step: str
    token: str
    part: int | None = None


class _StepMessage(msgspec.Struct, gc=False):
    workflow: _Place


_DECODE: Final = msgspec.json.Decoder(_StepMessage).decode


async def require_acks(
    store: Store, sealer: Sealer, advances: Sequence[Advance], settlements: Sequence[Settlement]
) -> None:
    """Raise BadRequest for the first advance whose message is not among these settlements."""
    rows = await store.workflows.step_messages(settlements, [each.token for each in advances])
    acked = {
        _key(place) for row in await sealer.open_rows(rows) if (place := _place(row["payload"]))
    }
    for number, each in enumerate(advances):
        if (each.workflow, each.step, each.part, each.token) not in acked:
            raise errors.BadRequest(
                f"The message of step {each.step} is not acknowledged in this transaction. "
                "Send the advance together with the ack of the message that brought its token.",
                failed=("advance", number),
            )


def without_token(payload: bytes) -> bytes:
    """A payload for callers that don't consume it: the token of its workflow step is masked."""
    if b'"workflow"' not in payload or b'"token"' not in payload:
        return payload
    place = _place(payload)
    return payload if place is None else payload.replace(b'"%b"' % place.token.encode(), _MASKED)


def _place(payload: bytes) -> _Place | None:
    try:
        place = _DECODE(payload).workflow
        UUID(place.token)
    except (ValueError, msgspec.MsgspecError):
        return None
    return place


def _key(place: _Place) -> tuple[str, str, int | None, UUID]:
    return place.id, place.step, place.part, UUID(place.token)
