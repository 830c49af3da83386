"""Timestamps outside the years 1 to 9999 in UTC are rejected as bad requests."""

from base64 import urlsafe_b64encode
from urllib.parse import quote

import pytest

from tests.support.calls import a_queue, items, push
from tests.support.server import Server

BEYOND = ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"]
RANGES = [
    "/messages?queue=q&",
    "/dlq?",
    "/audit?",
    "/analytics?namespace=n&",
    "/analytics/queues?",
    "/analytics/throughput?",
    "/analytics/queue-depths?",
    "/analytics/series?metric=pushed&",
]


@pytest.mark.parametrize("instant", BEYOND)
@pytest.mark.parametrize("path", RANGES)
@pytest.mark.parametrize("name", ["from", "to"])
async def test_a_range_outside_utc_years_is_rejected(
    shared: Server, path: str, name: str, instant: str
) -> None:
    reply = await shared.get(f"{path}{name}={quote(instant)}")

    assert (reply.status, reply.code) == (400, "bad_request"), reply.body
    assert reply.body["errors"][0]["pointer"] == f"/{name}"


@pytest.mark.parametrize("instant", BEYOND)
async def test_changes_with_a_time_outside_utc_years_are_rejected(
    shared: Server, instant: str
) -> None:
    queue = a_queue()
    await push(shared, queue, 1)
    group = f"/consumer-groups/g/queues/{queue}/seek"
    for reply in (
        await shared.get(f"/pop/queue/{queue}", consumerGroup="g", subscriptionFrom=instant),
        await shared.post(f"/pop/queue/{queue}", {"subscriptionFrom": instant}),
        await shared.post(group, {"timestamp": instant}),
        await shared.delete("/dlq", queue=queue, **{"from": instant}),
        await shared.post("/dlq/redrive", {"filter": {"queue": queue, "to": instant}}),
        await shared.post("/tokens", {"name": "k", "role": "admin", "expiresAt": instant}),
    ):
        assert (reply.status, reply.code) == (400, "bad_request"), reply.body
    reply = await shared.post("/push", {"items": items(queue, 1, availableAt=instant)})
    assert (reply.status, reply.code) == (422, "invalid_item")


@pytest.mark.parametrize("instant", BEYOND)
async def test_a_cursor_with_a_time_outside_utc_years_is_rejected(
    shared: Server, instant: str
) -> None:
    queue = a_queue()
    await push(shared, queue, 1)
    cursor = urlsafe_b64encode(f'["{instant}",0]'.encode()).rstrip(b"=").decode()

    reply = await shared.get("/messages", queue=queue, status="scheduled", cursor=cursor)

    assert (reply.status, reply.code) == (400, "bad_request")


async def test_the_first_and_last_timestamps_are_accepted(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1)

    reply = await shared.get(
        "/messages",
        queue=queue,
        **{"from": "0001-01-01T00:00:00Z", "to": "9999-12-31T23:59:59Z"},
    )

    assert reply.status == 200
