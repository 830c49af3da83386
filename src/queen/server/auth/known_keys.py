"""API keys for outages: all valid keys, in a file of the buffer directory."""

import asyncio
import contextlib
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from queen import errors
from queen.engine.buffer.directory import sync_folder, write_all
from queen.engine.runtime.periodic import PeriodicTask
from queen.server import logs
from queen.store.connection.database import Record
from queen.store.keys import Keys as StoredKeys
from queen.telemetry import Event

_NAME: Final = "keys.json"
_MOST_KEYS: Final = 10_000
_REFRESH_SECONDS: Final = 1.0
_SHARE: Final = 20
"""A slow refresh is followed by a pause of this many times its duration."""


class KnownKey(msgspec.Struct, frozen=True):
    """A key with the SHA-256 of its secrets, but without the secrets."""

    id: str
    digest: bytes
    name: str
    role: str | None
    permissions: list[str] | None
    scopes: list[dict[str, Any]] | None
    """As in the database: a later release may know more members."""
    requests_per_second: float | None
    ends_at: float | None
    """Seconds since 1970 by this machine's clock, like the next; None: never."""
    old_digest: bytes | None
    old_ends_at: float | None

    def row(self) -> dict[str, Any] | None:
        """The key as the database would return it now; None if it has expired."""
        now = time.time()
        left = None if self.ends_at is None else self.ends_at - now
        old_left = None if self.old_ends_at is None else self.old_ends_at - now
        if left is not None and left <= 0:
            return None
        has_old = old_left is not None and old_left > 0
        found = msgspec.structs.asdict(self) | {"seconds_left": left, "old_seconds_left": old_left}
        return found | {"old_digest": self.old_digest if has_old else None}


class _File(msgspec.Struct):
    keys: list[KnownKey]


class KnownKeys(PeriodicTask):
    """
    The file, which all processes of a server share.

    One process keeps it up to date, and a process that changes a key updates it before it responds.
    The file is not signed: write access to the directory already allows adding pushes to the
    buffer.
    """

    def __init__(self, stored: StoredKeys, directory: Path) -> None:
        super().__init__()
        self._stored = stored
        self._path = directory / _NAME
        self._keys: dict[str, KnownKey] = {}
        self._since: int | None = None
        self._signature: tuple[int, int, int] | None = None
        """Signature of the file that the keys were written to or read from."""
        self._refreshing = asyncio.Lock()

    async def refresh(self) -> None:
        """Bring the file up to date, unless the database or the disk fails."""
        async with self._refreshing:
            try:
                await self._refresh()
            except errors.QueenError:
                # The database may return as another one, restored or promoted.
                self._since = None
            except OSError as error:
                self._since = None
                logs.get().error(Event.KEYS_NOT_SAVED, reason=str(error))

    async def run(self) -> float:
        began_at = time.monotonic()
        try:
            await self.refresh()
        except Exception as error:
            # The next round may succeed.
            self._since = None
            logs.get().error(Event.KEYS_NOT_SAVED, error=error)
        return max(_REFRESH_SECONDS, _SHARE * (time.monotonic() - began_at))

    async def row(self, id_: str) -> Mapping[str, Any] | None:
        """
        Return a key as the database would; None if it did not exist.

        Raises FileNotFoundError if no readable file exists.
        """
        if self._sign() != self._signature:
            await asyncio.to_thread(self._read)
        key = self._keys.get(id_)
        return None if key is None else key.row()

    async def _refresh(self) -> None:
        since = self._since
        snapshot, rows = await self._stored.changed(since, limit=_MOST_KEYS)
        keys: dict[str, KnownKey] = {} if since is None else dict(self._keys)
        for row in reversed(rows):
            keys.pop(row["id"], None)
            if row["is_valid"]:
                keys[row["id"]] = _known(row)
        while len(keys) > _MOST_KEYS:
            keys.pop(next(iter(keys)))
        is_changed = since is None or bool(rows)
        if is_changed or self._sign() != self._signature:
            await asyncio.to_thread(self._write, keys)
        self._keys = keys
        # The limit was reached, so some changes may be missing: read all keys next time.
        self._since = snapshot if since is None or len(rows) < _MOST_KEYS else None

    def _write(self, keys: dict[str, KnownKey]) -> None:
        """Replace the file durably and atomically."""
        data = msgspec.json.encode(_File(list(keys.values())))
        path = self._path.with_suffix(f".{os.getpid()}.tmp")
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            write_all(file, data)
            os.fsync(file)
        except OSError:
            with contextlib.suppress(OSError):
                path.unlink()
            raise
        finally:
            os.close(file)
        path.replace(self._path)
        sync_folder(self._path.parent)
        self._signature = self._sign()

    def _read(self) -> None:
        signature = self._sign()
        if signature is None:
            raise FileNotFoundError(self._path)
        try:
            found = msgspec.json.decode(self._path.read_bytes(), type=_File)
        except (msgspec.MsgspecError, ValueError) as error:
            logs.get().error(Event.KEYS_NOT_SAVED, reason=str(error))
            raise FileNotFoundError(self._path) from error
        self._keys = {key.id: key for key in found.keys}
        self._signature = signature
        self._since = None

    def _sign(self) -> tuple[int, int, int] | None:
        """Return the identity of the current file."""
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size


def _known(row: Record) -> KnownKey:
    now = time.time()
    left: float | None = row["seconds_left"]
    old_left: float | None = row["old_seconds_left"]
    return KnownKey(
        id=row["id"],
        digest=row["digest"],
        name=row["name"],
        role=row["role"],
        permissions=row["permissions"],
        scopes=row["scopes"],
        requests_per_second=row["requests_per_second"],
        ends_at=None if left is None else now + left,
        old_digest=row["old_digest"],
        old_ends_at=None if old_left is None else now + old_left,
    )
