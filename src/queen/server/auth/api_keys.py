"""API keys: their format, their verification, and a cache."""

import asyncio
import contextlib
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from queen import errors
from queen.bounded import BoundedDict
from queen.redacted import redacted
from queen.server import logs
from queen.server.auth.known_keys import KnownKeys
from queen.server.auth.permissions import Caller, permissions_of
from queen.store.connection.database import Record
from queen.store.keys import Keys as StoredKeys
from queen.telemetry import Event
from queen.wire.access import Scope, Token

_ID: Final = re.compile(r"[0-9a-f]{12}", re.ASCII)
_SHAPE: Final = re.compile(r"qk_([0-9a-f]{12})_[0-9a-f]{64}", re.ASCII)
_MOST_KEYS: Final = 10_000
BELIEVED_SECONDS: Final = 0.5
"""How long a key is cached. A revoked key is rejected within a second."""


KeyRow = Mapping[str, Any]
"""A key as ``find_keys`` returns it."""


class NewKey(NamedTuple):
    """A new key. Its secret is available only here."""

    id: str
    text: str

    def __repr__(self) -> str:
        return redacted(self, ("text",))

    @property
    def digest(self) -> bytes:
        return digest_of(self.text)


def new_key(id_: str | None = None) -> NewKey:
    """Create a key of 256 random bits; with an id, the next secret of that key."""
    id_ = id_ or secrets.token_hex(6)
    return NewKey(id_, f"qk_{id_}_{secrets.token_hex(32)}")


def is_id(text: str) -> bool:
    """Whether this can be the id of a key."""
    return _ID.fullmatch(text) is not None


def id_of(text: str) -> str | None:
    """Return the id of a key; None for other texts."""
    match = _SHAPE.fullmatch(text)
    return match[1] if match else None


def digest_of(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


class _Entry(NamedTuple):
    """The accepted secrets of one key, the current one first. Empty: rejected."""

    secrets: tuple["_Secret", ...]
    until: float
    read_at: float

    def caller(self, digest: bytes) -> Caller | None:
        """Return the caller of this secret, unless it has expired."""
        found: Caller | None = None
        for secret in self.secrets or _NO_SECRETS:
            is_it = hmac.compare_digest(digest, secret.digest)
            if is_it and (secret.ends_at is None or secret.ends_at > time.time()):
                found = secret.caller
        return found

    def current(self, caller: Caller) -> Caller | None:
        """
        Return the caller as its key is now.

        None if its secret is not accepted any more, or has fewer permissions.
        """
        current = None if caller.digest is None else self.caller(caller.digest)
        return current if current is not None and current.includes(caller) else None


class _Secret(NamedTuple):
    digest: bytes
    caller: Caller | None
    ends_at: float | None
    """Seconds since 1970 by this machine's clock; None: never."""


_NO_SECRETS: Final = (_Secret(secrets.token_bytes(32), None, None),)
"""Digest to compare with if the key does not exist, for a constant response time."""


class Keys:
    """
    A cache of recently used keys.

    A key is read again after half a second. One statement at a time reads many keys, so random keys
    cost the database no more than that.
    """

    def __init__(
        self, stored: StoredKeys, *, grace_seconds: float, known: KnownKeys | None = None
    ) -> None:
        """``known``: the keys that are accepted while the database is unavailable."""
        self._stored = stored
        self._known = known
        self._grace_seconds = grace_seconds
        self._entries = BoundedDict[str, _Entry](_MOST_KEYS)
        self._wanted: dict[str, asyncio.Future[_Entry]] = {}
        self._task: asyncio.Task[None] | None = None
        self._unreadable: set[str] = set()
        """Ids of keys that this release cannot read, each logged once."""

    async def caller(self, text: str) -> Caller:
        """Return the caller of this key; raises Unauthorized."""
        id_ = id_of(text)
        if id_ is None:
            raise errors.Unauthorized("this is not an API key")
        caller = (await self._entry(id_)).caller(digest_of(text))
        if caller is None:
            raise errors.Unauthorized("this API key does not exist, has expired or was revoked")
        return caller

    async def current(self, caller: Caller) -> Caller | None:
        """Return the caller as its key is now; None if it is not accepted, or permits less."""
        if caller.key_id is None or caller.digest is None:
            return None
        return (await self._entry(caller.key_id)).current(caller)

    async def revoked(self, callers: Collection[Caller]) -> list[Caller]:
        """
        Find the callers whose keys were revoked, restricted or have expired, with one statement.

        While the database is unavailable, secrets end by this machine's clock only.
        """
        asked = [(each, each.key_id) for each in callers]
        reads = {id_: self._read(id_) for _, id_ in asked if id_}
        if reads:
            await asyncio.wait(reads.values())
        found: list[Caller] = []
        for caller, id_ in asked:
            if id_ is None:
                continue
            is_read = reads[id_].exception() is None
            entry = reads[id_].result() if is_read else self._entries.get(id_)
            if entry is not None and entry.current(caller) is None:
                found.append(caller)
        return found

    async def refresh(self, key_id: str) -> None:
        """Read a key again, after this process changed it."""
        self._entries.pop(key_id, None)
        if self._known is not None:
            await self._known.refresh()

    async def _entry(self, id_: str) -> _Entry:
        entry = self._entries.get(id_)
        if entry is not None and entry.until > time.monotonic():
            return entry
        reading = self._read(id_)
        # Checked every time: once the database is back, its state of the key takes precedence.
        if self._stored.is_away and (spare := await self._spare(id_, entry)) is not None:
            return spare
        try:
            return await asyncio.shield(reading)
        except (errors.ServiceError, errors.OutcomeUnknown):
            spare = await self._spare(id_, entry)
            if spare is None:
                raise
            return spare

    async def _spare(self, id_: str, entry: _Entry | None) -> _Entry | None:
        """Return the cached key for an outage. Keys cannot be revoked then."""
        now = time.monotonic()
        if self._known is not None:
            with contextlib.suppress(OSError):
                row = await self._known.row(id_)
                if row is None:
                    raise errors.DatabaseUnavailable(
                        "The database is unavailable, and the server did not know this API key"
                        " when it last reached the database. Retry later."
                    )
                return self._keep(id_, row, now)
        return entry if entry and now - entry.read_at <= self._grace_seconds else None

    def _read(self, id_: str) -> asyncio.Future[_Entry]:
        """Read a key from the database, together with other requested ones."""
        reading = self._wanted.get(id_)
        if reading is None:
            reading = self._wanted[id_] = asyncio.get_running_loop().create_future()
            if self._task is None:
                self._task = asyncio.create_task(self._read_wanted())
        return reading

    async def _read_wanted(self) -> None:
        try:
            while self._wanted:
                wanted, self._wanted = self._wanted, {}
                # Before the statement starts, because its result is as old as that.
                asked_at = time.monotonic()
                try:
                    found = {row["id"]: dict(row) for row in await self._stored.find([*wanted])}
                except Exception as error:
                    for reading in wanted.values():
                        reading.set_exception(error)
                        reading.exception()  # Its callers may have disconnected.
                    continue
                for id_, reading in wanted.items():
                    reading.set_result(self._keep(id_, found.get(id_), asked_at))
        finally:
            self._task = None

    def _keep(self, id_: str, row: KeyRow | None, asked_at: float) -> _Entry:
        entry = _absent(asked_at)
        if row is not None:
            try:
                entry = _entry_of(row, asked_at)
            except (ValueError, msgspec.ValidationError) as error:
                self._log_unreadable(id_, error)
        self._entries[id_] = entry
        return entry

    def _log_unreadable(self, id_: str, error: Exception) -> None:
        """Log once that a newer release wrote this key, which this release rejects."""
        if id_ not in self._unreadable and len(self._unreadable) < _MOST_KEYS:
            self._unreadable.add(id_)
            logs.get().error(Event.KEY_UNREADABLE, key=id_, reason=str(error))


def _absent(asked_at: float) -> _Entry:
    return _Entry((), asked_at + BELIEVED_SECONDS, asked_at)


def _entry_of(row: KeyRow, asked_at: float) -> _Entry:
    caller = caller_of(row)
    left, old_left = row["seconds_left"], row["old_seconds_left"] if row["old_digest"] else None
    found = [_Secret(row["digest"], caller, _ends_at(left))]
    if row["old_digest"] is not None:
        old = msgspec.structs.replace(caller, digest=row["old_digest"])
        found.append(_Secret(row["old_digest"], old, _ends_at(left, old_left)))
    lefts = [each for each in (left, old_left) if each is not None]
    until = asked_at + min([BELIEVED_SECONDS, *lefts])
    return _Entry(tuple(found), until, asked_at)


def _ends_at(*lefts: float | None) -> float | None:
    """Return when the first of these times has passed, by this machine's clock."""
    known = [left for left in lefts if left is not None]
    return time.time() + min(known) if known else None


def caller_of(row: KeyRow) -> Caller:
    """Convert a row of keys to a caller."""
    scopes = row["scopes"]
    return Caller(
        name=f"key:{row['name']}",
        kind="key",
        permissions=permissions_of(row["role"], row["permissions"]),
        scopes=None if scopes is None else tuple(msgspec.convert(scopes, list[Scope])),
        requests_per_second=row["requests_per_second"],
        key_id=row["id"],
        digest=row["digest"],
    )


def token_of(row: Record) -> Token:
    """Convert a row of keys to its public form."""
    scopes = row["scopes"]
    return Token(
        id=row["id"],
        name=row["name"],
        role=row["role"],
        permissions=sorted(permissions_of(row["role"], row["permissions"])),
        scopes=None if scopes is None else msgspec.convert(scopes, list[Scope]),
        expires_at=row["expires_at"],
        requests_per_second=row["requests_per_second"],
        created_at=row["created_at"],
        created_by=row["created_by"],
        revoked_at=row["revoked_at"],
        managed_by=row["managed_by"],
    )
