"""docs/operate/rehearse-failover.md works as written: a failover under load loses no message."""

import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "operate" / "rehearse-failover.md").read_text("utf-8")
PROGRAMS = ("etcd", "patroni", "haproxy", "pgbouncer")
PATH = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"], "/usr/sbin"))
MISSING = [each for each in PROGRAMS if shutil.which(each, path=PATH) is None]
LOAD_SECONDS = 60

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]


class Terminals:
    """The directory of the rehearsal, and the commands that run in it."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self.directory = directory
        self._stack = stack
        self._account = "postgres" if os.geteuid() == 0 else None
        if self._account:
            owner = pwd.getpwnam(self._account)
            os.chown(directory, owner.pw_uid, owner.pw_gid)

    def save(self, name: str, text: str) -> None:
        path = self.directory / name
        path.write_text(text, "utf-8")
        path.chmod(0o644)

    def open(self, command: str) -> "subprocess.Popen[str]":
        """Start a command that keeps running until the end of the test."""
        log = self._stack.enter_context((self.directory.parent / "log").open("a"))
        process = subprocess.Popen(
            ["bash", "-c", f"exec env {command}"],
            stdout=log,
            stderr=log,
            text=True,
            **self._options(command),
        )
        self._stack.callback(self._end, process)
        return process

    def start(self, command: str) -> "subprocess.Popen[str]":
        """Start a command whose output the test reads."""
        words = ["bash", "-c", f"exec {command}"]
        return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, **self._options(command))

    def run(self, command: str) -> str:
        """Run a command to its end and return its output."""
        done = subprocess.run(
            ["bash", "-ec", command],
            capture_output=True,
            text=True,
            timeout=300,
            **self._options(command),
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    def responds(self, url: str) -> bool:
        return subprocess.run(["curl", "-fs", "-o", os.devnull, url], check=False).returncode == 0

    def _options(self, command: str) -> dict[str, Any]:
        # PostgreSQL refuses root, and its account may not read root's Python.
        account = self._account if command.split()[0] in ("patroni", "pgbouncer") else None
        environment = {"PATH": PATH, "HOME": str(self.directory), "PYTHONPATH": str(ROOT / "src")}
        return {"cwd": self.directory, "env": environment, "user": account}

    @staticmethod
    def _end(process: "subprocess.Popen[str]") -> None:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition was not met in time"
        time.sleep(0.1)


def files() -> list[tuple[str, str]]:
    """The files that the reader of the page saves."""
    return re.findall(
        r"^Save this as `([\w.]+)`.*?\n\n```[^\n]+\n(.*?)^```$",
        PAGE,
        flags=re.DOTALL | re.MULTILINE,
    )


def commands() -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)


@pytest.fixture
def terminals() -> Iterator[Terminals]:
    # Not pytest's directory, which only its owner may enter: PostgreSQL runs as another account.
    directory = Path(tempfile.mkdtemp(prefix="queen-rehearsal-"))
    directory.chmod(0o755)
    work = directory / "work"
    work.mkdir()
    try:
        with ExitStack() as stack:
            yield Terminals(work, stack)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@pytest.mark.timeout(600)
def test_a_failover_under_load_loses_no_message(terminals: Terminals) -> None:
    for name, text in files():
        terminals.save(name, text)
    second, etcd, db1, db2, haproxy, pgbouncer, create, queen1, queen2, load, kill = commands()
    terminals.run(second)
    terminals.open(etcd)
    until(lambda: terminals.responds("http://127.0.0.1:2379/health"))
    terminals.open(db1)
    until(lambda: terminals.responds("http://127.0.0.1:8008/primary"))
    terminals.open(db2)
    until(lambda: terminals.responds("http://127.0.0.1:8009/synchronous"))
    for proxy in (haproxy, pgbouncer):
        terminals.open(proxy)
    terminals.run(create)
    for server in (queen1, queen2):
        terminals.open(server)
    until(lambda: terminals.responds("http://127.0.0.1:6641/readyz"))
    until(lambda: terminals.responds("http://127.0.0.1:6642/readyz"))
    until(lambda: terminals.responds("http://127.0.0.1:6640/readyz"))

    with terminals.start(load.replace("120", str(LOAD_SECONDS))) as loading:
        until(lambda: terminals.responds("http://127.0.0.1:6640/api/v1/queues/rehearsal"))
        terminals.run(kill)
        until(lambda: terminals.responds("http://127.0.0.1:8009/primary"))
        terminals.open(db1)
        until(lambda: terminals.responds("http://127.0.0.1:8008/synchronous"))
        output, _ = loading.communicate(timeout=LOAD_SECONDS + 90)

    print(output)
    assert loading.returncode == 0, output
    assert re.fullmatch(
        r"\d+ pushed, 0 lost, 0 partitions out of order, \d+ redelivered", output.strip()
    )
