"""A socket in front of a server's that can block, redirect, change or cut connections."""

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit


class Gate:
    """
    Forwards both directions. ``dsn`` names the same database through it.

    Usage::

        async with Gate.open(dsn, tmp_path) as gate:
            connection = await asyncpg.connect(gate.dsn)
            gate.fall_silent()
    """

    def __init__(self, dsn: str, directory: Path) -> None:
        self._port = 5432
        self._directory = directory
        self._target = ""
        self._is_silent = False
        self._version: int | None = None
        self._passing: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self.dsn = ""
        self.ignored = 0
        """How many new connections were accepted without a response."""
        self.lead_to(dsn)

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, dsn: str, directory: Path) -> "AsyncGenerator[Gate]":
        gate = cls(dsn, directory)
        server = await asyncio.start_unix_server(gate._serve, directory / f".s.PGSQL.{gate._port}")
        try:
            yield gate
        finally:
            server.close()
            gate.cut()

    def lead_to(self, dsn: str) -> None:
        """Redirect new connections to another server."""
        parts = urlsplit(dsn)
        query = parse_qs(parts.query)
        port = query["port"][0] if "port" in query else str(parts.port or 5432)
        self._target = f"{query['host'][0]}/.s.PGSQL.{port}"
        self.dsn = parts._replace(query=f"host={self._directory}&port={self._port}").geturl()

    def report_version(self, major: int) -> None:
        """Let the server report another major version, of two digits, to new connections."""
        self._version = major

    def fall_silent(self) -> None:
        """Keep open connections, but forward no more data."""
        for task in self._passing:
            task.cancel()

    def swallow(self, is_silent: bool) -> None:
        """Accept new connections too, but forward no data."""
        self._is_silent = is_silent
        if is_silent:
            self.fall_silent()

    def cut(self) -> None:
        """Close open connections, and drop data on its way."""
        self.fall_silent()
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        if self._is_silent:
            self.ignored += 1
            return
        to_reader, to_writer = await asyncio.open_unix_connection(self._target)
        if self._is_silent or writer.transport.is_closing():  # Both can change meanwhile.
            to_writer.transport.abort()
            return
        self._writers.append(to_writer)
        for source, sink, version in (
            (reader, to_writer, None),
            (to_reader, writer, self._version),
        ):
            task = asyncio.create_task(_pass(source, sink, version))
            self._passing.add(task)
            task.add_done_callback(self._passing.discard)


async def _pass(
    source: asyncio.StreamReader, sink: asyncio.StreamWriter, version: int | None
) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(65_536):
            if version is not None:
                # The parameter is in the first response. Its length stays the same.
                data = re.sub(rb"(server_version\0)\d\d", rb"\g<1>%d" % version, data)
            sink.write(data)
            await sink.drain()
        sink.close()
