"""A payload is returned as the bytes that were sent."""

import msgspec
import pytest

from queen.engine.engine import Engine
from queen.wire.messages import PopRequest, PushItem
from tests.engine.helpers import dead_letters, message, pop, pop_one, push, settle

EXACT = [
    b"null",
    b"true",
    b'""',
    b"{}",
    b"[]",
    b"-0.0",
    b"1e131071",
    b"123456789012345678901234567890",
    b"0.1000000000000000055511151231257827021181583404541015625",
    b'{"z":1,"a":2,"m":{"z":1,"a":2}}',
    b'{"twice":1,"twice":2}',
    b'{ "white" :\t[ 1 , 2 ]\r\n}',
    b'  \n {"around": 1}\t\r\n ',
    b'"\\u0000"',
    b'{"\\u0000key":"nul \\u0000 inside"}',
    b'"\\u00e9 \\/ \\" \\\\ \\b\\f\\n\\r\\t \\uD83D\\uDC22"',
    '"żółw 🐢 \u2028 \ufeff \x7f"'.encode(),
    b"[" * 64 + b"]" * 64,
    b'"' + b"[{" * 1000 + b'"',
]


@pytest.mark.parametrize("payload", EXACT, ids=range(len(EXACT)))
async def test_a_payload_is_returned_byte_for_byte(engine: Engine, payload: bytes) -> None:
    await engine.push([PushItem(queue="orders", payload=payload)])

    delivery = await pop_one(engine, "orders")

    assert delivery.payloads() == [payload]
    assert bytes(message(delivery, 0).data) == payload


async def test_payloads_of_one_request_stay_separate(engine: Engine) -> None:
    (pushed, *_) = await engine.push([PushItem(queue="orders", payload=each) for each in EXACT])
    assert pushed.offset == 0

    delivery = await pop_one(engine, "orders", batch=100)

    assert delivery.payloads() == EXACT


async def test_bytes_are_the_same_from_the_cache_and_from_the_database(
    engine: Engine, dsn: str
) -> None:
    items = [PushItem(queue="orders", payload=each, headers={"n": "1"}) for each in EXACT]
    await engine.push(items)
    cached = await pop_one(engine, "orders", batch=100)

    async with await Engine.open(dsn) as other:
        read = await pop_one(other, "orders", group="g", batch=100)

    assert cached.payloads() == read.payloads() == EXACT
    assert [each.headers for each in read.messages()] == [{"n": "1"}] * len(EXACT)


async def test_bytes_are_the_same_in_a_dead_letter_and_when_scheduled(engine: Engine) -> None:
    for payload in EXACT:
        await engine.push([PushItem(queue="orders", payload=payload, delay_seconds=0)])
        await settle(engine, await pop_one(engine, "orders"), status="dlq")

    letters = await dead_letters(engine, "orders")
    assert [letter["payload"] for letter in letters] == EXACT
    await engine.dead_letters.redrive([letter["id"] for letter in letters])

    for payload in EXACT:
        delivery = await pop_one(engine, "orders")
        assert delivery.payloads() == [payload]
        await settle(engine, delivery)


async def test_a_raw_value_is_stored_like_bytes(engine: Engine) -> None:
    request = msgspec.json.decode(
        b'{"queue":"orders","payload": {"b" : 1.0, "a":[ ]} }', type=RawItem
    )

    await engine.push([PushItem(queue=request.queue, payload=request.payload)])

    assert (await pop_one(engine, "orders")).payloads() == [b'{"b" : 1.0, "a":[ ]}']


class RawItem(msgspec.Struct):
    """An item as the server decodes it."""

    queue: str
    payload: msgspec.Raw


async def test_headers_and_trace_are_returned_with_their_message(engine: Engine) -> None:
    await push(engine, "orders", "a", headers={"Ключ": "🐢", "empty": ""}, trace_id="t-1")
    await push(engine, "orders", "b")

    first, second = (await pop_one(engine, "orders", batch=2)).messages()

    assert (first.headers, first.trace_id) == ({"Ключ": "🐢", "empty": ""}, "t-1")
    assert (second.headers, second.trace_id) == ({}, None)


async def test_a_message_has_its_queue_partition_and_offset(engine: Engine) -> None:
    (pushed,) = await push(engine, "orders", "a", partition="one")

    (delivery,) = await engine.pop(PopRequest(queue="orders", partition="one", consumer_group="g"))
    (got,) = delivery.messages()

    assert (got.id, got.partition_id, got.offset) == (pushed.id, pushed.partition_id, 0)
    assert (got.queue, got.partition, got.consumer_group) == ("orders", "one", "g")
    assert (got.attempt, got.priority, got.lease_id) == (1, 0, delivery.lease_id)


async def test_large_payloads_are_split_into_segments_and_stay_in_order(engine: Engine) -> None:
    large = [f"{n}" + "x" * 900_000 for n in range(12)]
    pushed = await push(engine, "orders", *large)
    assert [each.offset for each in pushed] == list(range(12))

    delivery = await pop_one(engine, "orders", batch=12)

    starts = [payload[: len(str(n)) + 2] for n, payload in enumerate(delivery.payloads())]
    assert starts == [f'"{n}x'.encode() for n in range(12)]
    assert [len(payload) for payload in delivery.payloads()] == [len(each) + 2 for each in large]
    assert await pop(engine, "orders") == []
