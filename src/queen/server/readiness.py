"""Check the database, once for all concurrent probes."""

import asyncio
import time
from typing import Final

from queen import errors, sql
from queen.store.store import Store

_FRESH_SECONDS: Final = 1.0
"""Probes need no API key, so all of them share one check per second."""


class Readiness:
    """
    Checks the database at most once per second, one check at a time.

    It checks again if other calls have detected a change of availability.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._check: asyncio.Task[dict[str, str]] | None = None
        self._began_at = 0.0
        self._was_away = False

    async def checks(self) -> dict[str, str]:
        """Return each check by name: ``ok``, or the error."""
        now = time.monotonic()
        check = self._check
        is_old = (
            now - self._began_at > _FRESH_SECONDS or self._was_away != self._store.database.is_away
        )
        if check is None or (check.done() and is_old):
            self._began_at = now
            check = self._check = asyncio.create_task(self._run())
        # The check continues for other clients if this one disconnects.
        return await asyncio.shield(check)

    async def _run(self) -> dict[str, str]:
        checks = {"database": await self._database(), "migrations": await self._migrations()}
        self._was_away = self._store.database.is_away
        return checks

    async def _database(self) -> str:
        try:
            await self._store.database.fetch("now")
        except errors.QueenError as error:
            return f"{error.code}: {error}"
        return "ok"

    async def _migrations(self) -> str:
        """Return ``ok``, or the names of missing migrations."""
        try:
            rows = await self._store.instances.migrations()
        except errors.QueenError as error:
            return error.code
        missing = set(sql.MIGRATIONS) - {row["name"] for row in rows}
        return f"missing: {', '.join(sorted(missing))}" if missing else "ok"
