"""References to messages: a mapping that was stored and read back, or a transactionId."""

from collections.abc import Mapping
from typing import Any, cast

from queen import errors
from queen.client.message import Message
from queen.wire.messages import Acknowledgment

Settleable = Message[Any] | Mapping[str, Any] | str
"""A message, the mapping of one, or a transactionId."""


class MessageReference:
    """Stands in for a `Message` that was not popped here, while it is acknowledged."""

    def __init__(self, given: "Mapping[str, Any] | str") -> None:
        found: Mapping[str, Any] = {"transactionId": given} if isinstance(given, str) else given
        self.id: str | None = found.get("id")
        self.transaction_id: str | None = found.get("transactionId")
        if not (self.id or self.transaction_id):
            raise errors.BadRequest(
                "A message given as a mapping needs 'id' or 'transactionId'. Pass the message"
                " itself, dict(message), or {'transactionId': …, 'partitionId': …, 'leaseId': …}."
            )
        self.queue: str = found.get("queue", "")
        self.partition: str = found.get("partition", "")
        self.partition_id: str | None = found.get("partitionId")
        self.lease_id: str | None = found.get("leaseId")
        self.consumer_group: str | None = found.get("consumerGroup")
        self.is_settled = False
        self.is_delivery_over = False

    def done(self) -> Acknowledgment:
        """Acknowledge it as completed, by its id if that is known."""
        return Acknowledgment(
            id=self.id,
            transaction_id=None if self.id else self.transaction_id,
            lease_id=self.lease_id,
            partition_id=self.partition_id,
            consumer_group=self.consumer_group,
        )

    def __repr__(self) -> str:
        return f"message {self.id or self.transaction_id}"


def message_of(given: object) -> Message[Any]:
    """The message itself, or the reference that stands in for it."""
    if isinstance(given, Message):
        return cast("Message[Any]", given)
    if isinstance(given, str | Mapping):
        reference: Any = MessageReference(cast("Mapping[str, Any] | str", given))
        return reference
    raise errors.BadRequest(
        f"A message, its mapping or its transactionId is needed, not {given!r}."
    )
