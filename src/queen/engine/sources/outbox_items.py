"""The format of messages in an outbox."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from queen.store.connection.database import Record
from queen.wire.messages import PushItem, Request


class OutboxItem(Request, frozen=True, kw_only=True, omit_defaults=True):
    """An item of a push without its payload, as ``queen.enqueue`` stores it."""

    queue: str
    partition: str = "Default"
    transaction_id: str | None = None
    trace_id: str | None = None
    headers: dict[str, str] | None = None
    available_at: datetime | None = None
    ttl_seconds: float | None = None
    priority: int | None = None


_ENCODE: Final = msgspec.json.Encoder().encode
_DECODE: Final = msgspec.json.Decoder(OutboxItem).decode


def item_of(row: Record) -> PushItem:
    """Decode a message of the outbox. Raises MsgspecError."""
    fields = msgspec.structs.asdict(_DECODE(row["item"]))
    return PushItem(payload=msgspec.Raw(row["payload"].encode()), **fields)


def columns_of(items: Sequence[PushItem]) -> Sequence[object]:
    """The columns of pushed items that a transaction forwards, in the order of the statement."""
    if not items:
        return ()
    return (
        [each.queue for each in items],
        [_ENCODE(_without_payload(each)).decode() for each in items],
        [bytes(each.payload).decode() for each in items],
        [each.delay_seconds for each in items],
    )


def _without_payload(item: PushItem) -> OutboxItem:
    # A delay counts from the time of the transaction, so the statement computes its end.
    return OutboxItem(**{name: getattr(item, name) for name in OutboxItem.__struct_fields__})
