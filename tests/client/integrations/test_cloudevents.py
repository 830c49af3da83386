"""CloudEvents round-trip in binary and structured mode."""

from datetime import UTC, datetime
from typing import Any, Literal

import pytest

from queen import Queen, cloudevents, errors

EVENT: dict[str, Any] = {
    "id": "e-1",
    "source": "/shop",
    "type": "order.placed",
    "subject": "customer-7",
    "time": "2026-01-01T00:00:00Z",
    "sampled": "true",
    "datacontenttype": "application/json",
    "data": {"total": 12},
}


@pytest.mark.parametrize("mode", ["binary", "structured"])
async def test_an_event_round_trips(
    shared: Queen, name: str, mode: Literal["binary", "structured"]
) -> None:
    await cloudevents.push(shared.queue(name), EVENT, mode=mode)

    (message,) = await shared.queue(name).pop()

    assert cloudevents.of(message) == {"specversion": "1.0", **EVENT}
    assert (message.transaction_id, message.partition) == ("e-1", "customer-7")


async def test_attributes_are_headers_and_data_is_the_payload(shared: Queen, name: str) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    await cloudevents.push(shared.queue(name), {**EVENT, "time": at, "sampled": True})

    (message,) = await shared.queue(name).pop()

    assert message.data == {"total": 12}
    assert message.headers["ce-type"] == "order.placed"
    assert message.headers["ce-time"] == "2026-01-01T00:00:00+00:00"
    assert message.headers["ce-sampled"] == "true"


def test_an_invalid_event_is_rejected() -> None:
    with pytest.raises(errors.InvalidItem, match="'source'"):
        cloudevents.to_item({"id": "1", "type": "t"})
    with pytest.raises(errors.InvalidItem, match=r"0\.3"):
        cloudevents.to_item({"id": "1", "type": "t", "source": "s", "specversion": "0.3"})


async def test_a_message_without_an_event_raises(shared: Queen, name: str) -> None:
    await shared.queue(name).push([{"data": 1}])
    (message,) = await shared.queue(name).pop()

    with pytest.raises(errors.UndecodablePayload, match="not a CloudEvent"):
        cloudevents.of(message)
