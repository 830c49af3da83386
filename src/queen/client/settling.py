"""What became of messages: ack, nack, extend, release; always with their lease."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

import msgspec

from queen import errors
from queen.client import tracing
from queen.client.connection import Connection
from queen.client.durations import seconds_of
from queen.client.message import Message
from queen.client.transport import decoded
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


class Settling(Connection):
    """The part of a client that says what became of messages."""

    async def ack(
        self,
        messages: "Message[Any] | Sequence[Message[Any]]",
        status: "bool | str" = True,
        context: Mapping[str, Any] | None = None,
    ) -> "Acknowledged | list[AckResult]":
        """
        Say what became of messages: True is done, False failed; or ``retry``, ``dlq``.

        ``context``: ``error`` (why), ``group``, ``delay``. Raises LeaseLost when another consumer
        has a message by now; of several, the others are settled all the same.
        """
        if isinstance(messages, Message):
            body = _ENCODE(self.acknowledgment(messages, status, context))
            with tracing.settling([messages]):
                answer = await self._ack(messages, status, body)
            _note(messages, answer)
            return answer
        return await self.settle([(each, status, context) for each in messages])

    async def _ack(self, message: Message[Any], status: "bool | str", body: bytes) -> Acknowledged:
        try:
            reply = await self.transport.exchange("POST", "/api/v1/ack", body, key=_key(message))
        except errors.LeaseLost as error:
            if error.members.get("is_repeated") and _is_so(status, error.problem.settled):
                # It was our own ack, whose answer got lost, that ended the lease.
                return Acknowledged(
                    transaction_id=message.transaction_id,
                    success=True,
                    noop=True,
                    lease_released=True,
                )
            raise
        return decoded(reply, _DECODE_ACK)

    async def settle(
        self, outcomes: "Sequence[tuple[Message[Any], bool | str, Mapping[str, Any] | None]]"
    ) -> list[AckResult]:
        """Say of each message what became of it, in one call; raises the first refusal."""
        if not outcomes:
            return []
        request = AckRequest(acknowledgments=[self.acknowledgment(*each) for each in outcomes])
        messages = [message for message, _, _ in outcomes]
        with tracing.settling(messages):
            reply = await self.transport.exchange(
                "POST", "/api/v1/ack/batch", _ENCODE(request), key=_key(messages[0])
            )
        results = decoded(reply, _DECODE_ACKS).results
        if reply.is_repeated:
            results = [_ours(result, outcomes[result.index][1]) for result in results]
        refused: AckResult | None = None
        for result in results:
            if result.success:
                messages[result.index].is_settled = True
                messages[result.index].is_delivery_over = result.lease_released
            elif refused is None:
                refused = result
        if refused is not None:
            kind = errors.of_code(refused.code or "") or errors.RequestError
            raise kind(refused.error or "refused", results=results)
        return results

    def acknowledgment(
        self, message: Message[Any], status: "bool | str", context: Mapping[str, Any] | None
    ) -> Acknowledgment:
        """What is said of a message; always with its lease."""
        if isinstance(status, bool):
            status = "completed" if status else "failed"
        elif status not in _STATUSES:
            raise errors.InvalidStatus(f"{status!r} is no status: True, False, retry or dlq")
        if context is None:
            return Acknowledgment(
                id=message.id,
                lease_id=message.lease_id,
                partition_id=message.partition_id,
                consumer_group=message.consumer_group,
                status=status,
            )
        if unknown := context.keys() - _CONTEXT:
            raise errors.BadRequest(f"an ack has no option {min(unknown)}")
        delay = context.get("delay", context.get("delaySeconds"))
        return Acknowledgment(
            id=message.id,
            lease_id=message.lease_id,
            partition_id=message.partition_id,
            consumer_group=context.get("group", message.consumer_group),
            status=status,
            error=context.get("error"),
            delay_seconds=None if delay is None else seconds_of(delay),
        )

    async def renew(
        self, messages: "Message[Any] | Sequence[Message[Any]]", *, seconds: float | None = None
    ) -> list[datetime]:
        """Keep messages longer, by one call; raises LeaseLost when a lease is gone."""
        given = [messages] if isinstance(messages, Message) else list(messages)
        leases = list(dict.fromkeys(each.lease_id for each in given if each.lease_id))
        with tracing.settling(given):
            ends = await self.extend(leases, seconds=seconds)
        if lost := [lease for lease in leases if ends[lease] is None]:
            raise errors.LeaseLost(f"{len(lost)} of {len(leases)} leases are lost")
        return [until for lease in leases if (until := ends[lease]) is not None]

    async def extend(
        self, lease_ids: Sequence[str], *, seconds: float | None = None
    ) -> dict[str, datetime | None]:
        """Move the ends of leases; None for one that is lost."""
        if not lease_ids:
            return {}
        request = ExtendManyRequest(lease_ids=list(lease_ids), seconds=seconds)
        reply = await self.transport.exchange("POST", "/api/v1/lease/extend", _ENCODE(request))
        results = decoded(reply, _DECODE_EXTENDED).results
        return {each.lease_id: each.expires_at for each in results}

    async def release(self, lease_id: str) -> None:
        """Give back what is left of a delivery, at once and uncounted."""
        await self.transport.exchange("POST", f"/api/v1/lease/{quote(lease_id, safe='')}/release")

    async def record_trace(self, message: Message[Any], event: Mapping[str, Any]) -> None:
        """Record an event of a message."""
        body = {
            "transactionId": message.transaction_id,
            "partitionId": message.partition_id,
            "consumerGroup": message.consumer_group,
            **event,
        }
        # Repeated after a lost answer it would stand there twice.
        await self.transport.exchange("POST", "/api/v1/traces", _ENCODE(body), is_repeatable=False)


def _is_so(status: "bool | str", is_settled: object) -> bool:
    """Whether a message whose lease is gone is where a repeated ack wanted it."""
    comes_again = status is False or status in ("failed", "retry")
    return comes_again or is_settled is True


def _ours(result: AckResult, status: "bool | str") -> AckResult:
    """A refusal that our own ack caused, whose answer got lost, is none."""
    if result.success or result.code != "lease_lost" or not _is_so(status, result.settled):
        return result
    return AckResult(
        index=result.index,
        transaction_id=result.transaction_id,
        success=True,
        noop=True,
        lease_released=True,
    )


def _note(message: Message[Any], answer: Acknowledged) -> None:
    if answer.success:
        message.is_settled = True
        message.is_delivery_over = answer.lease_released


def _key(message: Message[Any]) -> str:
    return f"{message.queue}:{message.partition}:{message.consumer_group or ''}"
