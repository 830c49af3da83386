"""A private PostgreSQL server for tests and benchmarks, or an existing one."""

import atexit
import contextlib
import functools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg

DEFAULTS: Mapping[str, str | int] = {
    "autovacuum": "on",
    "fsync": "on",  # The server requires it.
    "max_connections": 200,
    "max_wal_size": "4GB",
    "shared_buffers": "256MB",
    "wal_level": "replica",
}
START_SECONDS = 120  # Includes recovery after `kill`.
STOP_SECONDS = 60
MEMORY = Path("/dev/shm")
MEMORY_BYTES = 2 << 30
"""A server uses memory if this much is free for each process of the run. WAL takes half."""
IN_MEMORY: Mapping[str, str | int] = {
    "max_wal_size": "1GB",
    # The files are in memory already, and each new or dropped database scans all buffers.
    # `queen doctor` warns of less.
    "shared_buffers": "128MB",
}


@functools.cache
def bindir() -> Path:
    """The directory of PostgreSQL's programs, which Debian keeps off the PATH."""
    if found := shutil.which("postgres"):
        return Path(found).resolve().parent
    answer = subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True, check=True)
    return Path(answer.stdout.strip())


class Server:
    """An existing PostgreSQL server."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._administration: psycopg.Connection[Any] | None = None
        """For the commands that create and drop databases: a new connection costs more CPU time."""

    def dsn(self, database: str = "postgres") -> str:
        return urlunsplit(urlsplit(self._dsn)._replace(path=f"/{quote(database)}"))

    def create_database(self, name: str, template: str | None = None) -> str:
        """Create a database, as a copy of `template` if given, and return its DSN."""
        # Copying files is twice as fast as the default, which writes every page to WAL.
        copied = f' template "{template}" strategy file_copy' if template else ""
        self._administer(f'create database "{name}"{copied}')
        return self.dsn(name)

    def drop_database(self, name: str) -> None:
        """Drop a database, if there is one, and close the connections to it."""
        self._administer(f'drop database if exists "{name}" with (force)')

    def _administer(self, statement: str) -> None:
        if self._administration is None:
            self._administration = psycopg.connect(self.dsn(), autocommit=True)
        self._administration.execute(statement.encode())

    def disconnect(self) -> None:
        """Close the connection for administration. The next command opens a new one."""
        if self._administration is not None:
            self._administration.close()
            self._administration = None

    def execute(self, statement: str, database: str = "postgres") -> None:
        """Run one statement. Blocks, so it works with and without an event loop."""
        with psycopg.connect(self.dsn(database), autocommit=True) as connection:
            connection.execute(statement.encode())

    def value(self, query: str, database: str = "postgres") -> object:
        """Return the first value of a query."""
        with psycopg.connect(self.dsn(database), autocommit=True) as connection:
            row = connection.execute(query.encode()).fetchone()
            return row and row[0]


class Postgres(Server):
    """
    A child process with a private socket in a temporary directory, or a port.

    With `in_memory`, the directory is in memory, where a commit is not delayed by a disk. Servers
    without `is_first` are copies of one data directory, so they have the same system identifier.

    Usage::

        with Postgres({"shared_buffers": "1GB"}) as postgres:
            dsn = postgres.create_database("orders")
            postgres.kill()
            postgres.start()  # Returns once recovery is over.
    """

    def __init__(
        self,
        settings: Mapping[str, str | int] | None = None,
        *,
        port: int | None = None,
        in_memory: bool = False,
        is_first: bool = False,
    ) -> None:
        # The path of a socket is limited to 107 bytes.
        workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
        memory = MEMORY if in_memory and _free_bytes(MEMORY) > MEMORY_BYTES * workers else None
        self.directory = Path(tempfile.mkdtemp(prefix="queen-", dir=memory))
        super().__init__(
            f"postgresql://postgres@/postgres?host={quote(str(self.directory))}"
            if port is None
            else f"postgresql://postgres@127.0.0.1:{port}/postgres"
        )
        self.settings = {
            **DEFAULTS,
            **(IN_MEMORY if memory else {}),
            **(settings or {}),
            "listen_addresses": "" if port is None else "127.0.0.1",
            "port": port or 5432,
            "unix_socket_directories": str(self.directory),
        }
        self._is_first = is_first
        self.arguments: list[str] = []
        """Extra arguments of the command that starts it."""
        self.data = self.directory / "data"
        self.log = self.directory / "log"
        # PostgreSQL does not run as root.
        self._account = pwd.getpwnam("postgres") if os.geteuid() == 0 else None
        if self._account:
            os.chown(self.directory, self._account.pw_uid, self._account.pw_gid)
        self._postmaster: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.remove()

    @property
    def pid(self) -> int:
        """The pid of the postmaster."""
        if self._postmaster is None:
            raise RuntimeError("PostgreSQL is not running")
        return self._postmaster.pid

    @property
    def is_stopped(self) -> bool:
        return self._postmaster is None

    def start(self) -> None:
        """Start, also after `stop` and `kill`, and wait until connections are accepted."""
        if self._postmaster is not None:
            raise RuntimeError("PostgreSQL is running already")
        if not self.data.exists():
            self._initdb()
        self._postmaster = self._spawn("postgres", "-D", str(self.data), *self.arguments)
        try:
            _wait(self._is_ready, START_SECONDS, "PostgreSQL did not start")
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Shut down with a checkpoint. Connections are closed."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Kill all processes of the server, as a crash of the machine would."""
        self.disconnect()
        if self._postmaster is None:
            return
        # Stop the postmaster first, so that it forks no more, and kill it last. If others see
        # that it ended, they send their clients an error, which a crash does not.
        self._postmaster.send_signal(signal.SIGSTOP)
        children = _children(self._postmaster.pid)
        for pid in (*children, self._postmaster.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._postmaster.wait(STOP_SECONDS)
        self._postmaster = None
        # Until then they hold the shared memory, and a new postmaster would not start.
        _wait(
            lambda: not any(_is_alive(pid) for pid in children),
            STOP_SECONDS,
            "PostgreSQL's processes did not end",
        )

    def pause(self) -> None:
        """Stop every process: sockets stay open without any response."""
        for pid in (self.pid, *_children(self.pid)):
            os.kill(pid, signal.SIGSTOP)

    def resume(self) -> None:
        for pid in (*_children(self.pid), self.pid):
            os.kill(pid, signal.SIGCONT)

    def restart(self) -> None:
        self.stop()
        self.start()

    def remove(self) -> None:
        """Stop the server and delete its directory."""
        self._end(signal.SIGQUIT)  # Immediately, but with its shared memory released.
        # Many files take a while, so don't wait for it.
        subprocess.run(["setsid", "--fork", "rm", "-rf", self.directory], check=True)

    def _end(self, how: signal.Signals) -> None:
        self.disconnect()
        if self._postmaster is None:
            return
        self._postmaster.send_signal(how)
        self._postmaster.wait(STOP_SECONDS)
        self._postmaster = None

    def run(self, program: str, *arguments: str) -> None:
        """Run a PostgreSQL program to its end, as the user of the server."""
        if self._spawn(program, *arguments).wait(START_SECONDS):
            raise RuntimeError(self.log.read_text())

    def _initdb(self) -> None:
        if self._is_first:
            # Without sync, because a killed process does not lose data in the kernel's cache.
            options = ("-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
            self.run("initdb", "-D", str(self.data), *options)
        else:
            # A tenth of the CPU time.
            subprocess.run(["cp", "--archive", _empty_data(), self.data], check=True)
        with (self.data / "postgresql.conf").open("a") as file:
            for name, value in self.settings.items():
                quoted = str(value).replace("'", "''")
                file.write(f"{name} = '{quoted}'\n")

    def _spawn(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        account = self._account
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [bindir() / program, *arguments],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the tests, not for the server.
                user=account.pw_uid if account else None,
                group=account.pw_gid if account else None,
                extra_groups=[account.pw_gid] if account else None,
            )

    def _is_ready(self) -> bool:
        if self._postmaster is None or self._postmaster.poll() is not None:
            raise RuntimeError(f"PostgreSQL ended while starting:\n{self.log.read_text()}")
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        # The file may be left over from before a kill.
        state = [line.strip() for line in lines[7:8]]
        return lines[:1] == [str(self.pid)] and state in (["ready"], ["standby"])


@functools.cache
def _empty_data() -> Path:
    """A data directory without settings, which servers of this process copy."""
    source = Postgres(in_memory=True, is_first=True)
    atexit.register(source.remove)
    source.settings = {}
    source._initdb()  # pyright: ignore[reportPrivateUsage] - its own class
    return source.data


def _free_bytes(directory: Path) -> int:
    return shutil.disk_usage(directory).free if directory.exists() else 0


def _children(parent: int) -> list[int]:
    return [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and _stat(int(entry.name))[1:2] == [str(parent)]
    ]


def _is_alive(pid: int) -> bool:
    return _stat(pid)[:1] not in ([], ["Z"], ["X"])


def _stat(pid: int) -> list[str]:
    """State, parent and so on. Empty if the process does not exist."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return text.rpartition(")")[2].split()  # The name before it may contain any character.


def _wait(condition: Callable[[], bool], seconds: float, complaint: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(complaint)
        time.sleep(0.01)
