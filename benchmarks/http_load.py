"""
The load of the HTTP benchmark, in its own process: raw sockets, and requests built in advance.

Usage::

    python -m benchmarks.http_load '{"type": "Push", …}'

The last line of output is one JSON object.
"""

import asyncio
import gc
import itertools
import json
import re
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
import uvloop

from benchmarks.load import payloads

_LENGTH: Final = re.compile(rb"content-length: (\d+)\r\n")
_ID: Final = re.compile(rb'[{,]\{"id":"([0-9a-f-]{36})","transactionId"|\[\{"id":"([0-9a-f-]{36})"')
_LEASE: Final = re.compile(rb'"leaseId":"([^"]+)"')
_NUMBER: Final = re.compile(rb'"data":\{"n":(\d+)')


class Push(msgspec.Struct, frozen=True, tag=True):
    """
    Each connection pushes its next batch after the response to the last one.

    Connections are divided among the queues.
    """

    port: int
    queues: tuple[str, ...]
    batch: int
    connections: int
    seconds: float
    partitions: int = 16


class Mixed(msgspec.Struct, frozen=True, tag=True):
    """Push, pop and ack concurrently, each in batches."""

    port: int
    queue: str
    batch: int
    pushing: int
    consuming: int
    seconds: float
    partitions: int = 100


class Open(msgspec.Struct, frozen=True, tag=True):
    """Push messages one by one at scheduled times, and pop and ack them one by one."""

    port: int
    queue: str
    rate: float
    seconds: float
    pushing: int = 64
    consuming: int = 32
    partitions: int = 100


class Connection(asyncio.Protocol):
    """One request at a time over one socket. Reads only the length from the headers."""

    def __init__(self) -> None:
        self._chunks = bytearray()
        self._missing = 0
        self._answer: asyncio.Future[bytes] | None = None
        self.failed = 0
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # pyright: ignore[reportAttributeAccessIssue] - uvloop's is one

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionError("the server closed"))

    def ask(self, request: bytes) -> asyncio.Future[bytes]:
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return self._answer

    def data_received(self, data: bytes) -> None:
        if self._missing > 0:
            self._chunks += data
            self._missing -= len(data)
            if self._missing <= 0:
                self._finish(bytes(self._chunks))
            return
        if self._chunks:
            data = bytes(self._chunks) + data
        end = data.find(b"\r\n\r\n")
        if end < 0:
            self._chunks = bytearray(data)
            return
        found = _LENGTH.search(data, 0, end + 2)
        self._missing = (int(found[1]) if found else 0) - (len(data) - end - 4)
        if self._missing <= 0:
            self._finish(data)
        else:
            self._chunks = bytearray(data)

    def _finish(self, answer: bytes) -> None:
        self._missing = 0
        if self._chunks:
            self._chunks = bytearray()
        if answer[9:10] != b"2":
            self.failed += 1
            if self.failed == 1:
                print(answer[:600].decode(errors="replace"), file=sys.stderr)
        assert self._answer is not None
        if not self._answer.done():
            self._answer.set_result(answer)


def request(path: str, body: bytes) -> bytes:
    head = (
        f"POST /api/v1{path} HTTP/1.1\r\nhost: localhost\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def pushing(queue: str, partition: int, messages: list[bytes]) -> bytes:
    items = [
        b'{"queue":"%b","partition":"p%d","payload":%b}' % (queue.encode(), partition, each)
        for each in messages
    ]
    return request("/push", b'{"items":[%b]}' % b",".join(items))


def acking(popped: bytes) -> tuple[bytes, int]:
    """Build the acknowledgment of all popped messages by joining bytes. Returns their number."""
    parts: list[bytes] = []
    # Messages of a lease are adjacent, so its id is parsed once per lease.
    ids = [a or b for a, b in _ID.findall(popped)]
    leases = _LEASE.findall(popped)
    count = len(ids)
    if leases and leases[0] == leases[-1]:
        tail = b'","leaseId":"%b"}' % leases[0]
        parts.append(b'{"id":"' + (tail + b',{"id":"').join(ids) + tail)
    else:
        parts += [b'{"id":"%b","leaseId":"%b"}' % pair for pair in zip(ids, leases, strict=True)]
    return request("/ack/batch", b'{"acknowledgments":[%b]}' % b",".join(parts)), count


async def connections(port: int, count: int) -> list[Connection]:
    loop = asyncio.get_running_loop()
    opened: list[Connection] = []
    for _ in range(count):
        _, protocol = await loop.create_connection(Connection, "127.0.0.1", port)
        opened.append(protocol)
    return opened


async def closed(
    ours: list[Connection], seconds: float, call: Callable[[Connection, int, int], Awaitable[int]]
) -> float:
    """Return messages per second of connections that each start a call after the last one."""
    done = 0
    started = time.perf_counter()
    deadline = started + seconds

    async def run(connection: Connection, number: int) -> None:
        nonlocal done
        turn = 0
        while time.perf_counter() < deadline:
            count = await call(connection, number, turn)
            if time.perf_counter() < deadline:
                done += count
            turn += 1

    await asyncio.gather(*(run(each, number) for number, each in enumerate(ours)))
    return done / seconds


async def push(task: Push) -> dict[str, object]:
    ours = await connections(task.port, task.connections)
    messages = payloads(4 * task.batch + 1000, seed=7)
    built = [
        [
            pushing(queue, number % task.partitions, messages[n * task.batch :][: task.batch])
            for n in range(4)
        ]
        for number, queue in zip(range(min(task.connections, 64)), itertools.cycle(task.queues))
    ]

    async def call(connection: Connection, number: int, turn: int) -> int:
        await connection.ask(built[number % len(built)][turn % 4])
        return task.batch

    gc.disable()
    rate = await closed(ours, task.seconds, call)
    return {"rate": rate, "failed": sum(each.failed for each in ours)}


async def mixed(task: Mixed) -> dict[str, object]:
    messages = payloads(task.batch, seed=7)
    built = [pushing(task.queue, number, messages) for number in range(task.partitions)]
    producers = await connections(task.port, task.pushing)
    consumers = await connections(task.port, task.consuming)
    pop = request(
        f"/pop/queue/{task.queue}", b'{"batch":%d,"wait":true,"timeout":500}' % task.batch
    )

    async def produce(connection: Connection, number: int, turn: int) -> int:
        await connection.ask(built[(number + turn * task.pushing) % task.partitions])
        return task.batch

    async def consume(connection: Connection, number: int, turn: int) -> int:
        popped = await connection.ask(pop)
        if popped[9:12] == b"204":
            return 0
        ack, count = acking(popped)
        await connection.ask(ack)
        return count

    gc.disable()
    pushed, consumed = await asyncio.gather(
        closed(producers, task.seconds, produce), closed(consumers, task.seconds, consume)
    )
    failed = sum(each.failed for each in (*producers, *consumers))
    return {"pushed": pushed, "consumed": consumed, "failed": failed}


async def open_loop(task: Open) -> dict[str, object]:
    """Push on a schedule. Latency counts from the time when a message was due."""
    count = int(task.rate * task.seconds)
    free = deque(await connections(task.port, task.pushing))
    everybody = [*free, *(consumers := await connections(task.port, task.consuming))]
    due: deque[int] = deque()
    arrived: list[float | None] = [None] * count
    pop = request(f"/pop/queue/{task.queue}", b'{"wait":true,"timeout":1000}')
    is_over = False
    loop = asyncio.get_running_loop()

    async def consume(connection: Connection) -> None:
        while not is_over:
            popped = await connection.ask(pop)
            if popped[9:12] == b"204":
                continue
            now = time.perf_counter()
            for number in map(int, _NUMBER.findall(popped)):
                if arrived[number] is None:
                    arrived[number] = now
            await connection.ask(acking(popped)[0])

    def send(connection: Connection) -> None:
        number = due.popleft()
        body = pushing(task.queue, number % task.partitions, [b'{"n":%d}' % number])
        connection.ask(body).add_done_callback(lambda _: release(connection))

    def release(connection: Connection) -> None:
        if due:
            send(connection)
        else:
            free.append(connection)

    gc.disable()
    consuming = [loop.create_task(consume(each)) for each in consumers]
    started = time.perf_counter() + 0.2
    for number in range(count):
        at = started + number / task.rate
        if (wait := at - time.perf_counter()) > 0:
            await asyncio.sleep(wait)
        due.append(number)
        if free:
            send(free.popleft())
    deadline = time.perf_counter() + 5
    while None in arrived and time.perf_counter() < deadline:  # noqa: ASYNC110 - bounded
        await asyncio.sleep(0.02)
    is_over = True
    end = time.perf_counter()
    await asyncio.wait(consuming, timeout=3)
    return latencies(arrived, started, end, task.rate, sum(each.failed for each in everybody))


def latencies(
    arrived: list[float | None], started: float, end: float, rate: float, failed: int
) -> dict[str, object]:
    """Return the latencies of an open loop. Messages that have not arrived count with their age."""
    late = sorted(
        ((at or end) - started - number / rate) * 1e3 for number, at in enumerate(arrived)
    )
    return {
        "p50_ms": round(late[len(late) // 2], 2),
        "p99_ms": round(late[len(late) * 99 // 100], 2),
        "max_ms": round(late[-1], 2),
        "not_arrived": arrived.count(None),
        "failed": failed,
    }


async def main() -> None:
    task = msgspec.json.decode(sys.argv[1], type=Push | Mixed | Open)
    imports = time.process_time()
    if isinstance(task, Push):
        said = await push(task)
    elif isinstance(task, Mixed):
        said = await mixed(task)
    else:
        said = await open_loop(task)
    used = time.process_time() - imports
    print(json.dumps({**said, "client_cpu_seconds": round(used, 2)}), flush=True)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
