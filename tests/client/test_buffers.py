"""Buffers: bounded, lossless, in order, and honest at the end."""

import asyncio

import pytest

from queen import PushError, Queen, errors
from tests.client.faults import Faulty
from tests.server.server import Server

SLOW = {"message_count": 1_000, "time_millis": 60_000}


async def numbers(queen: Queen, name: str) -> list[int]:
    return [message.data for message in await queen.queue(name).batch(10_000).pop()]


async def test_a_failed_flush_keeps_its_batch_and_its_order(shared: Queen, name: str) -> None:
    shared.transport = faulty = Faulty(shared.transport)
    events = shared.queue(name).buffer(message_count=5, time_millis=60_000)
    faulty.lose_answers = 2
    for number in range(12):
        await events.push([{"data": number}])
    await shared.flush_all_buffers()

    assert await numbers(shared, name) == list(range(12))
    assert shared.get_buffer_stats()["flushesFailed"] == 2
    assert shared.get_buffer_stats()["messagesFlushed"] == 12


async def test_a_repeated_flush_has_the_same_number(shared: Queen, name: str) -> None:
    shared.transport = faulty = Faulty(shared.transport)
    faulty.lose_answers = 1
    result = await shared.queue(name).buffer(SLOW).push([{"data": 1}])
    await shared.queue(name).flush_buffer()
    await result.stored()

    pushes = [body for _, path, body in faulty.sent if path == "/api/v1/push"]
    assert len(pushes) == 2
    assert pushes[0] == pushes[1]


async def test_a_full_buffer_makes_pushes_wait(process: Server, name: str) -> None:
    async with Queen(process.base_url, buffer_max_messages=10) as queen:
        queen.transport = faulty = Faulty(queen.transport)
        events = queen.queue(name).buffer(SLOW)
        faulty.is_down = True
        for number in range(10):
            await events.push([{"data": number}])
        waiting = asyncio.create_task(events.push([{"data": 10}]))
        done, _ = await asyncio.wait([waiting], timeout=0.2)
        assert not done

        faulty.is_down = False
        async with asyncio.timeout(10):
            await waiting
        await queen.flush_all_buffers()
        assert await numbers(queen, name) == list(range(11))


async def test_a_full_buffer_raises_if_asked_to(process: Server, name: str) -> None:
    async with Queen(process.base_url, buffer_max_bytes=20) as queen:
        events = queen.queue(name).buffer({**SLOW, "when_full": "raise"})
        await events.push([{"data": "fifteen bytes"}])
        with pytest.raises(errors.BufferFull):
            await events.push([{"data": "fifteen bytes"}])
        assert queen.get_buffer_stats()["totalBufferedBytes"] == 15


async def test_time_sends_a_buffer_too(shared: Queen, name: str) -> None:
    result = await shared.queue(name).buffer(message_count=1_000, time_millis=50).push({"data": 1})
    async with asyncio.timeout(5):
        await result.stored()

    assert result[0].status == "buffered"
    assert await numbers(shared, name) == [1]


async def test_close_flushes(process: Server, shared: Queen, name: str) -> None:
    async with Queen(process.base_url) as queen:
        await queen.queue(name).buffer(SLOW).push([{"data": n} for n in range(3)])

    assert await numbers(shared, name) == [0, 1, 2]


async def test_close_raises_with_what_is_left(process: Server, name: str) -> None:
    queen = Queen(process.base_url, close_timeout=0.3)
    queen.transport = faulty = Faulty(queen.transport)
    faulty.is_down = True
    await queen.queue(name).buffer(SLOW).push([{"data": n} for n in range(3)])

    with pytest.raises(PushError, match="3 buffered messages") as caught:
        await queen.close()

    assert [bytes(each.item.payload) for each in caught.value.failed] == [b"0", b"1", b"2"]


async def test_one_refused_item_does_not_take_its_neighbours_with_it(
    shared: Queen, name: str
) -> None:
    await shared.queue(name).config({"maxPayloadBytes": 100}).create()
    events = shared.queue(name).buffer(SLOW)
    await events.push({"data": 1})
    bad = await events.push({"data": "x" * 200})
    await events.push({"data": 2})

    with pytest.raises(PushError) as caught:
        await shared.flush_all_buffers()
    with pytest.raises(PushError):
        await bad.stored()

    assert [each.code for each in caught.value.failed] == ["payload_too_large"]
    assert await numbers(shared, name) == [1, 2]
    assert shared.get_buffer_stats()["totalBufferedMessages"] == 0


async def test_the_stats_count_what_waits(shared: Queen, name: str) -> None:
    await shared.queue(name).buffer(SLOW).push([{"data": "ab"}, {"data": "cd"}])

    stats = shared.get_buffer_stats()

    assert (stats["activeBuffers"], stats["totalBufferedMessages"]) == (1, 2)
    assert stats["totalBufferedBytes"] == 8
    await shared.flush_all_buffers()
    assert shared.get_buffer_stats()["flushesPerformed"] == 1


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(errors.BadRequest, match="message_cuont"):
        Queen().queue("q").buffer({"message_cuont": 5})
