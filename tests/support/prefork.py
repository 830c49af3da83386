"""
Start `queen …` as a fork of a process that has imported it already.

Most of a command's start is imports. A fork is a process like any other, with its own id, signals,
environment and exit code, and it starts in a tenth of the time.
"""

import atexit
import contextlib
import gc
import importlib
import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import FrameType
from typing import IO, Any, NamedTuple

SOURCE = Path(__file__).parents[2] / "src"
REQUEST_BYTES = 1 << 18
MODULES = ("queen.server.process.serve", "queen.client.client", "aiohttp", "rich.console")
"""What most servers and commands import."""


class Forked:
    """A process that was forked, with the part of the interface of `Popen` that tests use."""

    def __init__(self, pid: int, status: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._status = status

    def poll(self) -> int | None:
        """Return the exit code, None while the process runs."""
        return self._wait(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code."""
        if (code := self._wait(timeout)) is None:
            raise subprocess.TimeoutExpired("queen", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _wait(self, seconds: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], seconds)[0]:
            answer = os.read(self._status, 16)
            os.close(self._status)
            self.returncode = os.waitstatus_to_exitcode(int(answer))
        return self.returncode


class Forks:
    """The process that has imported Queen, as seen by the process that asks it for forks."""

    def __init__(self, imports: Sequence[str]) -> None:
        """``imports``: modules in addition to those that most commands import."""
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for each in (self._socket, other):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, REQUEST_BYTES)
        # It ends when this socket closes, that is, with this process.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.prefork", str(other.fileno()), *imports],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            pass_fds=[other.fileno()],
            stdin=subprocess.DEVNULL,
        )
        other.close()
        self._lock = threading.Lock()

    def start(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        *,
        stdin: IO[Any],
        stdout: IO[Any],
        stderr: IO[Any],
    ) -> Forked:
        """Start `queen` with these arguments, in this environment only."""
        ours, theirs = os.pipe()
        try:
            request = json.dumps([list(arguments), dict(environment), os.getcwd()]).encode()
            files = [each.fileno() for each in (stdin, stdout, stderr)]
            with self._lock:
                socket.send_fds(self._socket, [request], [*files, theirs])
                pid = int(self._socket.recv(16))
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        return Forked(pid, ours)


@cache
def _forks(imports: Sequence[str]) -> Forks:
    """The one of this process with these imports."""
    return Forks(imports)


def start_queen(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    stdin: IO[Any],
    stdout: IO[Any],
    stderr: IO[Any],
    imports: Sequence[str] = (),
) -> "Forked | subprocess.Popen[bytes]":
    """
    Start `queen …`: as a fork, unless the environment concerns the interpreter itself.

    ``imports``: modules that this command imports and most others don't.

    Benchmarks get a new process, as users do: a fork pays for each page that it writes first.
    """
    usual = (
        environment.get("PYTHONPATH") == str(SOURCE) and environment.get("NUM_WORKERS", "1") == "1"
    )
    if usual and "PYTEST_VERSION" in os.environ:
        forks = _forks(tuple(imports))
        return forks.start(arguments, environment, stdin=stdin, stdout=stdout, stderr=stderr)
    command = [sys.executable, "-m", "queen", *arguments]
    return subprocess.Popen(command, env=environment, stdin=stdin, stdout=stdout, stderr=stderr)


class Ended(NamedTuple):
    """The exit code of a command and its output."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:  # noqa: ANN401 - of JSON
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


def run_queen(
    *arguments: str, environment: Mapping[str, str], stdin: str = "", seconds: float = 50
) -> Ended:
    """Run `queen …` to its end. It is killed if it takes longer than ``seconds``."""
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        given.write(stdin.encode())
        given.seek(0)
        process = start_queen(arguments, environment, stdin=given, stdout=out, stderr=err)
        try:
            code = process.wait(seconds)
        finally:
            process.kill()
        out.seek(0)
        err.seek(0)
        return Ended(code, out.read().decode(), err.read().decode())


def _serve(requests: socket.socket) -> list[str] | None:
    """Fork for each request; returns the arguments in a fork, None in the parent at its end."""
    statuses: dict[int, int] = {}
    woken, wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _ignore)  # Without a handler, a signal does not wake.
    while True:
        ready, _, _ = select.select([requests, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _report(statuses)
        if requests not in ready:
            continue
        request, files, _, _ = socket.recv_fds(requests, REQUEST_BYTES, 4)
        if not request:
            for pid in statuses:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return None
        if (pid := os.fork()) == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            arguments, environment, directory = json.loads(request)
            for target, file in enumerate(files[:3]):
                os.dup2(file, target)
            for file in (*files, *statuses.values(), woken, wakes, requests.detach()):
                os.close(file)
            os.environ.clear()
            os.environ.update(environment)
            os.chdir(directory)
            return arguments
        for file in files[:3]:
            os.close(file)
        statuses[pid] = files[3]
        requests.send(b"%d" % pid)


def _ignore(number: int, frame: FrameType | None) -> None:
    del number, frame


def _report(statuses: dict[int, int]) -> None:
    """Pass on the exit statuses of the forks that ended."""
    while statuses:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        file = statuses.pop(pid)
        with contextlib.suppress(BrokenPipeError):
            os.write(file, b"%d" % status)
        os.close(file)


def _leave() -> None:
    """End without the destruction of every object, which takes longer than most commands."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(_exit_code)


_exit_code = 0

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # It is for the process that asks.
    atexit.register(_leave)  # The first to be registered is the last to run.
    for module in (*MODULES, *sys.argv[2:]):
        importlib.import_module(module)
    with contextlib.redirect_stdout(io.StringIO()):
        # Typer imports more when a command runs for the first time.
        importlib.import_module("tests.cli.tree").ROOT(["version"], standalone_mode=False)
    gc.freeze()  # A collection would copy every page.
    if (arguments := _serve(socket.socket(fileno=int(sys.argv[1])))) is not None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.argv = ["queen", *arguments]
        try:
            importlib.import_module("queen.__main__").main()
        except SystemExit as error:
            _exit_code = error.code if isinstance(error.code, int) else int(error.code is not None)
            raise
        except BaseException:
            _exit_code = 1
            raise
