"""Acknowledge messages."""

from collections.abc import Sequence
from typing import Final

from queen import errors
from queen.server.auth.permissions import Permission
from queen.server.http import message_json
from queen.server.http.answer import Answer
from queen.server.http.call import API, Call, Route
from queen.server.middleware import tracing
from queen.wire.messages import (
    Acknowledged,
    Acknowledgment,
    AckOperation,
    AckRequest,
    AckResponse,
    AdvanceOperation,
    Extended,
    PushOperation,
)

REFUSED_ACK: Final = (
    errors.InvalidStatus,
    errors.LeaseLost,
    errors.AlreadySettled,
    errors.AmbiguousMessage,
    errors.MessageNotFound,
    errors.TooManyItems,
)


async def ack(call: Call) -> Answer:
    """Acknowledge one message."""
    request = await call.body(Acknowledgment)
    (answer,) = await _acknowledge(call, [request], None)
    if answer.code is not None:
        raise refusal_of(answer)
    return Answer(answer)


async def ack_batch(call: Call) -> Answer:
    """Acknowledge several messages. The accepted ones commit together."""
    request = await call.body(AckRequest)
    if not request.acknowledgments:
        raise errors.BadRequest("the request has no acknowledgments")
    answers = await _acknowledge(call, request.acknowledgments, request.consumer_group)
    return Answer(message_json.acknowledged(answers))


async def _acknowledge(
    call: Call, acknowledgments: Sequence[Acknowledgment], group: str | None
) -> list[Acknowledged]:
    if call.state.settings.require_lease:
        require_leases(acknowledgments)
    await call.require_acks(acknowledgments)
    tracing.describe_settle(call.span, len(acknowledgments), group)
    return await call.state.engine.acknowledge(acknowledgments, consumer_group=group)


def require_leases(
    operations: Sequence[Acknowledgment | PushOperation | AdvanceOperation],
) -> None:
    """Raise BadRequest for the first acknowledgment without a lease."""
    for index, each in enumerate(operations):
        if isinstance(each, Acknowledgment) and not each.lease_id:
            raise errors.BadRequest(
                "this server requires a leaseId in every acknowledgment",
                # In a transaction, the error has the index of the operation.
                **({"failed_index": index} if isinstance(each, AckOperation) else {}),
            )


def refusal_of(answer: Acknowledged | Extended) -> errors.QueenError:
    """Convert a rejected result to an error."""
    error = errors.of_code(answer.code or "") or errors.RequestError
    is_settled = isinstance(answer, Acknowledged) and answer.settled is True
    return error(answer.error, **({"settled": True} if is_settled else {}))


ROUTES: Final = (
    Route(
        method="POST",
        path=f"{API}/ack",
        handler=ack,
        summary="Acknowledge a message",
        permission=Permission.CONSUME,
        span="settle",
        body=Acknowledgment,
        answers={200: Acknowledged},
        problems=REFUSED_ACK,
    ),
    Route(
        method="POST",
        path=f"{API}/ack/batch",
        handler=ack_batch,
        summary="Acknowledge several messages",
        permission=Permission.CONSUME,
        span="settle",
        body=AckRequest,
        answers={200: AckResponse},
        problems=REFUSED_ACK,
    ),
)
