"""Iceberg tables of archives. Only a server that serves them needs Iceberg's packages."""

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
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
        # Not the threads of the process: others would wait while a storage does not respond.
        self._threads = ThreadPoolExecutor(_CONCURRENT, thread_name_prefix="lake-tables")

    async def load(self, name: str) -> bytes:
        """Return a table as JSON of Iceberg's protocol. Raises NotFound."""
        return await self._run(lambda service: service.load(name))

    async def commit(self, name: str, body: Mapping[str, Any]) -> bytes:
        """Commit to a table. Returns it as JSON. Raises NotFound, Conflict and BadRequest."""
        return await self._run(lambda service: service.commit(name, dict(body)))

    async def _run(self, work: "Callable[[TableService], bytes]") -> bytes:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: work(self._connected()))

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
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
