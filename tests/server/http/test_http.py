"""Conventions of the HTTP API: media types, names in paths, headers, problems, limits."""

import asyncio
import contextlib
import gzip
import json
import zlib
from pathlib import Path

import pytest

from tests.support.calls import a_queue, configure, data, items, pop, pop_one, posted, push, spoken
from tests.support.server import Server, until

JSON = "content-type: application/json"


def item(queue: str, size: int = 1) -> bytes:
    return json.dumps({"items": items(queue, "x" * size)}).encode()


@pytest.mark.parametrize(
    "media_type",
    ["application/json", "Application/JSON; charset=UTF-8", 'application/json; charset="utf-8"'],
)
async def test_a_body_is_json_in_utf_8(shared: Server, media_type: str) -> None:
    request = posted("/push", item(a_queue()), f"content-type: {media_type}")

    head, _ = await spoken(shared, request)

    assert head.startswith(b"HTTP/1.1 201 ")


@pytest.mark.parametrize(
    "header",
    [
        "x-nothing: 1",
        "content-type: text/plain",
        "content-type: application/x-www-form-urlencoded",
        "content-type: application/jsonp",
        "content-type: application/json; charset=latin-1",
        "content-type: application/json\r\ncontent-encoding: br",
        "content-type: application/json\r\ncontent-encoding: gzip, gzip",
    ],
)
async def test_another_media_type_is_rejected(shared: Server, header: str) -> None:
    head, body = await spoken(shared, posted("/push", item(a_queue()), header))

    assert head.startswith(b"HTTP/1.1 415 ")
    assert json.loads(body)["code"] == "unsupported_media_type"


@pytest.mark.parametrize("encoding", ["gzip", "GZIP"])
async def test_gzip_is_accepted(shared: Server, encoding: str) -> None:
    queue = a_queue()
    squeezed = gzip.compress(item(queue))

    head, _ = await spoken(shared, posted("/push", squeezed, JSON, f"content-encoding: {encoding}"))

    assert head.startswith(b"HTTP/1.1 201 ")
    assert data(await pop(shared, queue)) == ["x"]


@pytest.mark.parametrize("size", [2**18 - 100, 2**18, 2**19, 900_000])
async def test_highly_compressed_gzip_is_accepted(shared: Server, size: int) -> None:
    queue = a_queue()
    squeezed = gzip.compress(item(queue, size), 9)

    head, _ = await spoken(shared, posted("/push", squeezed, JSON, "content-encoding: gzip"))

    assert head.startswith(b"HTTP/1.1 201 ")
    assert len((await pop_one(shared, queue))["data"]) == size


WHOLE = gzip.compress(item("q"), mtime=0)


@pytest.mark.parametrize(
    "damaged",
    [
        WHOLE[:-4],
        WHOLE[:-8],
        WHOLE[:10],
        WHOLE + b"more",
        WHOLE + WHOLE,
        b"no" + WHOLE,
        WHOLE[:-8] + bytes(byte ^ 1 for byte in WHOLE[-8:]),
        zlib.compress(b"{}"),
    ],
)
async def test_damaged_gzip_is_rejected(shared: Server, damaged: bytes) -> None:
    head, body = await spoken(shared, posted("/push", damaged, JSON, "content-encoding: gzip"))

    assert head.startswith(b"HTTP/1.1 400 ")
    assert json.loads(body)["code"] == "bad_request"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"nul",
        b'{"items":[]}garbage',
        b'{"items":[{"queue":"q","payload":"\xff"}]}',
        b'{"items":[{"queue":"q","payload":"\xed\xa0\x80"}]}',
        b"\xef\xbb\xbf{}",
        b'{"items":' + b"[" * 100_000,
        b'{"items":[{"queue":"q","payload":' + b"[" * 100_000 + b"]" * 100_000 + b"}]}",
        b'{"items":[{"queue":"q","payload":NaN}]}',
    ],
)
async def test_invalid_json_is_rejected(shared: Server, body: bytes) -> None:
    head, answer = await spoken(shared, posted("/push", body))

    assert head.startswith(b"HTTP/1.1 400 "), answer
    problem = json.loads(answer)
    assert (problem["code"], problem["applied"]) == ("bad_request", False)


async def test_paths_are_split_before_names_are_decoded(shared: Server) -> None:
    queue = f"{a_queue()}/b%2Fc.d ä?#"
    await push(shared, queue, 1, partition="x/y")
    base = queue.replace("%", "%25").replace("/", "%2F").replace(" ", "%20")
    encoded = base.replace("ä", "%C3%A4").replace("?", "%3F").replace("#", "%23")

    reply = await shared.request("GET", f"/pop/queue/{encoded}/partition/x%2fy")

    assert reply.status == 200
    assert (reply.body["messages"][0]["queue"], reply.body["messages"][0]["partition"]) == (
        queue,
        "x/y",
    )


async def test_a_path_that_is_not_utf_8_is_rejected(shared: Server) -> None:
    reply = await shared.request("GET", "/pop/queue/%ff")

    assert (reply.status, reply.code) == (400, "bad_request")


@pytest.mark.parametrize(
    "path",
    ["/api", "/api/v1", "/api/v1/", "/api/v1/pusch", "/api/v1/push/", "/api/v1//push",
     "/api/v2/push", "/api/v1/pop/queue", "/api/v1/pop/queue/", "/api/v1/pop/queue/q/partition",
     "/API/v1/push", "/api/v1/lease/x"],
)  # fmt: skip
async def test_unknown_paths_are_not_found(shared: Server, path: str) -> None:
    request = f"POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"

    head, body = await spoken(shared, request.encode())

    assert head.startswith(b"HTTP/1.1 404 ")
    assert json.loads(body)["code"] == "no_such_route"


async def test_a_wrong_method_lists_the_allowed_ones(shared: Server) -> None:
    for method in ("GET", "PUT", "DELETE", "PATCH", "OPTIONS"):
        reply = await shared.request(method, "/push")
        assert (reply.status, reply.code) == (405, "method_not_allowed")
        assert reply.headers["Allow"] == "POST"


async def test_head_returns_a_get_without_its_body(shared: Server) -> None:
    request = b"HEAD /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"

    head, body = await spoken(shared, request)

    assert head.startswith(b"HTTP/1.1 200 ")
    assert b"content-length: 18" in head.lower()
    assert body == b""


async def test_a_request_id_is_echoed_or_generated(shared: Server) -> None:
    async def answered(sent: str | None) -> str:
        headers = {} if sent is None else {"X-Request-Id": sent}
        reply = await shared.request("GET", "/livez", headers=headers)
        return reply.headers["X-Request-Id"]

    assert await answered("r-1") == "r-1"
    made = {await answered(None), await answered(None), await answered("x" * 200)}
    assert len(made) == 3
    assert all(each.startswith("r-") for each in made)


async def test_a_problem_has_the_documented_fields(shared: Server) -> None:
    reply = await shared.request(
        "POST", "/push", {"items": [{"queue": "q"}]}, headers={"X-Request-Id": "r-77"}
    )

    assert reply.headers["Content-Type"] == "application/problem+json"
    assert reply.headers["Cache-Control"] == "no-store"
    assert reply.body == {
        "type": "urn:queen:bad_request",
        "title": "Bad request",
        "status": 400,
        "code": "bad_request",
        "detail": "/items/0/payload: required",
        "error": "/items/0/payload: required",
        "applied": False,
        "requestId": "r-77",
        "errors": [{"pointer": "/items/0/payload", "detail": "required"}],
    }


async def test_api_responses_are_not_cacheable(shared: Server) -> None:
    queue = a_queue()
    for reply in (
        await shared.post("/push", {"items": items(queue, 1)}),
        await shared.get(f"/pop/queue/{queue}"),
        await shared.get(f"/pop/queue/{queue}"),
        await shared.get("/nowhere"),
    ):
        assert reply.headers["Cache-Control"] == "no-store"


async def test_the_size_of_a_body_is_limited_before_and_after_decompression(dsn: str) -> None:
    async with Server(dsn, {"QUEEN_MAX_BODY_BYTES": "100000"}) as server:
        large = item("q", 100_001)
        chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(large), large)
        for request in (
            posted("/push", large),
            posted("/push", gzip.compress(large), JSON, "content-encoding: gzip"),
            posted("/push", b"", JSON, "transfer-encoding: chunked").replace(
                b"content-length: 0\r\n", b""
            )
            + chunked,
        ):
            head, body = await spoken(server, request)
            assert head.startswith(b"HTTP/1.1 413 "), body
            assert json.loads(body)["code"] == "body_too_large"
        head, _ = await spoken(server, posted("/push", item("q", 90_000)))
        assert head.startswith(b"HTTP/1.1 201 ")


async def test_a_chunked_body_is_accepted(shared: Server) -> None:
    queue = a_queue()
    body = item(queue)
    half = len(body) // 2
    request = posted("/push", b"", JSON, "transfer-encoding: chunked")
    request = request.replace(b"content-length: 0\r\n", b"")
    for part in (body[:half], body[half:], b""):
        request += b"%x\r\n%b\r\n" % (len(part), part)

    head, _ = await spoken(shared, request)

    assert head.startswith(b"HTTP/1.1 201 ")
    assert data(await pop(shared, queue)) == ["x"]


async def test_a_large_push_does_not_count_as_headers(shared: Server) -> None:
    queue = a_queue()
    head, _ = await spoken(shared, posted("/push", item(queue, 900_000)))

    assert head.startswith(b"HTTP/1.1 201 ")
    assert len((await pop_one(shared, queue))["data"]) == 900_000


@pytest.mark.parametrize(
    "headers",
    [
        [f"x-large: {'x' * 33_000}"],
        [f"x-{n}: {'y' * 100}" for n in range(400)],
    ],
)
async def test_the_size_of_headers_is_limited(shared: Server, headers: list[str]) -> None:
    head, body = await spoken(shared, posted("/push", item("q"), JSON, *headers))

    assert head.startswith(b"HTTP/1.1 431 ")
    assert json.loads(body)["code"] == "headers_too_large"


async def test_endless_headers_close_the_connection(shared: Server) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", shared.port)
    writer.write(b"GET /livez HTTP/1.1\r\nx-endless: ")
    # The server may close while the test still writes, so its response may be lost.
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(10):
            while not writer.is_closing():
                writer.write(b"x" * 10_000)
                await writer.drain()
    writer.close()

    assert (await shared.get("/livez")).status == 200


async def test_a_request_that_is_not_http_is_rejected(shared: Server) -> None:
    for request in (b"\0\1\2\3\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00" * 10):
        head, body = await spoken(shared, request)
        assert head.startswith(b"HTTP/1.1 400 ")
        assert json.loads(body)["code"] == "bad_request"


async def test_pipelined_requests_are_processed_in_order(shared: Server) -> None:
    queue = a_queue()
    await configure(shared, queue)
    one = posted(f"/pop/queue/{queue}", b'{"wait":true,"timeout":300}').replace(
        b"connection: close\r\n", b""
    )

    answers, rest = await spoken(shared, one + posted("/push", item(queue)))

    assert answers.startswith(b"HTTP/1.1 204 ")
    assert rest.startswith(b"HTTP/1.1 201 ")


@pytest.fixture(scope="module")
def impatient() -> dict[str, str]:
    return {"QUEEN_HEADER_TIMEOUT_MS": "500", "QUEEN_BODY_TIMEOUT_MS": "1000"}


@pytest.mark.parametrize(
    "beginning",
    [
        b"",
        b"POST /api/v1/push HT",
        b"POST /api/v1/push HTTP/1.1\r\nhost: x\r\ncontent-type: appl",
        posted("/push", b"{}")[:-1],
    ],
)
async def test_an_unfinished_request_times_out(
    dsn: str, impatient: dict[str, str], beginning: bytes
) -> None:
    async with Server(dsn, impatient) as server:
        head, body = await spoken(server, beginning, seconds=10)

        assert head.startswith(b"HTTP/1.1 408 ")
        assert json.loads(body)["code"] == "request_timeout"


async def test_a_request_sent_byte_by_byte_times_out(dsn: str, impatient: dict[str, str]) -> None:
    async with Server(dsn, impatient) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        answer = asyncio.create_task(reader.read(-1))
        async with asyncio.timeout(10):
            while not answer.done():
                writer.write(b"x")
                await asyncio.sleep(0.05)
        writer.close()

        # The server responds to half a header, or closes the connection, perhaps with bytes unread.
        if not isinstance(answer.exception(), ConnectionResetError):
            assert answer.result()[:12] in (b"", b"HTTP/1.1 408", b"HTTP/1.1 400")


async def test_a_long_poll_does_not_count_as_a_slow_request(
    dsn: str, impatient: dict[str, str]
) -> None:
    async with Server(dsn, impatient) as server:
        await configure(server, "q")

        assert await pop(server, "q", wait=True, timeout=3_000) == []


async def test_a_client_that_does_not_read_its_response_is_disconnected(
    dsn: str, impatient: dict[str, str]
) -> None:
    async with Server(dsn, impatient) as server:
        for _ in range(20):
            await push(server, "q", *["x" * 900_000])
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=2**10)
        writer.write(posted("/pop/queue/q", b'{"batch":20}'))
        assert await reader.readexactly(1) == b"H"

        # The test reads no further byte until the server has closed the connection.
        await until(lambda: _has_nothing_to_send(server), seconds=20)
        writer.close()


ALIVE = b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"


async def test_connections_above_the_limit_are_rejected(dsn: str) -> None:
    async with Server(dsn, {"QUEEN_MAX_CONNECTIONS": "3"}) as server:
        await server.hang_up()
        opened = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(3)]

        head, body = await spoken(server, b"")

        assert head.startswith(b"HTTP/1.1 503 ")
        assert json.loads(body)["code"] == "overloaded"
        for _, writer in opened:
            writer.close()


async def test_connections_above_the_limit_per_address_are_rejected(dsn: str) -> None:
    async with Server(dsn, {"QUEEN_MAX_CONNECTIONS_PER_ADDRESS": "3"}) as server:
        await server.hang_up()
        opened = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(3)]

        head, body = await spoken(server, b"")

        assert head.startswith(b"HTTP/1.1 429 ")
        assert b"\r\nretry-after: " in head
        assert json.loads(body)["code"] == "rate_limited"
        # Another address has its own limit, on loopback too.
        reader, elsewhere = await asyncio.open_connection(
            "127.0.0.1", server.port, local_addr=("127.0.0.2", 0)
        )
        elsewhere.write(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        # A closed connection makes room.
        for writer in (elsewhere, *(writer for _, writer in opened)):
            writer.close()

        async def is_let_in() -> bool:
            try:
                head, _ = await spoken(server, ALIVE)
            except ConnectionResetError:  # Closed before the request was read.
                return False
            return head.startswith(b"HTTP/1.1 200 ")

        await until(is_let_in)


async def test_behind_a_proxy_the_limit_per_address_does_not_apply(dsn: str) -> None:
    proxied = {"QUEEN_MAX_CONNECTIONS_PER_ADDRESS": "1", "QUEEN_BEHIND_PROXY": "true"}
    async with Server(dsn, proxied) as server:
        await server.get("/livez")
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        head, _ = await spoken(server, ALIVE)
        writer.close()

        assert head.startswith(b"HTTP/1.1 200 ")


async def _has_nothing_to_send(server: Server) -> bool:
    """Read the kernel's table: local address, state (1: established), unsent bytes."""
    table = await asyncio.to_thread(Path(f"/proc/{server.pid}/net/tcp").read_text)
    for line in table.splitlines()[1:]:
        _, local, _, state, queued, *_ = line.split()
        if local.endswith(f":{server.port:04X}") and state == "01" and int(queued[:8], 16):
            return False
    return True
