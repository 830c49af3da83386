"""Convert items of a push from user mappings to request fields."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

from queen import errors
from queen.client.durations import KEPT_SECONDS, LONG_SECONDS, explicit_or
from queen.client.payloads import encode
from queen.wire.messages import PushItem

_FIELDS: Final = {
    "data", "payload", "transactionId", "transaction_id", "headers", "delaySeconds", "delay",
    "availableAt", "available_at", "ttlSeconds", "ttl", "priority", "traceId", "trace_id",
}  # fmt: skip


def item_of(given: Mapping[str, Any], queue: str, partition: str) -> PushItem:
    """Build an item for a queue and partition."""
    if not hasattr(given, "keys"):
        raise errors.InvalidItem(f"an item must be a mapping with 'data', not {given!r}")
    if len(given) == 1 and "data" in given:  # The usual case: the rest is as slow as the encoding.
        return PushItem(queue=queue, partition=partition, payload=encode(given["data"]))
    if unknown := given.keys() - _FIELDS:
        name = min(unknown)
        near = get_close_matches(name, sorted(_FIELDS), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise errors.InvalidItem(f"an item has no field {name!r}{hint}")
    if not ("data" in given or "payload" in given):
        raise errors.InvalidItem("an item needs 'data'")
    headers: dict[str, str] | None = given.get("headers")
    item = PushItem(
        queue=queue,
        partition=partition,
        payload=encode(given["data"] if "data" in given else given["payload"]),
        transaction_id=given.get("transactionId", given.get("transaction_id")),
        trace_id=given.get("traceId", given.get("trace_id")),
        headers=None if headers is None else _copied(headers),
        delay_seconds=explicit_or(given, "delaySeconds", "delay", most=LONG_SECONDS),
        available_at=given.get("availableAt", given.get("available_at")),
        ttl_seconds=explicit_or(given, "ttlSeconds", "ttl", most=KEPT_SECONDS),
        priority=given.get("priority"),
    )
    encode(item)  # Raises here, before the item joins a batch.
    return item


def items_of(
    items: "Sequence[PushItem | Mapping[str, Any]] | Mapping[str, Any]",
) -> Sequence[PushItem]:
    """Read items that name their queue: `PushItem`, mappings, or the body of ``POST /push``."""
    given: Sequence[Any] = [items] if isinstance(items, Mapping) else items
    if isinstance(items, Mapping) and [*items] == ["items"]:
        given = items["items"]
    if all(type(each) is PushItem for each in given):
        return given
    return [each if isinstance(each, PushItem) else _named(each) for each in given]


def _named(given: Mapping[str, Any]) -> PushItem:
    queue = given.get("queue") if hasattr(given, "keys") else None
    if not isinstance(queue, str):
        raise errors.InvalidItem(
            f"queen.push needs the queue of each item: {{'queue': 'orders', 'data': …}}, not"
            f" {given!r}. Or write queen.queue('orders').push([…])."
        )
    rest = {name: given[name] for name in given if name not in ("queue", "partition")}
    return item_of(rest, queue, given.get("partition") or "Default")


def _copied(headers: Mapping[str, str]) -> dict[str, str]:
    """Copy headers, because the caller may change its own later."""
    try:
        return dict(headers)
    except (TypeError, ValueError) as error:
        raise errors.InvalidItem("headers must map names to strings") from error
