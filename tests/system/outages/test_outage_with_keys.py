"""Pushes with API keys continue while PostgreSQL is unavailable and the server restarts."""

import asyncio
import json
import os
import time
from pathlib import Path
from typing import NamedTuple

import aiohttp
import pytest

from queen.store.migrations import migrate
from tests.support.callers import KEYS, Caller, make_key
from tests.support.postgres import Postgres
from tests.support.server import Server, until
from tests.system.outages.test_outages import kill_all, relaunched

PRODUCERS = 20
LONG_SECONDS = float(os.environ.get("OUTAGE_SECONDS", "600"))
LONG_PER_SECOND = float(os.environ.get("OUTAGE_PUSHES_PER_SECOND", "1000"))
_MOST_BEHIND_SECONDS = 0.5


class Response(NamedTuple):
    status: int
    body: bytes


class Connection:
    """Sends one request after the other on a socket, with little CPU time."""

    def __init__(self, port: int, key: str) -> None:
        self._port = port
        self._head = (
            "POST /api/v1/push HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
            f"authorization: Bearer {key}\r\ncontent-length: "
        ).encode()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def open(self) -> None:
        """Connect if necessary. Raises OSError if the server does not listen."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)

    async def post(self, body: bytes) -> Response:
        """Send a push. Raises OSError or EOFError if the connection breaks before the response."""
        assert self._streams is not None
        reader, writer = self._streams
        try:
            writer.write(self._head + b"%d\r\n\r\n" % len(body) + body)
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.lower().split(b"\r\n")
            (length,) = (int(each[15:]) for each in lines if each.startswith(b"content-length:"))
            return Response(int(lines[0].split()[1]), await reader.readexactly(length))
        except (OSError, EOFError):
            self.close()
            raise

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


class Producer:
    """Pushes rising numbers to its own partition, and records each outcome."""

    def __init__(self, port: int, number: int, key: str, per_second: float) -> None:
        self.partition = f"p{number}"
        self._connection = Connection(port, key)
        self._per_second = per_second
        self.accepted: list[int] = []
        self.doubtful: set[int] = set()
        self.refused: set[int] = set()
        self.buffered = 0
        self.unexpected: list[Response] = []
        self.is_stopped = False

    async def run(self) -> None:
        n = 0
        next_at = time.monotonic()
        while not self.is_stopped:
            try:
                await self._connection.open()
            except OSError:
                await asyncio.sleep(0.05)
                continue
            n += 1
            await self._push(n)
            now = time.monotonic()
            next_at = max(next_at + 1 / self._per_second, now - _MOST_BEHIND_SECONDS)
            await asyncio.sleep(max(0.0, next_at - now))
        self._connection.close()

    async def _push(self, n: int) -> None:
        item = f'{{"queue":"orders","partition":"{self.partition}","payload":{n}}}'
        try:
            response = await self._connection.post(b'{"items":[%b]}' % item.encode())
        except (OSError, EOFError):
            self.doubtful.add(n)
            return
        if response.status in (201, 202):
            self.accepted.append(n)
            self.buffered += response.status == 202
        elif response.status == 503 and json.loads(response.body)["applied"] is None:
            self.doubtful.add(n)
        else:
            self.refused.add(n)
            self.unexpected.append(response)


async def delivered(admin: Caller) -> dict[str, list[int]]:
    """All messages by partition, in delivery order."""
    found: dict[str, list[int]] = {}
    query = {"batch": 10_000, "partitions": 100, "autoAck": True}
    while (reply := await admin.post("/pop/queue/orders", query)).status == 200:
        for message in reply.body["messages"]:
            found.setdefault(message["partition"], []).append(message["data"])
    assert reply.status == 204, reply
    return found


def check(producer: Producer, given: list[int]) -> None:
    """Check that each accepted push is stored once and in order, and no rejected push is stored."""
    assert given == sorted(set(given)), f"{producer.partition}: twice or out of order"
    lost = set(producer.accepted) - set(given)
    assert not lost, f"{producer.partition}: {len(lost)} lost, as {sorted(lost)[:5]}"
    invented = set(given) - set(producer.accepted) - producer.doubtful
    assert not invented, f"{producer.partition}: refused, but stored: {sorted(invented)[:5]}"


async def until_accepted(producers: list[Producer], more: int, *, is_buffered: bool) -> None:
    def count() -> int:
        return sum(each.buffered if is_buffered else len(each.accepted) for each in producers)

    wanted = count() + more

    async def is_there() -> bool:
        return count() >= wanted

    await until(is_there, seconds=60)


async def drained(admin: Caller, seconds: float) -> None:
    async def is_drained() -> bool:
        try:
            reply = await admin.get("/status/buffers")
        except aiohttp.ClientError:
            return False
        return reply.status == 200 and not reply.body["buffering"]

    await until(is_drained, seconds=seconds)


async def run(directory: Path, *, seconds: float, per_second: float, share: float) -> None:
    """``share``: the part of the rate that must be reached during the outage."""
    with Postgres() as postgres:
        dsn = postgres.create_database("queen")
        await migrate(dsn)
        environment = {**KEYS, "FILE_BUFFER_DIR": str(directory / "buffer"), "NUM_WORKERS": "2"}
        async with Server(dsn, environment) as server:
            admin = Caller(server, await make_key(dsn))
            thief = (await admin.post("/tokens", {"name": "thief", "role": "write-only"})).body
            producers = [
                Producer(server.port, n, await _key(admin, n), per_second / PRODUCERS)
                for n in range(PRODUCERS)
            ]
            # The second half of the keys is first used during the outage.
            tasks = [asyncio.create_task(each.run()) for each in producers[::2]]
            await until_accepted(producers, 50, is_buffered=False)
            assert (await admin.delete(f"/tokens/{thief['id']}")).status == 200
            await asyncio.to_thread(postgres.stop)
            began_at = time.monotonic()
            tasks += [asyncio.create_task(each.run()) for each in producers[1::2]]
            await until_accepted(producers, 50, is_buffered=True)
            await asyncio.sleep(began_at + seconds / 2 - time.monotonic())
            kill_all(server)
            down_at = time.monotonic()
            await relaunched(server)
            down = time.monotonic() - down_at
            await until_accepted(producers, 50, is_buffered=True)
            assert (await Caller(server, thief["token"]).push("orders")).status == 503
            await asyncio.sleep(max(0.0, began_at + seconds - time.monotonic()))
            lasted = time.monotonic() - began_at
            buffered = sum(each.buffered for each in producers)
            await asyncio.to_thread(postgres.start)
            await drained(admin, seconds=60 + seconds)
            await until_accepted(producers, 50, is_buffered=False)
            for each in producers:
                each.is_stopped = True
            await asyncio.gather(*tasks)
            await drained(admin, seconds=60)
            found = await delivered(admin)
    rate = buffered / (lasted - down)
    print(
        f"outage {lasted:.1f} s, server down {down:.1f} s of it, {buffered} pushes buffered"
        f" ({rate:.0f}/s), {sum(len(each.accepted) for each in producers)} accepted in all,"
        f" {sum(len(each.doubtful) for each in producers)} doubtful,"
        f" {sum(len(each.refused) for each in producers)} refused",
        flush=True,
    )
    for each in producers:
        check(each, found.get(each.partition, []))
        assert not each.unexpected, each.unexpected[:3]
    assert set(found) == {each.partition for each in producers}
    assert rate >= share * per_second


async def _key(admin: Caller, number: int) -> str:
    wanted = {"name": f"producer-{number}", "role": "write-only", "scopes": [{"queue": "orders"}]}
    return (await admin.post("/tokens", wanted)).body["token"]


@pytest.mark.nightly
@pytest.mark.timeout(300)
async def test_pushes_with_keys_continue_during_an_outage_and_a_restart(tmp_path: Path) -> None:
    await run(tmp_path, seconds=20, per_second=300, share=0.3)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
async def test_ten_minutes_of_outage_with_a_thousand_pushes_per_second(tmp_path: Path) -> None:
    await run(tmp_path, seconds=LONG_SECONDS, per_second=LONG_PER_SECOND, share=0.8)
