"""A private PgBouncer in transaction mode, in front of the test server."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, quote, urlsplit

START_SECONDS = 30
STOP_SECONDS = 30
PORT = 6432  # Only part of the socket's name, because it does not listen on the network.


def program() -> str | None:
    """Path of the program, which Debian installs outside the PATH of ordinary users."""
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


class PgBouncer:
    """
    A child process on a socket in a temporary directory.

    Usage::

        with PgBouncer(postgres.dsn(), pool_size=3) as pgbouncer:
            engine = await Engine.open(pgbouncer.dsn("orders"), is_pooled=True)
    """

    def __init__(self, dsn: str, *, pool_size: int) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="queen-"))
        server = urlsplit(dsn)
        query = {name: values[0] for name, values in parse_qs(server.query).items()}
        target = {
            "host": query.get("host") or server.hostname,
            "port": query.get("port") or server.port,
            "user": query.get("user") or server.username or "postgres",
            "password": server.password,
        }
        settings = {
            "listen_addr": "",
            "listen_port": PORT,
            "unix_socket_dir": self.directory,
            "auth_type": "any",
            "pool_mode": "transaction",
            "default_pool_size": pool_size,
            "max_client_conn": 500,
            "logfile": self.directory / "log",
        }
        # Like PostgreSQL, PgBouncer does not run as root.
        self._account = pwd.getpwnam("postgres") if os.geteuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None
        lines = [
            "[databases]",
            "* = " + " ".join(f"{name}={value}" for name, value in target.items() if value),
            "[pgbouncer]",
            *(f"{name} = {value}" for name, value in settings.items()),
        ]
        (self.directory / "ini").write_text("\n".join(lines) + "\n")
        if self._account:
            for path in (self.directory, self.directory / "ini"):
                os.chown(path, self._account.pw_uid, self._account.pw_gid)

    def dsn(self, database: str) -> str:
        return f"postgresql://postgres@/{quote(database)}?host={quote(str(self.directory))}&port={PORT}"

    def __enter__(self) -> Self:
        name = program()
        if name is None:
            raise RuntimeError("there is no pgbouncer")
        account = self._account
        self._process = subprocess.Popen(
            [name, "--quiet", str(self.directory / "ini")],
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[account.pw_gid] if account else None,
        )
        try:
            self._wait()
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

    def remove(self) -> None:
        """End the process, and delete its directory."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(STOP_SECONDS)
            self._process = None
        shutil.rmtree(self.directory, ignore_errors=True)

    def _wait(self) -> None:
        socket = self.directory / f".s.PGSQL.{PORT}"
        deadline = time.monotonic() + START_SECONDS
        while not socket.exists():
            if self._process is None or self._process.poll() is not None:
                raise RuntimeError(f"PgBouncer ended:\n{(self.directory / 'log').read_text()}")
            if time.monotonic() > deadline:
                raise TimeoutError("PgBouncer did not start")
            time.sleep(0.01)
