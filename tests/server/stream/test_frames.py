"""Hostile frames end their stream, with bounded work, and no other one."""

import asyncio
import json
from typing import Any
from uuid import uuid4

import pytest

from queen.wire import websocket
from tests.server.stream.streams import items, payloads, stream, upgraded
from tests.support.server import Server


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "null",
        "7",
        "{",
        "{}",
        '{"id":1}',
        '{"id":-1,"push":{}}',
        '{"id":"a","push":{}}',
        '{"push":{"items":[]}}',
        '{"id":1,"push":{},"pop":{}}',
        '{"id":1,"unknown":{}}',
        '{"credit":{"id":1,"messages":0}}',
        '{"credit":{"id":1,"messages":1},"cancel":"x"}',
        '[{"id":1,"pop":{"queue":"a","wait":true}},{"id":1,"pop":{"queue":"a"}}]',
        "[" * 100_000,
        json.dumps([{"id": 1, "nested": [[[]]]}]),
        "[" + ",".join(['{"cancel":1}'] * 20_000) + "]",
    ],
)
async def test_a_frame_without_a_valid_operation_closes_the_stream(
    shared: Server, frame: str
) -> None:
    async with stream(shared) as opened:
        await opened.send(frame)
        assert await opened.closed() == 1008


async def test_text_that_is_not_utf8_closes_the_stream(shared: Server) -> None:
    async with stream(shared) as opened:
        await opened.socket.send_bytes(b'{"id":1,"push":{"items":[{"queue":"\xff","payload":1}]}}')
        assert await opened.closed() == 1008


async def test_an_empty_list_is_ignored(shared: Server) -> None:
    async with stream(shared) as opened:
        await opened.send([])
        assert "result" in await opened.call(push=items("empty", 1))


async def test_a_large_frame_is_processed_in_order_with_those_behind_it(shared: Server) -> None:
    queue = f"q-{uuid4().hex}"
    await shared.post("/configure", {"queue": queue})
    async with stream(shared) as opened:
        padding = "x" * 100_000
        await opened.send(
            [
                {"id": 1, "pop": {"queue": queue, "wait": True}},
                {"id": 2, "push": items("other", padding)},
            ]
        )
        await opened.send({"cancel": 1})
        assert (await opened.answer(1))["result"]["reason"] == "cancelled"
        assert "result" in await opened.answer(2)


async def test_a_body_with_too_many_items_is_rejected_like_over_http(shared: Server) -> None:
    async with stream(shared) as opened:
        body = items("q", *range(10_001))
        frame = await opened.call(push=body)
        reply = await shared.post("/push", body)
        assert frame["problem"]["code"] == reply.code == "too_many_items"


async def test_a_message_above_the_limit_closes_the_stream(dsn: str) -> None:
    async with Server(dsn, {"QUEEN_MAX_BODY_BYTES": "100000"}) as server, stream(server) as opened:
        await opened.send({"id": 1, "push": items("q", "x" * 200_000)})
        assert await opened.closed() == 1009


@pytest.mark.parametrize(
    "data",
    [
        b"\x81\x02{}",  # not masked
        b"\xc1\x80\0\0\0\0",  # a reserved bit
        b"\x83\x80\0\0\0\0",  # an unknown opcode
        b"\x80\x80\0\0\0\0",  # a continuation without a beginning
        b"\x09\x80\0\0\0\0",  # a fragmented ping
        b"\x89\xfe\x00\x80\0\0\0\0",  # a long ping
        b"\x81\xff" + b"\xff" * 8 + b"\0\0\0\0",  # an endless message
        b"\x01\x80\0\0\0\0\x81\x80\0\0\0\0",  # a message inside another
    ],
)
async def test_a_broken_frame_closes_the_stream(shared: Server, data: bytes) -> None:
    reader, writer = await upgraded(shared)
    writer.write(data)
    async with asyncio.timeout(10):
        head = await reader.readexactly(2)
        assert head[0] == 0x80 | websocket.CLOSE
        code = int.from_bytes((await reader.readexactly(head[1]))[:2])
    assert code in (1002, 1009)
    writer.close()


async def test_fragments_and_control_frames_between_them_are_one_message(shared: Server) -> None:
    reader, writer = await upgraded(shared)
    text = json.dumps({"id": 5, "push": items("fragments", 1)}).encode()
    for at, byte in enumerate(text):
        is_last = at == len(text) - 1
        first = (0x80 if is_last else 0) | (websocket.CONTINUATION if at else websocket.TEXT)
        writer.write(bytes((first, 0x81)) + b"\0\0\0\0" + bytes((byte,)))
        if at == 3:
            writer.write(websocket.masked_frame(websocket.PING, b"hello"))
    async with asyncio.timeout(10):
        assert await reader.readexactly(7) == b"\x8a\x05hello"
        head = await reader.readexactly(4)
        frame: Any = json.loads(await reader.readexactly(int.from_bytes(head[2:4])))
    assert frame["id"] == 5
    assert frame["result"]["messages"][0]["status"] == "queued"
    writer.close()


async def test_more_operations_than_the_limit_wait_their_turn(shared: Server) -> None:
    queue = f"q-{uuid4().hex}"
    async with stream(shared) as opened:
        count = 3_000
        for first in range(1, count + 1, 100):
            await opened.send(
                [{"id": n, "push": items(queue, n)} for n in range(first, first + 100)]
            )
        for n in range(1, count + 1):
            assert "result" in await opened.answer(n)
        found: list[int] = []
        while len(found) < count:
            frame = await opened.call(pop={"queue": queue, "batch": 1_000})
            found += payloads(frame)
            await opened.call(complete={"leaseId": frame["result"]["messages"][0]["leaseId"]})
    assert sorted(found) == list(range(1, count + 1))


async def test_waiting_pops_of_a_stream_are_limited(shared: Server) -> None:
    queue = f"q-{uuid4().hex}"
    await shared.post("/configure", {"queue": queue})
    async with stream(shared) as opened:
        await opened.send(
            [{"id": n, "pop": {"queue": queue, "wait": True}} for n in range(5_001, 6_001)]
        )
        frame = await opened.call(pop={"queue": queue, "wait": True})
        while "problem" not in frame:
            frame = await opened.call(pop={"queue": queue, "wait": True})
        assert frame["problem"]["code"] == "too_many_waiters"
