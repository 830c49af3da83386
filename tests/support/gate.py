"""A socket in front of a server's, whose connections can fall silent or be led elsewhere."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit


class Gate:
    """
    Passes on what both ends say. ``dsn`` names the same database through it.

    Usage::

        async with Gate.open(dsn, tmp_path) as gate:
            connection = await asyncpg.connect(gate.dsn)
            gate.fall_silent()
    """

    def __init__(self, dsn: str, folder: Path) -> None:
        self._port = 5432
        self._folder = folder
        self._target = ""
        self._is_silent = False
        self._passing: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self.dsn = ""
        self.lead_to(dsn)

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, dsn: str, folder: Path) -> "AsyncGenerator[Gate]":
        gate = cls(dsn, folder)
        server = await asyncio.start_unix_server(gate._serve, folder / f".s.PGSQL.{gate._port}")
        try:
            yield gate
        finally:
            server.close()
            gate.cut()

    def lead_to(self, dsn: str) -> None:
        """Connections made from now on go to another server."""
        parts = urlsplit(dsn)
        query = parse_qs(parts.query)
        port = query["port"][0] if "port" in query else str(parts.port or 5432)
        self._target = f"{query['host'][0]}/.s.PGSQL.{port}"
        self.dsn = parts._replace(query=f"host={self._folder}&port={self._port}").geturl()

    def fall_silent(self) -> None:
        """Those that are open stay so, and nothing passes any more."""
        for task in self._passing:
            task.cancel()

    def swallow(self, is_silent: bool) -> None:
        """Also those made from now on are accepted, and nothing passes."""
        self._is_silent = is_silent
        if is_silent:
            self.fall_silent()

    def cut(self) -> None:
        """Those that are open are closed, whatever was on its way."""
        self.fall_silent()
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        if self._is_silent:
            return
        to_reader, to_writer = await asyncio.open_unix_connection(self._target)
        if self._is_silent or writer.transport.is_closing():  # Both can change meanwhile.
            to_writer.transport.abort()
            return
        self._writers.append(to_writer)
        for source, sink in ((reader, to_writer), (to_reader, writer)):
            task = asyncio.create_task(_pass(source, sink))
            self._passing.add(task)
            task.add_done_callback(self._passing.discard)


async def _pass(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(65_536):
            sink.write(data)
            await sink.drain()
        sink.close()
