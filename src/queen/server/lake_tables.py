"""Iceberg tables of archives. Only a server that serves them needs Iceberg's packages."""

import asyncio
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from queen import errors

if TYPE_CHECKING:
    from queen.lake.table_service import TableService

_CONCURRENT: Final = 8
"""Tables that are read or committed at the same time in one process."""


class LakeTables:
    """Loads and commits tables in threads, because Iceberg's packages block."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._service: TableService | None = None
        self._lock = threading.Lock()
        self._slots = asyncio.Semaphore(_CONCURRENT)

    async def load(self, name: str) -> bytes:
        """Return a table as JSON of Iceberg's protocol. Raises NotFound."""
        async with self._slots:
            return await asyncio.to_thread(lambda: self._connected().load(name))

    async def commit(self, name: str, body: Mapping[str, Any]) -> bytes:
        """Commit to a table. Returns it as JSON. Raises NotFound, Conflict and BadRequest."""
        async with self._slots:
            return await asyncio.to_thread(lambda: self._connected().commit(name, dict(body)))

    def close(self) -> None:
        if self._service is not None:
            self._service.close()

    def _connected(self) -> "TableService":
        with self._lock:
            if self._service is None:
                try:
                    from queen.lake.table_service import TableService
                except ModuleNotFoundError as error:
                    raise errors.NotFound(
                        f"the server lacks the package {error.name}: install queenmq[spark]"
                    ) from error
                self._service = TableService(self._dsn)
            return self._service
