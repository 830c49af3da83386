"""Acknowledge messages."""

from collections.abc import Sequence
from typing import Final

from queen import errors
from queen.server.auth.permissions import Permission
from queen.server.http import message_json
from queen.server.http.answer import Answer
from queen.server.http.call import Call, new_routes
from queen.server.middleware import tracing
from queen.wire.messages import Acknowledged, Acknowledgment, AckRequest, AckResponse, Extended
from queen.wire.transactions import AckOperation, AdvanceOperation, PushOperation

REFUSED_ACK: Final = (
    errors.InvalidStatus,
    errors.LeaseLost,
    errors.AlreadySettled,
    errors.AmbiguousMessage,
    errors.MessageNotFound,
    errors.TooManyItems,
)

ROUTES, route = new_routes()


@route(
    "POST /api/v1/ack",
    "Acknowledge a message",
    Permission.CONSUME,
    {200: Acknowledged},
    span="settle",
    body=Acknowledgment,
    problems=REFUSED_ACK,
)
async def ack(call: Call) -> Answer:
    """Complete, retry or dead-letter one message."""
    return await settle_one(call, await call.body(Acknowledgment))


async def settle_one(call: Call, request: Acknowledgment) -> Answer:
    """Apply the acknowledgment of one message; raises the rejection."""
    (answer,) = await _acknowledge(call, [request], None)
    if answer.code is not None:
        raise refusal_of(answer)
    return Answer(answer)


@route(
    "POST /api/v1/ack/batch",
    "Acknowledge several messages",
    Permission.CONSUME,
    {200: AckResponse},
    span="settle",
    body=AckRequest,
    problems=REFUSED_ACK,
)
async def ack_batch(call: Call) -> Answer:
    """Complete, retry or dead-letter several messages. The accepted ones commit together."""
    return await settle(call, await call.body(AckRequest))


async def settle(call: Call, request: AckRequest) -> Answer:
    """Apply several acknowledgments."""
    if not request.acknowledgments:
        raise errors.BadRequest("the request has no acknowledgments")
    answers = await _acknowledge(call, request.acknowledgments, request.consumer_group)
    return Answer(message_json.acknowledged(answers))


async def _acknowledge(
    call: Call, acknowledgments: Sequence[Acknowledgment], group: str | None
) -> list[Acknowledged]:
    await check_acks(call, acknowledgments)
    tracing.describe_settle(call.span, len(acknowledgments), group)
    return await call.state.cluster.acknowledge(acknowledgments, consumer_group=group)


async def check_acks(call: Call, acknowledgments: Sequence[Acknowledgment]) -> None:
    """Raise if the caller may not apply these, or this server requires their leases."""
    if call.state.settings.require_lease:
        require_leases(acknowledgments)
    call.caller.require(Permission.CONSUME)  # The route of a stream has no permission.
    if call.caller.scopes is not None:
        await call.require_acks(acknowledgments)


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
