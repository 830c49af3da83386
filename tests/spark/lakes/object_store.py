"""A private S3-compatible server, and a proxy in front of it that fails on demand."""

# pyright: basic
import http.client
import multiprocessing
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Literal, Self
from urllib.parse import urlsplit

from pyarrow import fs

from tests.support.ports import free_port

ACCESS_KEY = "queen-tests"
SECRET_KEY = "not-in-any-log-3f1c"
BUCKET = "lake"
_PROGRAM = Path(__file__).parents[2] / ".venv" / "bin" / "versitygw"
_START_SECONDS = 30
_SLOW_DOWN = (
    b'<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>Reduce your rate</Message></Error>'
)
_HOP_BY_HOP = {"connection", "expect", "keep-alive", "transfer-encoding"}

Fault = Literal["rejected", "lost", "slow"]
"""``rejected``: 503 before the request. ``lost``: the request is applied, then 503."""
_FAULTS: tuple[Fault, ...] = ("rejected", "lost", "slow")
_FORK = multiprocessing.get_context("fork")


def program() -> str:
    """The server's program, which `make versitygw` builds."""
    found = os.environ.get("VERSITYGW") or shutil.which("versitygw") or str(_PROGRAM)
    assert os.path.exists(found), "build the object store first: make versitygw"
    return found


class ObjectStore:
    """
    An object store in a directory, with one bucket.

    Usage::

        with ObjectStore(tmp_path) as store:
            store.url, store.credentials  # The options of a lake.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "objects"
        self.metadata = folder / "object-metadata"
        for each in (self._folder, self.metadata):
            each.mkdir()
        self._port = free_port()
        self._log = folder / "versitygw.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"http://127.0.0.1:{self._port}"
        self.credentials = folder / "credentials"
        self.credentials.write_text(
            f"[default]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n"
        )

    def __enter__(self) -> Self:
        keys = {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY}
        arguments = [program(), "--port", f"127.0.0.1:{self._port}", "--quiet", "posix"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*arguments, "--sidecar", str(self.metadata), str(self._folder)],
                env={**os.environ, **keys},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                self.files().create_dir(BUCKET)
                return self
            except OSError:
                assert self._process.poll() is None, self._log.read_text()
                assert time.monotonic() < deadline, self._log.read_text()
                time.sleep(0.05)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def files(self) -> fs.S3FileSystem:
        """The server's content, without code of Queen."""
        return fs.S3FileSystem(
            access_key=ACCESS_KEY,
            secret_key=SECRET_KEY,
            endpoint_override=f"127.0.0.1:{self._port}",
            scheme="http",
            region="us-east-1",
            allow_bucket_creation=True,
        )

    def objects(self) -> list[str]:
        """The names of all objects."""
        selector = fs.FileSelector(BUCKET, recursive=True)
        found = self.files().get_file_info(selector)
        return sorted(info.path for info in found if info.type == fs.FileType.File)

    def stored(self) -> list[Path]:
        """Everything in the server's directory, including parts of unfinished uploads."""
        return [path for path in self._folder.rglob("*") if path.is_file()]


class FaultProxy:
    """
    Forwards requests to an object store, except for those that ``choose`` names a fault for.

    It is a process, because delta-rs keeps Python's lock while it waits for a response.

    Usage::

        with FaultProxy(store.url, lambda number, method: "rejected" if number % 7 == 0 else None):
            ...
    """

    def __init__(
        self,
        target: str,
        choose: Callable[[int, str], Fault | None],
        *,
        slow_seconds: float = 0.5,
    ) -> None:
        self.target = urlsplit(target).netloc
        self._choose = choose
        self.slow_seconds = slow_seconds
        self._lock = threading.Lock()
        self._count = 0
        self._faults = _FORK.Array("i", len(_FAULTS))
        self._server = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Handler", (_Handler,), {"proxy": self})
        )
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._process = _FORK.Process(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._process.start()
        return self

    @property
    def faults(self) -> dict[Fault, int]:
        """How many faults of each kind there were."""
        return dict(zip(_FAULTS, self._faults[:], strict=True))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.join()
        self._process.close()
        self._server.server_close()

    def next_fault(self, method: str) -> Fault | None:
        with self._lock:
            self._count += 1
            fault = self._choose(self._count, method)
            if fault is not None:
                self._faults[_FAULTS.index(fault)] += 1
            return fault


class _Handler(BaseHTTPRequestHandler):
    proxy: ClassVar["FaultProxy"]
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: object) -> None:
        """Write nothing."""

    def forward(self) -> None:
        body = self.body()
        fault = self.proxy.next_fault(self.command)
        if fault == "slow":
            threading.Event().wait(self.proxy.slow_seconds)
        if fault == "rejected":
            self.answer(503, [], _SLOW_DOWN)
            return
        status, headers, content = self.ask(body)
        if fault == "lost":
            self.answer(503, [], _SLOW_DOWN)
        else:
            self.answer(status, headers, content)

    def body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        chunks: list[bytes] = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            """Trailers end with an empty line."""
        return b"".join(chunks)

    def ask(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection(self.proxy.target, timeout=60)
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in _HOP_BY_HOP:
                connection.putheader(name, value)
        if body and "Content-Length" not in self.headers:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body or None)
        answer = connection.getresponse()
        found = answer.status, answer.getheaders(), answer.read()
        connection.close()
        return found

    def answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        with suppress(ConnectionError):
            self.send_response_only(status)
            named = {name.lower() for name, _ in headers}
            for name, value in headers:
                if name.lower() not in _HOP_BY_HOP:
                    self.send_header(name, value)
            if "content-length" not in named:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

    do_DELETE = do_GET = do_HEAD = do_POST = do_PUT = forward
