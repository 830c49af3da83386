"""A document of the token issuer, fetched over https and cached."""

import asyncio
import http.client
import ssl
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar
from urllib.parse import urlsplit

import msgspec

from queen import errors, tasks
from queen.server import logs
from queen.telemetry import Event

T = TypeVar("T")

_MOST_BYTES: Final = 2**18
_FETCH_SECONDS: Final = 5.0
_FRESH_SECONDS: Final = 300.0
_REFETCH_SECONDS: Final = 30.0
"""The shortest time between two fetches."""


class CachedDocument(Generic[T]):
    """One document. Its URL comes from a setting, never from a token."""

    def __init__(self, url: str, read: Callable[[bytes], T], *, setting: str) -> None:
        parts = urlsplit(url)
        if parts.scheme != "https" or not parts.hostname or parts.username:
            raise errors.BadSettings(f"{setting} must begin with https:// and a host")
        self._host = parts.hostname
        self._port = parts.port or 443
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._read = read
        self._fetched_at: float | None = None
        self._tried_at: float | None = None
        self._task: asyncio.Task[None] | None = None
        self.value: T | None = None

    async def close(self) -> None:
        await tasks.stop(self._task)

    @property
    def age(self) -> float:
        """Seconds since the last fetch; infinite before the first."""
        return float("inf") if self._fetched_at is None else time.monotonic() - self._fetched_at

    async def fetch(self) -> None:
        """Fetch it again and wait, unless that was done a moment ago."""
        if self._task is not None or self._is_due:
            await asyncio.shield(self._begin())

    def refresh(self) -> None:
        """Fetch it again in the background if it is old."""
        if self.age > _FRESH_SECONDS and self._is_due:
            self._begin()

    @property
    def _is_due(self) -> bool:
        return self._tried_at is None or time.monotonic() - self._tried_at > _REFETCH_SECONDS

    def _begin(self) -> asyncio.Task[None]:
        if self._task is None:
            self._tried_at = time.monotonic()
            self._task = asyncio.create_task(self._fetch())
        return self._task

    async def _fetch(self) -> None:
        try:
            async with asyncio.timeout(_FETCH_SECONDS * 2):
                text = await asyncio.to_thread(self._get)
            self.value = self._read(text)
            self._fetched_at = time.monotonic()
        except (OSError, http.client.HTTPException, ValueError, msgspec.MsgspecError) as error:
            where = f"https://{self._host}:{self._port}{self._path}"
            logs.get().warning(Event.ISSUER_SILENT, url=where, reason=str(error))
        finally:
            self._task = None

    def _get(self) -> bytes:
        """Send one GET to the configured host. A redirect is an error."""
        connection = http.client.HTTPSConnection(
            self._host,
            self._port,
            timeout=_FETCH_SECONDS,
            context=ssl.create_default_context(),
        )
        try:
            connection.request("GET", self._path, headers={"Accept": "application/json"})
            response = connection.getresponse()
            if response.status != 200:
                raise ValueError(f"the issuer responded with status {response.status}")
            text = response.read(_MOST_BYTES + 1)
        finally:
            connection.close()
        if len(text) > _MOST_BYTES:
            raise ValueError("the issuer's response is too large")
        return text
