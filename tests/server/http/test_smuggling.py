"""The end of a request is unambiguous: a body cannot contain a second request."""

import pytest

from tests.support.calls import a_queue, spoken
from tests.support.server import Server

JSON = b"content-type: application/json\r\n"
HEAD = b"POST /api/v1/push HTTP/1.1\r\nhost: localhost\r\n" + JSON


def hidden(queue: str) -> bytes:
    """A hidden request that would pause a queue."""
    return b"POST /api/v1/resources/queues/%b/pause HTTP/1.1\r\nhost: localhost\r\n\r\n" % (
        queue.encode()
    )


AMBIGUOUS = {
    "both lengths": b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "both lengths, the other way round": (
        b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n"
    ),
    "two lengths": b"content-length: 0\r\ncontent-length: 80\r\n\r\n",
    "a list of lengths": b"content-length: 0, 80\r\n\r\n",
    "a length with a sign": b"content-length: +0\r\n\r\n",
    "a length below zero": b"content-length: -1\r\n\r\n",
    "a length in hexadecimal": b"content-length: 0x0\r\n\r\n",
    "a space before the colon": b"content-length : 0\r\n\r\n",
    "a header over two lines": b"content-length:\r\n 0\r\n\r\n",
    "an encoding nobody knows": b"transfer-encoding: chunky\r\n\r\n",
    "chunked, but not last": b"transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "a chunk without a size": b"transfer-encoding: chunked\r\n\r\nzz\r\n\r\n",
    "lines that end in a line feed alone": b"content-length: 0\n\n",
    "chunks that end in a line feed alone": b"transfer-encoding: chunked\r\n\r\n0\n\n",
}


@pytest.mark.parametrize("framing", AMBIGUOUS)
async def test_a_request_of_ambiguous_length_is_the_last_on_its_connection(
    shared: Server, framing: str
) -> None:
    queue = a_queue()
    await shared.post("/configure", {"queue": queue})

    head, body = await spoken(shared, HEAD + AMBIGUOUS[framing] + hidden(queue))

    assert head.startswith(b"HTTP/1.1 4"), head
    assert b"HTTP/1.1" not in body
    paused = (await shared.get(f"/resources/queues/{queue}")).body["paused"]
    assert paused is False
