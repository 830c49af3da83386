"""
Measure the effect of an attack on other callers: latency of `/livez`, and the server's memory.

The measurements run in a separate process, so that the load of the test does not delay them::

    async with Probe(server.port, server.pid) as probe:
        await attack(server)
    assert probe.worst_stall_seconds < 0.5
    assert probe.rss_growth_bytes < 100 * 2**20
"""

import asyncio
import json
import math
import os
import socket
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

_ROOT = Path(__file__).parents[2]
_REQUEST = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n"
_POLL_SECONDS = 0.005
_ANSWER_SECONDS = 50
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Probe:
    """Measures one server process between enter and exit. Read the results after the exit."""

    def __init__(self, port: int, pid: int) -> None:
        self._port = port
        self._pid = pid
        self._process: asyncio.subprocess.Process | None = None
        self.polls = 0
        """Requests to `/livez` with a response."""
        self.worst_livez_seconds = math.inf
        """The slowest response. Infinite if a request failed, or if there was no response."""
        self.worst_stall_seconds = math.inf
        """The most CPU time that the server used before it responded to one request.

        Assert this one: unlike the latency, it does not grow while other programs use the machine.
        """
        self.rss_growth_bytes = 0
        """Peak resident memory of the server, minus its resident memory at the start."""

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.attacks.probe", str(self._port), str(self._pid)),
            cwd=_ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert self._process.stdout is not None
        # The probe prints the first line after its first response.
        assert await self._process.stdout.readline(), "the probe could not reach the server"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process is not None
        result, _ = await self._process.communicate(b"")  # Closing stdin stops the probe.
        measured = json.loads(result)
        self.polls = measured["polls"]
        self.rss_growth_bytes = measured["growth"]
        if measured["worst"] is not None:
            self.worst_livez_seconds = measured["worst"]
            self.worst_stall_seconds = measured["stall"]


class _Poller(threading.Thread):
    """Sends `/livez` repeatedly on one connection."""

    def __init__(self, port: int, pid: int) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._pid = pid
        self.polls = 0
        self.worst = self.worst_stall = 0.0
        self.has_failed = False
        self.has_begun = threading.Event()
        self.is_over = threading.Event()

    def run(self) -> None:
        try:
            with socket.create_connection(("127.0.0.1", self._port), _ANSWER_SECONDS) as connection:
                while not self.is_over.is_set():
                    self._poll(connection)
                    self.has_begun.set()
                    time.sleep(_POLL_SECONDS)
        except (OSError, AssertionError):
            self.has_failed = True
            self.has_begun.set()

    def _poll(self, connection: socket.socket) -> None:
        begun, cpu = time.perf_counter(), cpu_seconds(self._pid)
        connection.sendall(_REQUEST)
        answer = connection.recv(4096)
        while answer and not answer.endswith(b"}"):
            answer += connection.recv(4096)
        assert answer.startswith(b"HTTP/1.1 200 ")
        self.worst = max(self.worst, time.perf_counter() - begun)
        self.worst_stall = max(self.worst_stall, cpu_seconds(self._pid) - cpu)
        self.polls += 1


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES


def cpu_seconds(pid: int) -> float:
    """CPU time of the thread that runs the server's event loop."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def _measure(port: int, pid: int) -> None:
    poller = _Poller(port, pid)
    poller.start()
    poller.has_begun.wait()
    first = most = resident_bytes(pid)
    print("begun", flush=True)
    stopper = threading.Thread(target=sys.stdin.read, daemon=True)
    stopper.start()
    while stopper.is_alive() and not poller.has_failed:
        most = max(most, resident_bytes(pid))
        stopper.join(_POLL_SECONDS)
    # A request without a response yet counts too.
    poller.is_over.set()
    poller.join()
    measured = {
        "polls": poller.polls,
        "worst": None if poller.has_failed else poller.worst,
        "stall": poller.worst_stall,
        "growth": most - first,
    }
    print(json.dumps(measured), flush=True)


if __name__ == "__main__":
    _measure(int(sys.argv[1]), int(sys.argv[2]))
