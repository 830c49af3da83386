"""docs/operate/rehearse-failover.md works as written: a failover under load loses no message."""

import os
import pwd
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "operate" / "rehearse-failover.md").read_text("utf-8")
PROGRAMS = ("etcd", "patroni", "haproxy", "pgbouncer", "psql", "curl")
PATH = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"], "/usr/sbin"))
MISSING = [each for each in PROGRAMS if shutil.which(each, path=PATH) is None]
BLOCK_SECONDS = 120
"""The longest time for a block of commands, which waits until its part is ready."""
END_SECONDS = 20
FAULTS = ("lost", "stored twice", "delivered after their ack", "partitions out of order")

pytestmark = pytest.mark.slow


class Reader:
    """Follows the page in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._account = "postgres" if os.geteuid() == 0 else None
        if self._account:
            owner = pwd.getpwnam(self._account)
            os.chown(directory, owner.pw_uid, owner.pw_gid)

    def save(self, name: str, text: str) -> None:
        path = self.directory / name
        path.write_text(text, "utf-8")
        path.chmod(0o644)

    def run(self, block: str) -> str:
        """Run a block of commands to its end and return its output."""
        try:
            done = subprocess.run(
                ["bash", "-ec", block],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=BLOCK_SECONDS,
                check=False,
                text=True,
                **self._options(block),
            )
        except subprocess.TimeoutExpired:
            pytest.fail(f"no end within {BLOCK_SECONDS} s: {block}\n{self.logs()}")
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{self.logs()}"
        return done.stdout

    def start(self, block: str) -> "subprocess.Popen[str]":
        """Start a command and return without waiting. Its output goes to the file `load.log`."""
        with (self.directory / "load.log").open("w") as log:
            return subprocess.Popen(
                ["bash", "-ec", f"exec {block}"], stdout=log, text=True, **self._options(block)
            )

    def progress(self) -> int:
        """The acknowledged messages of the running load."""
        counts = re.findall(r"(\d+) acknowledged$", self.read("load.log"), flags=re.MULTILINE)
        return int(counts[-1]) if counts else 0

    def read(self, name: str) -> str:
        return (self.directory / name).read_text("utf-8")

    def logs(self) -> str:
        paths = sorted(self.directory.glob("*.log"))
        return "\n".join(f"--- {path.name}\n{path.read_text('utf-8')[-2_000:]}" for path in paths)

    def processes(self) -> list[int]:
        """The ids of the processes that work in the directory, or below it."""
        found: list[int] = []
        for path in Path("/proc").glob("[0-9]*/cwd"):
            try:
                where = path.readlink()
            except OSError:  # It has ended, or belongs to another user.
                continue
            if where.is_relative_to(self.directory):
                found.append(int(path.parent.name))
        return found

    def end(self) -> None:
        """Kill the processes that are left after a failure."""
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def _options(self, block: str) -> dict[str, Any]:
        # PostgreSQL and PgBouncer reject root, whose Python their account may not read.
        account = self._account if block.split()[0] in ("patroni", "pgbouncer") else None
        return {
            "cwd": self.directory,
            "env": {"PATH": PATH, "HOME": str(self.directory), "PYTHONPATH": str(ROOT / "src")},
            "stdin": subprocess.DEVNULL,
            "user": account,
        }


def until(condition: Callable[[], bool], seconds: float, details: Callable[[], str] = str) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"the condition was not met in time\n{details()}"
        time.sleep(0.1)


def files() -> list[tuple[str, str]]:
    """The files that the reader of the page saves."""
    return re.findall(
        r"^Save this as `([\w.]+)`.*?\n\n```[^\n]+\n(.*?)^```$",
        PAGE,
        flags=re.DOTALL | re.MULTILINE,
    )


def blocks() -> list[str]:
    """The commands that the reader of the page runs."""
    return re.findall(r"^```sh\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)


@pytest.fixture
def reader() -> Iterator[Reader]:
    # Not pytest's directory, which only its owner may enter: PostgreSQL runs as another account.
    directory = Path(tempfile.mkdtemp(prefix="queen-rehearsal-"))
    directory.chmod(0o755)
    work = directory / "work"
    work.mkdir()
    reader = Reader(work)
    try:
        yield reader
    finally:
        reader.end()
        until(lambda: not reader.processes(), END_SECONDS)
        shutil.rmtree(directory)


def judge(reader: Reader, load: "subprocess.Popen[str]") -> None:
    assert load.wait(300) == 0, reader.logs()
    result = dict(re.findall(r"^([a-z ]+): ([\d.]+)", reader.read("load.log"), re.MULTILINE))
    print(result, flush=True)
    assert {name: result[name] for name in FAULTS} == dict.fromkeys(FAULTS, "0")
    # The failover really hit the load.
    assert float(result["longest pause between pushes"]) > 0.5


@pytest.mark.timeout(900)
def test_failovers_under_load_lose_no_message(reader: Reader) -> None:
    assert not MISSING, f"Install {', '.join(MISSING)}, which the page needs."
    for name, text in files():
        reader.save(name, text)
    *preparation, load, kill, rejoin, switch, stop = blocks()
    for block in preparation:
        reader.run(block)
    seed = random.SystemRandom().randrange(10**9)
    moments = random.Random(seed)
    print(f"seed {seed}", flush=True)

    for faults in ([kill, rejoin], [switch]):
        with reader.start(load) as loading:
            acknowledged = moments.randrange(100, 1_000)
            until(lambda enough=acknowledged: reader.progress() >= enough, 60)
            print(f"failover after {acknowledged} acknowledged messages", flush=True)
            started_at = time.monotonic()
            for block in faults:
                reader.run(block)
                seconds = time.monotonic() - started_at
                print(f"{seconds:.1f} s: {block.splitlines()[0]}", flush=True)
            before = reader.progress()
            until(lambda before=before: reader.progress() > before, 60, reader.logs)
            judge(reader, loading)

    reader.run(stop)
    until(lambda: not reader.processes(), END_SECONDS)
