"""A stream of the SDK without a server: each frame at the moment that the test chooses."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from queen.client.transport.stream_connection import StreamConnection
from queen.wire import websocket
from queen.wire.websocket import Receiver


class Transport:
    def __init__(self) -> None:
        self.sent = b""

    def write(self, data: bytes) -> None:
        self.sent += data

    def is_closing(self) -> bool:
        return False

    @property
    def frames(self) -> bytes:
        """The payloads of all frames of the client."""
        return b"".join(payload for _, payload in Receiver(2**20, unmasked).feed(self.sent))


def unmasked(data: bytes, mask: bytes) -> bytes:
    return bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))


@pytest.mark.parametrize("layout", ["runs", "messages"])
async def test_a_delivery_that_arrives_at_the_moment_of_a_cancellation_is_released(
    layout: str,
) -> None:
    stream = StreamConnection(
        cast("Any", SimpleNamespace(connection_lost=lambda _: None)),  # pyright: ignore[reportUnknownLambdaType]
        lambda _: None,
    )
    transport = Transport()
    stream.connection_made(cast("Any", transport))
    pending = stream.send(b"pop", b"{}")

    async def pop() -> None:
        try:
            await pending.result
        except BaseException:
            stream.abandon(pending)
            raise

    task = asyncio.create_task(pop())
    await asyncio.sleep(0)
    task.cancel()
    result = b'{"id":1,"result":{"%b":[{"leaseId":"0.1.2.00"}]}}' % layout.encode()
    stream.data_received(websocket.head(websocket.TEXT, len(result)) + result)
    await asyncio.gather(task, return_exceptions=True)
    await asyncio.sleep(0)

    assert b'{"leaseId":"0.1.2.00"}' in transport.frames
    assert b"release" in transport.frames
    stream.connection_lost(None)
