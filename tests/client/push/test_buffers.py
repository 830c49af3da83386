"""Buffers are bounded, ordered and lossless, and report messages that they cannot store."""

import asyncio
import contextlib

import pytest

from queen import Message, PushError, Queen, errors
from queen.client.consume.consumer import Consumption
from tests.client.faults import Faulty
from tests.support.server import Server

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


async def test_a_repeated_flush_has_the_same_sequence(shared: Queen, name: str) -> None:
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


async def test_a_full_buffer_raises_if_configured(process: Server, name: str) -> None:
    async with Queen(process.base_url, buffer_max_bytes=20) as queen:
        events = queen.queue(name).buffer({**SLOW, "when_full": "raise"})
        await events.push([{"data": "fifteen bytes"}])
        with pytest.raises(errors.BufferFull):
            await events.push([{"data": "fifteen bytes"}])
        assert queen.get_buffer_stats()["totalBufferedBytes"] == 15


async def test_a_buffer_is_flushed_after_its_time(shared: Queen, name: str) -> None:
    result = await shared.queue(name).buffer(message_count=1_000, time_millis=50).push({"data": 1})
    async with asyncio.timeout(5):
        await result.stored()

    assert result[0].status == "buffered"
    assert await numbers(shared, name) == [1]


async def test_close_flushes(process: Server, shared: Queen, name: str) -> None:
    async with Queen(process.base_url) as queen:
        await queen.queue(name).buffer(SLOW).push([{"data": n} for n in range(3)])

    assert await numbers(shared, name) == [0, 1, 2]


async def test_close_raises_with_the_unsent_messages(process: Server, name: str) -> None:
    queen = Queen(process.base_url, close_timeout=0.3)
    queen.transport = faulty = Faulty(queen.transport)
    faulty.is_down = True
    await queen.queue(name).buffer(SLOW).push([{"data": n} for n in range(3)])

    with pytest.raises(PushError, match="3 buffered messages") as caught:
        await queen.close()

    assert [bytes(each.item.payload) for each in caught.value.failed] == [b"0", b"1", b"2"]


async def test_a_rejected_item_does_not_affect_the_others(shared: Queen, name: str) -> None:
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


async def test_the_stats_count_buffered_messages(shared: Queen, name: str) -> None:
    await shared.queue(name).buffer(SLOW).push([{"data": "ab"}, {"data": "cd"}])

    stats = shared.get_buffer_stats()

    assert (stats["activeBuffers"], stats["totalBufferedMessages"]) == (1, 2)
    assert stats["totalBufferedBytes"] == 8
    await shared.flush_all_buffers()
    assert shared.get_buffer_stats()["flushesPerformed"] == 1


def test_an_unknown_option_is_rejected() -> None:
    with pytest.raises(errors.BadRequest, match="message_cuont"):
        Queen().queue("q").buffer({"message_cuont": 5})


async def test_an_invalid_item_is_rejected_before_it_is_buffered(shared: Queen, name: str) -> None:
    events = shared.queue(name).buffer(SLOW)
    await events.push({"data": 1})
    with pytest.raises(errors.InvalidItem):
        await events.push({"data": 2, "headers": {"name": "caf\udce9"}})
    with pytest.raises(errors.InvalidItem):
        await events.push({"data": 2, "transactionId": "caf\udce9"})
    await events.push({"data": 3})
    await shared.flush_all_buffers()

    assert await numbers(shared, name) == [1, 3]


async def test_headers_are_copied_when_pushed(shared: Queen, name: str) -> None:
    headers = {"kind": "first"}
    await shared.queue(name).buffer(SLOW).push({"data": 1, "headers": headers})
    headers["kind"] = "second"
    await shared.flush_all_buffers()

    (message,) = await shared.queue(name).pop()
    assert message.headers["kind"] == "first"


@pytest.mark.parametrize("answer", [RuntimeError("of nobody"), b"<html></html>"])
async def test_a_batch_is_kept_after_any_error_of_a_flush(
    shared: Queen, name: str, answer: Exception | bytes
) -> None:
    shared.transport = faulty = Faulty(shared.transport)
    faulty.answers = [answer, answer]
    events = shared.queue(name).buffer(message_count=2, time_millis=60_000)
    result = await events.push([{"data": 0}, {"data": 1}])
    await events.push([{"data": 2}, {"data": 3}])
    async with asyncio.timeout(10):
        await result.stored()
        await shared.flush_all_buffers()

    assert await numbers(shared, name) == [0, 1, 2, 3]
    assert shared.get_buffer_stats()["flushesFailed"] == 2


async def test_each_push_reports_only_its_own_items(shared: Queen, name: str) -> None:
    await shared.queue(name).config({"maxPayloadBytes": 100}).create()
    events = shared.queue(name).buffer(SLOW)
    good = await events.push({"data": 1})
    bad = await events.push([{"data": 2}, {"data": "x" * 200}])
    later = [await events.push({"data": "y" * 200}) for _ in range(150)]
    with pytest.raises(PushError):
        await shared.flush_all_buffers()

    await good.stored()
    for refused in (bad, *later):
        with pytest.raises(PushError) as caught:
            await refused.stored()
        assert [each.code for each in caught.value.failed] == ["payload_too_large"]


async def test_a_rejection_is_kept_however_many_follow(shared: Queen, name: str) -> None:
    await shared.queue(name).config({"maxPayloadBytes": 100}).create()
    events = shared.queue(name).buffer(message_count=1, time_millis=60_000)
    first = await events.push({"data": "x" * 200})
    for _ in range(120):
        with pytest.raises(PushError):
            await (await events.push({"data": "x" * 200})).stored()

    with pytest.raises(PushError):
        await first.stored()
    assert shared.get_buffer_stats()["messagesRefused"] == 121
    with pytest.raises(PushError, match="121 buffered"):
        await shared.flush_all_buffers()


async def test_large_headers_are_sent_in_several_requests(shared: Queen, name: str) -> None:
    await shared.queue(name).create()
    items = [{"data": n, "headers": {"kind": "x" * 4_000}} for n in range(4_500)]
    shared.transport = faulty = Faulty(shared.transport)
    await shared.queue(name).push(items)
    await shared.queue(name).partition("b").buffer(message_count=4_500).push(items)
    await shared.flush_all_buffers()

    pushes = [body for _, path, body in faulty.sent if path == "/api/v1/push"]
    assert max(len(body or b"") for body in pushes) < 17 * 2**20
    assert len(pushes) == 2 + 3


async def test_a_request_that_is_too_large_is_split_in_halves(shared: Queen, name: str) -> None:
    shared.transport = faulty = Faulty(shared.transport)
    faulty.answers = [errors.BodyTooLarge("too large"), errors.BodyTooLarge("too large")]
    result = await shared.queue(name).buffer(SLOW).push([{"data": n} for n in range(7)])
    await shared.flush_all_buffers()
    await result.stored()

    assert await numbers(shared, name) == list(range(7))


async def test_close_fails_the_waits_for_unsent_messages(process: Server, name: str) -> None:
    queen = Queen(process.base_url, close_timeout=0.3)
    queen.transport = faulty = Faulty(queen.transport)
    faulty.is_down = True
    result = await queen.queue(name).buffer(SLOW).push({"data": 1})
    waiting = asyncio.create_task(result.stored())
    with pytest.raises(PushError) as caught:
        await queen.close()

    assert [each.code for each in caught.value.failed] == ["server_unreachable"]
    async with asyncio.timeout(5):
        for told in (waiting, result.stored()):
            with pytest.raises(PushError, match="1 of 1"):
                await told


async def test_close_reports_an_unknown_outcome(process: Server, name: str) -> None:
    queen = Queen(process.base_url, close_timeout=0.3)
    queen.transport = faulty = Faulty(queen.transport)
    faulty.lose_answers = 1_000
    await queen.queue(name).buffer(message_count=1).push({"data": 1})
    with pytest.raises(PushError) as caught:
        await queen.close()

    assert [each.code for each in caught.value.failed] == ["outcome_unknown"]


def test_buffers_continue_in_the_next_event_loop(process: Server, name: str) -> None:
    queen = Queen(process.base_url)
    events = queen.queue(name).buffer(SLOW)

    async def begin() -> None:
        for number in range(3):
            await events.push({"data": number})

    async def end() -> list[int]:
        async with queen:
            await events.push({"data": 3})
            await queen.flush_all_buffers()
            return await numbers(queen, name)

    asyncio.run(begin())
    assert queen.get_buffer_stats()["totalBufferedMessages"] == 3
    assert asyncio.run(end()) == [0, 1, 2, 3]


async def test_close_flushes_after_a_failed_consumer(
    process: Server, shared: Queen, name: str
) -> None:
    begun = asyncio.Event()

    async def handler(message: Message[int]) -> None:
        begun.set()

    queen = Queen(process.base_url)
    await queen.queue(name).push({"data": 0})
    work = queen.queue(name).group("g").start(handler)
    await begun.wait()
    await queen.queue(name).partition("b").buffer(SLOW).push({"data": 1})

    async def failing(*, now: bool = False) -> None:
        raise errors.Unauthorized("revoked")

    setattr(work, "stop", failing)  # noqa: B010 - replaces a method
    with pytest.raises(errors.Unauthorized):
        await queen.close()

    (message,) = await shared.queue(name).partition("b").pop()
    assert message.data == 1
    with contextlib.suppress(errors.BadRequest):  # It may have polled with the closed client.
        await Consumption.stop(work)
