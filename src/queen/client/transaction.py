"""Transactions: acks, pushes and workflow steps that are applied together or not at all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import msgspec

from queen import errors
from queen.client import tracing
from queen.client.message import Message
from queen.client.message_reference import Settleable, message_of
from queen.client.queue import Queue
from queen.client.session import Session
from queen.client.transport.base import Reply, decoded
from queen.wire.messages import PushItem
from queen.wire.transactions import (
    AckOperation,
    AdvanceOperation,
    PushOperation,
    TransactionRequest,
    TransactionResponse,
)

_DECODE: Final = msgspec.json.Decoder(TransactionResponse).decode


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """
    Usage::

        await queen.transaction().ack(message).queue("out").push([{"data": 1}]).commit()
    """

    queen: Session
    """The client."""
    operations: tuple[AckOperation | PushOperation | AdvanceOperation, ...] = ()
    """The operations that `commit` sends."""
    acked: tuple[Message[Any], ...] = ()
    """The messages that it acknowledges."""
    target: Queue[Any] | None = None
    """The queue of the next pushes."""
    across_shards: Literal["reject", "outbox"] = "reject"
    """What happens to pushes to other databases."""
    _commits: list[None] = field(default_factory=list[None], init=False, repr=False, compare=False)
    """Not empty once it may have been applied. Transactions built from it have their own."""

    def ack(
        self,
        messages: "Settleable | Sequence[Settleable]",
        status: "bool | str" = True,
        context: Mapping[str, Any] | None = None,
    ) -> "Transaction":
        """Acknowledge messages in the transaction; every ack carries its lease."""
        many = [messages] if isinstance(messages, str | Mapping) else messages
        given = [message_of(each) for each in many]
        settled = [self.queen.acknowledgment(each, status, context) for each in given]
        acks = [AckOperation(**msgspec.structs.asdict(each)) for each in settled]
        return replace(self, operations=(*self.operations, *acks), acked=(*self.acked, *given))

    def queue(self, name: str) -> "Transaction":
        """Set the queue of the next pushes."""
        return replace(self, target=Queue(queen=self.queen, name=name))

    def partition(self, name: str) -> "Transaction":
        """Set the partition of the next pushes."""
        if self.target is None:
            raise errors.BadRequest("set the queue before its partition: .queue(name)")
        return replace(self, target=self.target.partition(name))

    def push(self, items: "Sequence[Mapping[str, Any]] | Mapping[str, Any]") -> "Transaction":
        """Push messages to the current queue, with the arguments of `Queue.push`."""
        if self.target is None:
            raise errors.BadRequest("set the queue before you push: .queue(name)")
        built: list[PushItem] = self.target.items(items)
        return replace(self, operations=(*self.operations, PushOperation(items=built)))

    def advance(self, step: AdvanceOperation) -> "Transaction":
        """
        Complete the workflow step of an acked message.

        Usage::

            queen.transaction().ack(message).advance(place.advance("success", result=b"1"))
        """
        return replace(self, operations=(*self.operations, step))

    async def commit(self) -> TransactionResponse:
        """
        Apply all operations together or not at all, or raise an error.

        A second commit is rejected. You can repeat it after an error with ``applied`` False.
        You can always repeat it if it has an ack, because its lease allows only one commit.
        """
        if not self.operations:
            raise errors.BadRequest("the transaction is empty")
        if self._commits:
            raise errors.Conflict("this transaction was already committed. Build a new one.")
        self._commits.append(None)
        try:
            with tracing.committing(self.acked, self.operations) as operations:
                reply = await self._send(operations)
        except BaseException as error:
            is_unapplied = isinstance(error, errors.QueenError) and error.applied is False
            if is_unapplied or any(each.lease_id is not None for each in self.acked):
                self._commits.clear()
            raise
        acks = (each for each in self.operations if isinstance(each, AckOperation))
        for message, ack in zip(self.acked, acks, strict=True):
            message.is_settled = True
            # The response has no leases. A redelivered message ends its delivery.
            message.is_delivery_over = ack.status in ("failed", "retry")
        return decoded(reply, _DECODE)

    async def _send(
        self, operations: "Sequence[AckOperation | PushOperation | AdvanceOperation]"
    ) -> Reply:
        queen = self.queen
        leases = dict.fromkeys(each.lease_id for each in self.acked if each.lease_id is not None)
        async with queen.producers().lend() as producer:
            request = TransactionRequest(
                operations=list(operations),
                required_leases=list(leases),
                across_shards=self.across_shards,
                producer_id=producer.id,
                sequence=producer.sequence,
            )
            return await queen.transport.exchange(
                "POST", "/api/v1/transaction", msgspec.json.encode(request)
            )
