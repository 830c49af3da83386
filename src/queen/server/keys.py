"""API keys: how they look, how they are told from forged ones, what this process remembers."""

import asyncio
import hashlib
import hmac
import re
import secrets
import time
from collections import OrderedDict
from typing import Final, NamedTuple

import msgspec

from queen import errors
from queen.server.access import Caller, permissions_of
from queen.store.database import Record
from queen.store.keys import Keys as StoredKeys
from queen.wire.access import Scope, Token

_ID: Final = re.compile(r"[0-9a-f]{12}", re.ASCII)
_SHAPE: Final = re.compile(r"qk_([0-9a-f]{12})_[0-9a-f]{64}", re.ASCII)
_MOST_KEYS: Final = 10_000
BELIEVED_SECONDS: Final = 0.5
"""How long a key is taken without asking again: a revoked one is refused within a second."""


class NewKey(NamedTuple):
    """A key that was just made: the only moment at which it is known."""

    id: str
    text: str

    @property
    def digest(self) -> bytes:
        return digest_of(self.text)


def new_key(id_: str | None = None) -> NewKey:
    """A key of 256 random bits; with an id, the next key of that name."""
    id_ = id_ or secrets.token_hex(6)
    return NewKey(id_, f"qk_{id_}_{secrets.token_hex(32)}")


def is_id(text: str) -> bool:
    """Whether a key may be called this."""
    return _ID.fullmatch(text) is not None


def id_of(text: str) -> str | None:
    """The name of a key; None for what cannot be one."""
    match = _SHAPE.fullmatch(text)
    return match[1] if match else None


def digest_of(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


class _Entry(NamedTuple):
    """A key as the database had it; ``caller`` is None where it had none."""

    caller: Caller | None
    digest: bytes
    old_digest: bytes | None
    until: float
    read_at: float


_UNKNOWN: Final = secrets.token_bytes(32)
"""Compared with where there is no key, so that the time says nothing."""


class Keys:
    """
    Keys that were seen lately.

    Each is asked for again after half a second of use, many in one statement and one statement at a
    time: whoever tries keys at random costs the database no more than that.
    """

    def __init__(self, stored: StoredKeys, *, grace_seconds: float) -> None:
        self._stored = stored
        self._grace_seconds = grace_seconds
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._wanted: dict[str, asyncio.Future[None]] = {}
        self._task: asyncio.Task[None] | None = None
        self._is_away = False
        """The database did not answer when it was last asked."""

    async def caller(self, text: str) -> Caller:
        """Who holds this key; raises Unauthorized."""
        id_ = id_of(text)
        if id_ is None:
            raise errors.Unauthorized("this is not a key of this server")
        entry = self._entries.get(id_)
        if entry is None or entry.until <= time.monotonic():
            entry = await self._ask(id_, entry)
        digest = digest_of(text)
        is_it = hmac.compare_digest(digest, entry.digest)
        if entry.old_digest is not None:
            is_it |= hmac.compare_digest(digest, entry.old_digest)
        if not is_it or entry.caller is None:
            raise errors.Unauthorized("this key is not known, has expired or was revoked")
        return entry.caller

    async def is_valid(self, key_id: str) -> bool:
        """Whether a key that was let in before would be let in now."""
        entry = self._entries.get(key_id)
        if entry is None or entry.until <= time.monotonic():
            entry = await self._ask(key_id, entry)
        return entry.caller is not None

    def forget(self, key_id: str) -> None:
        """Ask again: the key was changed here."""
        self._entries.pop(key_id, None)

    async def _ask(self, id_: str, old: _Entry | None) -> _Entry:
        waiting = self._wanted.get(id_)
        if waiting is None:
            waiting = self._wanted[id_] = asyncio.get_running_loop().create_future()
            if self._task is None:
                self._task = asyncio.create_task(self._look())
        # A key cannot be revoked while the database is away, and pushes may go to disk.
        spare = old if old and time.monotonic() - old.read_at <= self._grace_seconds else None
        if self._is_away and spare is not None:
            return spare
        try:
            await asyncio.shield(waiting)
        except (errors.ServiceError, errors.OutcomeUnknown):
            if spare is None:
                raise
            return spare
        return self._entries.get(id_) or _absent(time.monotonic())

    async def _look(self) -> None:
        while self._wanted:
            wanted, self._wanted = self._wanted, {}
            # Before the database is asked: its answer is that old.
            asked_at = time.monotonic()
            try:
                found = {row["id"]: row for row in await self._stored.find(list(wanted))}
            except errors.QueenError as error:
                self._is_away = True
                for waiting in wanted.values():
                    waiting.set_exception(error)
                    waiting.exception()  # Whoever waited may have gone.
                continue
            self._is_away = False
            for id_, waiting in wanted.items():
                self._keep(id_, found.get(id_), asked_at)
                waiting.set_result(None)
        self._task = None

    def _keep(self, id_: str, row: Record | None, asked_at: float) -> None:
        self._entries.pop(id_, None)
        self._entries[id_] = _absent(asked_at) if row is None else _entry_of(row, asked_at)
        while len(self._entries) > _MOST_KEYS:
            self._entries.popitem(last=False)


def _absent(asked_at: float) -> _Entry:
    return _Entry(None, _UNKNOWN, None, asked_at + BELIEVED_SECONDS, asked_at)


def _entry_of(row: Record, asked_at: float) -> _Entry:
    lefts = (row["seconds_left"], row["old_seconds_left"] if row["old_digest"] else None)
    believed = min([BELIEVED_SECONDS, *(left for left in lefts if left is not None)])
    until = asked_at + believed
    return _Entry(caller_of(row), row["digest"], row["old_digest"], until, asked_at)


def caller_of(row: Record) -> Caller:
    """A row of keys as somebody who may call."""
    scopes = row["scopes"]
    return Caller(
        name=f"key:{row['name']}",
        kind="key",
        permissions=permissions_of(row["role"], row["permissions"]),
        scopes=None if scopes is None else tuple(msgspec.convert(scopes, list[Scope])),
        requests_per_second=row["requests_per_second"],
        key_id=row["id"],
    )


def token_of(row: Record) -> Token:
    """A row of keys as it is shown."""
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
    )
