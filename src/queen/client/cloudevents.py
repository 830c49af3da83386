"""
CloudEvents 1.0 as messages: ``id`` is the transactionId, ``subject`` the partition.

In binary mode, the payload is the event's data, and the other attributes are headers ``ce-…``. In
structured mode, the payload is the whole event.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Literal, cast

from queen import errors
from queen.client.message import Message
from queen.client.queue import Queue
from queen.wire.messages import Pushed

_REQUIRED: Final = ("id", "source", "type")
_STRUCTURED: Final = "application/cloudevents+json"


async def push(
    queue: Queue[Any],
    event: Mapping[str, Any],
    *,
    mode: Literal["binary", "structured"] = "binary",
) -> list[Pushed]:
    """
    Push an event; its subject is its partition.

    Usage::

        event = {"id": "1", "source": "/shop", "type": "order.placed", "subject": "c7", "data": {}}
        await cloudevents.push(queen.queue("orders"), event)
    """
    subject = event.get("subject")
    target = queue if subject is None else queue.partition(str(subject))
    return await target.push([to_item(event, mode=mode)])


def to_item(
    event: Mapping[str, Any], *, mode: Literal["binary", "structured"] = "binary"
) -> dict[str, Any]:
    """Convert an event to an item of a push."""
    attributes = {"specversion": "1.0", **event}
    if missing := [name for name in _REQUIRED if not attributes.get(name)]:
        raise errors.InvalidItem(f"a CloudEvent needs {missing[0]!r}")
    if attributes["specversion"] != "1.0":
        raise errors.InvalidItem(
            f"CloudEvents {attributes['specversion']} is not supported, only 1.0"
        )
    id_ = str(attributes["id"])
    if mode == "structured":
        headers = {"content-type": _STRUCTURED}
        return {"data": attributes, "transactionId": id_, "headers": headers}
    data = attributes.pop("data", None)
    headers = {
        f"ce-{name}": _text(value)
        for name, value in attributes.items()
        if value is not None and name != "datacontenttype"
    }
    headers["content-type"] = str(attributes.get("datacontenttype") or "application/json")
    return {"data": data, "transactionId": id_, "headers": headers}


def of(message: Message[Any]) -> dict[str, Any]:
    """Return the event in a message, binary or structured. Raises UndecodablePayload."""
    headers = message.headers
    if headers.get("content-type", "").startswith(_STRUCTURED):
        data: Any = message.data
        if not isinstance(data, dict):
            raise errors.UndecodablePayload("a structured CloudEvent must be an object - at `$`")
        event = cast("dict[str, Any]", data)
    else:
        event = {
            name.removeprefix("ce-"): value
            for name, value in headers.items()
            if name.startswith("ce-")
        }
        if "content-type" in headers:
            event["datacontenttype"] = headers["content-type"]
        event["data"] = message.data
    for name in _REQUIRED:
        if name not in event:
            raise errors.UndecodablePayload(f"the message is not a CloudEvent: it lacks {name!r}")
    return event


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime) else str(value)
