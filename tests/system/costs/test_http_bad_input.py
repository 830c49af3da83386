"""Thousands of malformed requests hardly affect a good client, and never cause a 5xx response."""

import asyncio
import contextlib
import functools
import gzip
import json
import random
import time
from collections import Counter
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from benchmarks.http_load import connections, pushing
from tests.support.calls import posted
from tests.support.server import Server
from tests.system.costs.test_http_waiting import resident_bytes

ENVIRONMENT = {"QUEEN_HEADER_TIMEOUT_MS": "1000", "QUEEN_BODY_TIMEOUT_MS": "2000"}
PATHS = ("/push", "/ack", "/ack/batch", "/transaction", "/configure", "/pop", "/pop/queue/q")
JSON = "content-type: application/json"
MOST_BYTES = 400 * 2**20
SCRAPS: tuple[Any, ...] = (
    None,
    True,
    1,
    -1,
    1.5,
    10**30,
    "",
    "\0",
    "x" * 300,
    [],
    {},
    [[]],
    {"a": 1},
)


@functools.cache
def bomb() -> bytes:
    """A body of 256 MiB in 256 KiB."""
    body = gzip.compress(b'{"items":[' + b" " * 2**28, 9)
    return posted("/push", body, JSON, "content-encoding: gzip")


def giant() -> bytes:
    """One message more than a request may have."""
    return posted("/push", b'{"items":[%b]}' % b",".join([b'{"queue":"bad","payload":0}'] * 10_001))


def scrap(rng: random.Random, depth: int = 0) -> Any:  # noqa: ANN401 - JSON
    """JSON of any shape, with field names of the API and others."""
    names = ("items", "queue", "payload", "operations", "acknowledgments", "options", "wait", "no")
    if depth > 3 or rng.random() < 0.4:
        return rng.choice(SCRAPS)
    if rng.random() < 0.5:
        return [scrap(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice(names): scrap(rng, depth + 1) for _ in range(rng.randrange(4))}


def bad(rng: random.Random) -> tuple[str, bytes]:
    """A request that violates the API, and its defect."""
    path = rng.choice(PATHS)
    match rng.randrange(10):
        case 0:
            whole = posted(path, b'{"items":[{"queue":"bad","payload":1}]}')
            return "truncated", whole[: rng.randrange(1, len(whole) - 1)]
        case 1:
            head = f"POST /api/v1{path} HTTP/1.1\r\nhost: localhost\r\n{JSON}\r\ncontent-length: "
            return "oversized", f"{head}{2**30 + rng.randrange(10**9)}\r\n\r\n{{".encode()
        case 2:
            deep = b"[" * rng.randrange(100, 100_000)
            return "deep", posted(path, b'{"items":%b' % deep)
        case 3:
            return "not UTF-8", posted(path, b'{"queue":"\xff%b"}' % rng.randbytes(9))
        case 4:
            value = scrap(rng)
            return "wrong types", posted(path, json.dumps({"unknown": value}).encode())
        case 5:
            noise = rng.randbytes(rng.randrange(1, 500))
            return "noise", noise + b"\r\n\r\n"
        case 6:
            return "giant batch", giant()
        case 7 if rng.random() < 0.1:
            return "gzip bomb", bomb()
        case 8:
            return "headers", posted(path, b"{}", JSON, f"x-large: {'x' * 40_000}")
        case _:
            body = json.dumps(scrap(rng)).encode()
            return "media type", posted(path, body or b"0", "content-type: text/plain")


async def send(server: Server, what: str, request: bytes, seen: Counter[str]) -> None:
    """Send one bad request on a new connection. Some connections stay open, like slow clients."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    status, answer = "closed", b""
    with contextlib.suppress(ConnectionError):
        writer.write(request)
        # The server regards a client that has ended its side as gone, and may not respond to it.
        if what in ("noise", "oversized") or (what == "truncated" and seen[what] % 10):
            writer.write_eof()
        async with asyncio.timeout(15):
            answer = await reader.read(4096)
        if answer.startswith(b"HTTP/1.1 "):
            status = answer[9:12].decode()
    writer.close()
    seen[status] += 1
    seen[what] += 1
    assert status[0] != "5", (what, answer)
    # No bad request was accepted as a good one.
    assert status[0] != "2" or what in ("truncated", "wrong types", "media type"), (what, answer)


@contextlib.asynccontextmanager
async def good_client(server: Server) -> AsyncGenerator[list[float]]:
    """A client that pushes one message at a time, and the milliseconds of each push."""
    (line,) = await connections(server.port, 1)
    delays: list[float] = []
    body = pushing("good", 0, [b'{"n":1}'])

    async def push() -> None:
        while True:
            begun = time.perf_counter()
            answer = await line.ask(body)
            assert answer[9:12] == b"201", answer
            delays.append((time.perf_counter() - begun) * 1e3)
            await asyncio.sleep(0.005)

    pushing_ = asyncio.create_task(push())
    try:
        yield delays
    finally:
        pushing_.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await pushing_
        line.transport.abort()


class Bad:
    """Sends bad requests to a server, at a limited rate, because a test measures damage."""

    def __init__(self, server: Server, seen: Counter[str]) -> None:
        self._server = server
        self._seen = seen
        self.most_bytes = resident_bytes(server.pid)
        """The most memory that the server had."""

    async def send(self, requests: list[tuple[str, bytes]]) -> None:
        async def worker() -> None:
            while requests:
                await send(self._server, *requests.pop(), self._seen)
                self.most_bytes = max(self.most_bytes, resident_bytes(self._server.pid))
                await asyncio.sleep(0.05)

        await asyncio.gather(*(worker() for _ in range(8)))


async def run(dsn: str, count: int, *, is_strict: bool) -> None:
    seed = random.SystemRandom().randrange(10**9)
    print(f"seed {seed}", flush=True)
    rng = random.Random(seed)
    seen: Counter[str] = Counter()
    # Built beforehand, because the good client runs in this process too.
    requests, others = ([bad(rng) for _ in range(each)] for each in (count, count // 5))
    async with Server(dsn, ENVIRONMENT) as server, Server(dsn, ENVIRONMENT) as other:
        await server.post("/push", {"items": [{"queue": "good", "payload": 0}]})
        # Another server of this machine gets them, so both cost the machine the same.
        async with good_client(server) as before:
            await Bad(other, Counter()).send(others)
        resident = resident_bytes(server.pid)
        sending = Bad(server, seen)
        async with good_client(server) as during:
            await sending.send(requests)
        growth = sending.most_bytes - resident
        said = {
            "seed": seed,
            **dict(seen.most_common()),
            "p99_ms_before": round(_p99(before), 2),
            "p99_ms_during": round(_p99(during), 2),
            "resident_growth_bytes": growth,
        }
        print(json.dumps(said), flush=True)
        assert growth < MOST_BYTES
        assert (await server.get("/readyz")).status == 200
        assert (await server.post("/pop/queue/bad", {})).code == "queue_not_found"
        assert "Traceback" not in server.log
    if is_strict:
        assert _p99(during) <= 2 * _p99(before)


def _p99(delays: list[float]) -> float:
    return sorted(delays)[len(delays) * 99 // 100]


async def test_a_rejected_body_is_not_kept(dsn: str) -> None:
    seen: Counter[str] = Counter()
    async with Server(dsn) as server:
        resident = resident_bytes(server.pid)
        for _ in range(6):
            await send(server, "gzip bomb", bomb(), seen)
        assert seen["413"] == 6
        # For each body, the server inflated 64 MiB before it rejected it as too large.
        assert resident_bytes(server.pid) - resident < 2 * 64 * 2**20


async def test_bad_requests_do_not_affect_a_good_client(dsn: str) -> None:
    await run(dsn, 500, is_strict=False)


@pytest.mark.slow
async def test_ten_thousand_bad_requests_do_not_affect_a_good_client(dsn: str) -> None:
    await run(dsn, 10_000, is_strict=True)
