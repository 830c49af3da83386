"""Acknowledge messages, extend and release their leases."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

import msgspec

from queen import errors
from queen.client import tracing
from queen.client.connection import Connection
from queen.client.durations import LONG_SECONDS, Duration, explicit_or, seconds_of
from queen.client.message import Message
from queen.client.message_reference import Settleable, message_of
from queen.client.transport.base import Reply, decoded
from queen.wire.messages import (
    Acknowledged,
    Acknowledgment,
    AckRequest,
    AckResponse,
    AckResult,
    ExtendManyRequest,
    ExtendManyResponse,
)

_ENCODE: Final = msgspec.json.Encoder().encode
_DECODE_ACK: Final = msgspec.json.Decoder(Acknowledged).decode
_DECODE_ACKS: Final = msgspec.json.Decoder(AckResponse).decode
_DECODE_EXTENDED: Final = msgspec.json.Decoder(ExtendManyResponse).decode
_CONTEXT: Final = frozenset({"error", "group", "delay", "delaySeconds"})
_STATUSES: Final = frozenset(
    {"completed", "success", "acked", "ok", "failed", "retry", "dlq", "dead_letter"}
)


class _BriefResult(msgspec.Struct, rename="camel", gc=False):
    """The fields of an `AckResult` that consumers and workers need."""

    index: int
    success: bool
    lease_released: bool = False
    settled: bool = False
    """Set with a lost lease: the message is completed all the same."""


class _BriefResponse(msgspec.Struct, gc=False):
    success: bool
    results: list[_BriefResult]


decode_brief: Final = msgspec.json.Decoder(_BriefResponse).decode
"""Decode the response of a batch of acks, faster than as an `AckResponse`."""


class Settler(Connection):
    """The part of a client that acknowledges messages and renews their leases."""

    async def ack(
        self,
        messages: "Settleable | Sequence[Settleable]",
        status: "bool | str" = True,
        context: Mapping[str, Any] | None = None,
    ) -> "Acknowledged | list[AckResult]":
        """
        Acknowledge messages: True is completed, False failed; or ``retry``, ``dlq``.

        ``context``: ``error``, ``group``, ``delay``. Raises LeaseLost if another consumer has a
        message by now. The other messages of the call are acknowledged.

        A message may be given as ``dict(message)`` or by its transactionId. Without ``leaseId``
        the server acknowledges the current delivery of the group.
        """
        if isinstance(messages, str | Mapping):
            message = message_of(messages)
            body = _ENCODE(self.acknowledgment(message, status, context))
            with tracing.settling([message]):
                answer = await self._ack(message, status, body)
            _mark_settled(message, answer)
            return answer
        return await self.settle([(each, status, context) for each in messages])

    async def _ack(self, message: Message[Any], status: "bool | str", body: bytes) -> Acknowledged:
        try:
            reply = await self.transport.exchange(
                "POST",
                "/api/v1/ack",
                body,
                key=_key(message),
                # Without its lease a repeat could settle the next delivery, another consumer's.
                is_repeatable=message.lease_id is not None,
            )
        except errors.LeaseLost as error:
            if error.members.get("is_repeated") and _is_as_wanted(status, error.problem.settled):
                # An earlier attempt of this ack, whose response got lost, ended the lease.
                return Acknowledged(**_applied_before(message.transaction_id))
            reason = _reason(message, error, error.problem.settled)
            raise errors.LeaseLost(reason, **error.members) from error
        return decoded(reply, _DECODE_ACK)

    async def settle(
        self, outcomes: "Sequence[tuple[Settleable, bool | str, Mapping[str, Any] | None]]"
    ) -> list[AckResult]:
        """Acknowledge each message with its own status, in one call; raises the first rejection."""
        if not outcomes:
            return []
        messages = [message_of(message) for message, _, _ in outcomes]
        acks = [
            self.acknowledgment(message, status, context)
            for message, (_, status, context) in zip(messages, outcomes, strict=True)
        ]
        replies = await self._send_acks(messages, acks)
        return _applied(replies, messages, [status for _, status, _ in outcomes])

    async def complete(
        self, messages: "Sequence[Message[Any]]", lease_id: str | None = None
    ) -> None:
        """
        Acknowledge messages as completed; cheaper than `settle`, without their results.

        ``lease_id``: their lease, if they are all messages of their delivery.
        """
        if not messages:
            return
        is_repeated = False
        if lease_id is not None:
            try:
                await self._complete_lease(messages, lease_id)
                return
            except errors.LeaseLost as error:
                # Which messages are lost: all, or none if an earlier attempt was applied.
                is_repeated = bool(error.members.get("is_repeated"))
        replies = await self._send_acks(messages, [message.done() for message in messages])
        if is_repeated:
            replies = [(first, reply._replace(is_repeated=True)) for first, reply in replies]
        briefs = [(first, decoded(reply, decode_brief)) for first, reply in replies]
        if not all(brief.success for _, brief in briefs):
            _applied(replies, messages, [True] * len(messages))
            return
        for first, brief in briefs:
            for result in brief.results:
                _mark_settled(messages[first + result.index], result)

    async def _complete_lease(self, messages: "Sequence[Message[Any]]", lease_id: str) -> None:
        with tracing.settling(messages):
            await self.transport.exchange(
                "POST", f"/api/v1/lease/{quote(lease_id, safe='')}/ack", key=_key(messages[0])
            )
        for message in messages:
            message.is_settled = message.is_delivery_over = True

    async def _send_acks(
        self, messages: "Sequence[Message[Any]]", acks: list[Acknowledgment]
    ) -> list[tuple[int, Reply]]:
        """
        Yield each response with the index of its first acknowledgment.

        There are several if a server or a proxy rejected one request as too large.
        """
        body = _ENCODE(AckRequest(acknowledgments=acks))
        try:
            with tracing.settling(messages):
                reply = await self.transport.exchange(
                    "POST",
                    "/api/v1/ack/batch",
                    body,
                    key=_key(messages[0]),
                    is_repeatable=all(ack.lease_id is not None for ack in acks),
                )
            return [(0, reply)]
        except (errors.BodyTooLarge, errors.TooManyItems):
            if len(acks) == 1:
                raise
        half = len(acks) // 2
        replies = await self._send_acks(messages[:half], acks[:half])
        rest = await self._send_acks(messages[half:], acks[half:])
        return [*replies, *((half + first, reply) for first, reply in rest)]

    def acknowledgment(
        self, message: Message[Any], status: "bool | str", context: Mapping[str, Any] | None
    ) -> Acknowledgment:
        """The acknowledgment of a message; always with its lease."""
        if isinstance(status, bool):
            status = "completed" if status else "failed"
        elif status not in _STATUSES:
            raise errors.InvalidStatus(f"{status!r} is not a status: use True, False, retry or dlq")
        if context is None:
            return msgspec.structs.replace(message.done(), status=status)
        if unknown := context.keys() - _CONTEXT:
            raise errors.BadRequest(f"an ack has no option {min(unknown)}")
        return msgspec.structs.replace(
            message.done(),
            consumer_group=context.get("group", message.consumer_group),
            status=status,
            error=context.get("error"),
            delay_seconds=explicit_or(context, "delaySeconds", "delay", most=LONG_SECONDS),
        )

    async def renew(
        self, messages: "Settleable | Sequence[Settleable]", *, seconds: Duration | None = None
    ) -> list[datetime]:
        """
        Extend the leases of messages, in one call; raises LeaseLost if a lease is lost.

        Its member ``lost`` lists the messages of lost leases. The other leases are extended.
        """
        many = [messages] if isinstance(messages, str | Mapping) else messages
        given = [message_of(each) for each in many]
        for each in given:
            if each.lease_id is None:
                raise errors.AlreadySettled(f"{each}: its pop acknowledged it, so it has no lease")
        leases = list(dict.fromkeys(each.lease_id for each in given if each.lease_id))
        with tracing.settling(given):
            ends = await self.extend(leases, seconds=seconds)
        if lost := [each for each in given if ends[each.lease_id or ""] is None]:
            gone = {each.lease_id for each in lost}
            text = f"{len(gone)} of {len(leases)} leases are lost, including that of {lost[0]}"
            raise errors.LeaseLost(text, lost=lost)
        return [until for lease in leases if (until := ends[lease]) is not None]

    async def extend(
        self, lease_ids: Sequence[str], *, seconds: Duration | None = None
    ) -> dict[str, datetime | None]:
        """Extend leases and return their new ends; None for a lease that is lost."""
        if not lease_ids:
            return {}
        request = ExtendManyRequest(
            lease_ids=list(lease_ids),
            seconds=None if seconds is None else seconds_of(seconds, "seconds"),
        )
        try:
            reply = await self.transport.exchange("POST", "/api/v1/lease/extend", _ENCODE(request))
        except (errors.TooManyItems, errors.BodyTooLarge):
            if len(lease_ids) == 1:
                raise
            half = len(lease_ids) // 2
            ends = await self.extend(lease_ids[:half], seconds=seconds)
            return ends | await self.extend(lease_ids[half:], seconds=seconds)
        results = decoded(reply, _DECODE_EXTENDED).results
        return {each.lease_id: each.expires_at for each in results}

    async def release(self, lease_id: str) -> None:
        """Return the rest of a delivery to the queue immediately, without counting an attempt."""
        await self.transport.exchange("POST", f"/api/v1/lease/{quote(lease_id, safe='')}/release")

    async def record_trace(self, message: Message[Any], event: Mapping[str, Any]) -> None:
        """Record a trace event of a message."""
        body = {
            "transactionId": message.transaction_id,
            "partitionId": message.partition_id,
            "consumerGroup": message.consumer_group,
            **event,
        }
        # Repeated after a lost response, it would be recorded twice.
        await self.transport.exchange("POST", "/api/v1/traces", _ENCODE(body), is_repeatable=False)


def _applied(
    replies: Sequence[tuple[int, Reply]],
    messages: "Sequence[Message[Any]]",
    statuses: "Sequence[bool | str]",
) -> list[AckResult]:
    """Mark the messages as acknowledged and return the results; raises the first rejection."""
    results: list[AckResult] = []
    for first, reply in replies:
        some = decoded(reply, _DECODE_ACKS).results
        if first:
            some = [msgspec.structs.replace(each, index=first + each.index) for each in some]
        if reply.is_repeated:
            some = [_accepted(each, statuses[each.index]) for each in some]
        results += some
    for result in results:
        _mark_settled(messages[result.index], result)
    refused = next((result for result in results if not result.success), None)
    if refused is not None:
        kind = errors.of_code(refused.code or "") or errors.RequestError
        text = refused.error or "refused"
        raise kind(_reason(messages[refused.index], text, refused.settled), results=results)
    return results


def _is_as_wanted(status: "bool | str", is_settled: object) -> bool:
    """Whether a message with a lost lease is in the state that a repeated ack asked for."""
    is_redelivered = status is False or status in ("failed", "retry")
    return is_redelivered or is_settled is True


def _applied_before(transaction_id: str | None) -> dict[str, Any]:
    """The fields of the result for an ack that an earlier attempt has applied."""
    return {"transaction_id": transaction_id, "success": True, "noop": True, "lease_released": True}


def _reason(message: Message[Any], text: object, is_settled: object) -> str:
    """The text of a rejection, with the message and whether it was acknowledged before."""
    if is_settled is not True:
        return f"{message}: {text}"
    by = "by this client" if message.is_settled else "by another consumer or a late ack"
    return f"{message}: its lease has ended, because it was acknowledged {by}"


def _accepted(result: AckResult, status: "bool | str") -> AckResult:
    """The result; successful if an earlier attempt of the same ack caused the rejection."""
    if result.success or result.code != "lease_lost" or not _is_as_wanted(status, result.settled):
        return result
    return AckResult(index=result.index, **_applied_before(result.transaction_id))


def _mark_settled(message: Message[Any], result: Acknowledged | _BriefResult) -> None:
    if result.success:
        message.is_settled = True
        message.is_delivery_over = result.lease_released


def _key(message: Message[Any]) -> str:
    return f"{message.queue}:{message.partition}:{message.consumer_group or ''}"
