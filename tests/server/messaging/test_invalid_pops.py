"""Invalid sources, parameters and methods of a pop are rejected."""

import pytest

from tests.support.calls import a_queue, ack, pop_one, push
from tests.support.server import Server


async def test_a_pop_without_a_source_is_rejected(shared: Server) -> None:
    for reply in (await shared.get("/pop"), await shared.post("/pop", {})):
        assert (reply.status, reply.code) == (400, "bad_request")


@pytest.mark.parametrize(
    "parameters",
    [
        "batch=0",
        "batch=many",
        "batch=1.5",
        "partitions=0",
        "wait=perhaps",
        "timeout=-1",
        "leaseSeconds=0",
        "leaseSeconds=43201",
        "leaseSeconds=nan",
        "subscriptionMode=some",
        "subscriptionFrom=yesterday",
        "subscriptionFrom=2030-01-01T00:00:00",
        "subscriptionFrom=now&subscriptionMode=all",
        "bacth=1",
        "batch=1&batch=2",
        "namespace=n",
        "wait=%ff",
    ],
)
async def test_an_unknown_or_invalid_parameter_is_rejected(shared: Server, parameters: str) -> None:
    reply = await shared.request("GET", f"/pop/queue/any?{parameters}")

    assert (reply.status, reply.code, reply.body["applied"]) == (400, "bad_request", False)


@pytest.mark.parametrize(
    "body",
    [
        {"batch": "1"},
        {"wait": "true"},
        {"wait": 1},
        {"queue": "other"},
        {"autoack": True},
        {"timeout": 1.5},
        {"consumerGroup": 1},
    ],
)
async def test_unknown_fields_of_a_body_are_rejected(
    shared: Server, body: dict[str, object]
) -> None:
    reply = await shared.post("/pop/queue/any", body)

    assert (reply.status, reply.code) == (400, "bad_request")


@pytest.mark.parametrize("group", ["__mine", " g", "g" * 256, "a\tb"])
async def test_an_invalid_group_name_is_rejected(shared: Server, group: str) -> None:
    reply = await shared.post("/pop/queue/any", {"consumerGroup": group})

    assert (reply.status, reply.code) == (400, "invalid_name")


async def test_only_get_and_post_can_pop(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1)
    for method in ("HEAD", "PUT", "DELETE"):
        reply = await shared.request(method, f"/pop/queue/{queue}")
        assert reply.status == 405
        assert reply.headers["Allow"] == "GET, POST"

    assert (await ack(shared, await pop_one(shared, queue))).status == 200


@pytest.mark.parametrize("other", [{"namespace": "n"}, {"task": "t"}])
async def test_a_queue_cannot_be_combined_with_another_source(
    shared: Server, other: dict[str, str]
) -> None:
    queue = a_queue()
    await push(shared, queue, 1)

    reply = await shared.post("/pop", {"queue": queue, **other})

    assert (reply.status, reply.code) == (400, "bad_request")


@pytest.mark.parametrize("size", [256, 400, 512])
async def test_a_queue_name_that_is_too_long_is_rejected(shared: Server, size: int) -> None:
    for reply in (
        await shared.get(f"/pop/queue/{'q' * size}"),
        await shared.post("/pop", {"queue": "q" * size}),
        await shared.get("/pop", namespace="n" * size),
    ):
        assert (reply.status, reply.code) == (400, "invalid_name")
