"""Encrypts messages for encrypted queues, and decrypts them when they are read."""

import time
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from queen import errors
from queen.bounded import BoundedDict
from queen.codec.encryption import keys as encryption
from queen.codec.encryption.keys import DataKey, Wrapped, holds_sealed, is_sealed, key_id_of
from queen.codec.encryption.sealing import key_ids_of, open_segment
from queen.codec.segment import Segment
from queen.engine.caches.catalogue import Catalogue
from queen.engine.encryption.rotation import keyring_of
from queen.settings import Settings
from queen.store.connection.database import Record
from queen.store.store import Store

_USES: Final = 2**20
"""Uses that are reserved together. A process that ends loses its rest."""
_MOST_KEYS: Final = 10_000
_NULL: Final = b"null"
_PLAIN: Final[Mapping[str, Any]] = MappingProxyType(
    {"data_error": None, "is_masked": False, "is_revealed": False}
)
"""The fields of a row that are shown besides its message, unless it is encrypted."""


class _Current:
    """The current encryption key of a queue, while its uses and its day last."""

    __slots__ = ("key", "left", "until")

    def __init__(self, key: DataKey, left: int, until: float) -> None:
        self.key = key
        self.left = left
        self.until = until


class Sealer:
    """
    The data keys that this process has decrypted.

    The segment cache holds decrypted segments. The keys are in the same memory, so encrypting the
    cache would not protect it.
    """

    def __init__(self, store: Store, settings: Settings, catalogue: Catalogue) -> None:
        self.keyring = keyring_of(settings)
        self._store = store
        self._catalogue = catalogue
        self._current = BoundedDict[int, _Current](_MOST_KEYS)
        self._keys = BoundedDict[int, DataKey](_MOST_KEYS)

    def forget(self) -> None:
        """The database may have another history, in which these uses were not reserved."""
        self._current.clear()
        self._keys.clear()

    async def keys(
        self, counts: Mapping[str, int]
    ) -> tuple[dict[int, DataKey], dict[str, errors.QueenError]]:
        """
        The keys to encrypt these numbers of messages with, by queue id, for encrypted queues.

        Also returns an error per queue whose key is unavailable, or whose slot has moved.
        """
        queues = [self._catalogue.known(name) for name in counts]
        if None in queues:
            queues = [*(await self._catalogue.queues(counts)).values()]
        keys: dict[int, DataKey] = {}
        problems: dict[str, errors.QueenError] = {}
        for queue in queues:
            if queue is None or not queue.is_encrypted:
                continue
            try:
                keys[queue.id] = await self._key(queue.id, counts[queue.name])
            except (
                errors.EncryptionUnavailable,
                errors.QueueNotFound,
                errors.SlotMoved,
            ) as error:
                problems[queue.name] = error
        return keys, problems

    async def check(self, queue_id: int) -> None:
        """Raise EncryptionUnavailable if messages for this queue cannot be encrypted now."""
        await self._key(queue_id, 0)

    async def _key(self, queue_id: int, count: int) -> DataKey:
        current = self._current.get(queue_id)
        if current is None or current.left < count or time.monotonic() >= current.until:
            current = self._current[queue_id] = await self._take(queue_id, max(count, _USES))
        current.left -= count
        return current.key

    async def _take(self, queue_id: int, uses: int) -> _Current:
        most = encryption.MAX_USES
        master_id = self.keyring.first
        row = await self._store.data_keys.take(queue_id, uses, most)
        if row["wrapped"] is None:
            made = self.keyring.wrap(DataKey.new(row["id"], queue_id))
            row = await self._store.data_keys.take(
                queue_id, uses, most, id_=made.id, master_id=master_id, wrapped=made.wrapped
            )
        stored = Wrapped(row["id"], queue_id, row["master_id"], row["wrapped"])
        if (key := self._keys.get(stored.id)) is None:
            key = self._keys[stored.id] = self.keyring.unwrap(stored)
        return _Current(key, uses, time.monotonic() + row["seconds"])

    async def _load(self, ids: Iterable[int]) -> dict[int, DataKey]:
        """The keys of these ids, each loaded once."""
        found = {each: key for each in ids if (key := self._keys.get(each)) is not None}
        if missing := [each for each in ids if each not in found]:
            for row in await self._store.data_keys.with_ids(missing):
                stored = Wrapped(row["id"], row["queue_id"], row["master_id"], row["wrapped"])
                found[stored.id] = self._keys[stored.id] = self.keyring.unwrap(stored)
            if lost := [each for each in missing if each not in found]:
                raise errors.EncryptionUnavailable(f"data key {lost[0]} does not exist")
        return found

    async def open_segment(
        self, partition_id: int, segment: Segment, *, queue_id: int | None = None
    ) -> Segment:
        """Decrypt a segment. Raises EncryptionUnavailable."""
        if not holds_sealed(segment.body):
            return segment
        keys = await self._load(key_ids_of(segment))
        if not keys:
            return segment
        if queue_id is not None and any(key.queue_id != queue_id for key in keys.values()):
            raise errors.EncryptionUnavailable("a payload was encrypted for another queue")
        return open_segment(keys, partition_id, segment)

    async def open_one(
        self, partition_id: int, payload: bytes, extra: bytes | None
    ) -> tuple[bytes, bytes | None]:
        """Decrypt one message outside of a segment."""
        if not is_sealed(payload):
            return payload, extra
        id_ = key_id_of(payload)
        keys = await self._load({id_})
        opened, sealed_extra = keys[id_].open(partition_id, payload)
        return opened, sealed_extra or extra

    async def open_rows(self, rows: Sequence[Record]) -> list[dict[str, Any]]:
        """
        Decrypt rows with one message each: dead letters and scheduled messages.

        A row that cannot be decrypted does not hide the others: instead of its payload it has the
        error code in ``data_error``. ``is_revealed``: it was encrypted, and is decrypted now.
        """
        opened = [dict(row) | _PLAIN for row in rows]
        lost: set[int] = set()
        for row in opened:
            stored = row["payload"]
            try:
                if is_sealed(stored) and key_id_of(stored) in lost:
                    raise errors.EncryptionUnavailable("its data key is missing")
                row["payload"], row["extras"] = await self.open_one(
                    row["partition_id"], stored, row["extras"]
                )
                row["is_revealed"] = is_sealed(stored)
            except errors.EncryptionUnavailable as error:
                row["payload"], row["data_error"] = _NULL, error.code
                if key_id_of(stored) not in self._keys:
                    lost.add(key_id_of(stored))  # Loaded once for all its messages.
        return opened


async def reveal_rows(sealer: Sealer | None, rows: Sequence[Record]) -> list[dict[str, Any]]:
    """Decrypt rows. Without ``sealer``, mask encrypted rows: no payload, no headers."""
    if sealer is not None:
        return await sealer.open_rows(rows)
    masked = [dict(row) | _PLAIN for row in rows]
    for row in masked:
        if is_sealed(row["payload"]):
            row["payload"], row["is_masked"] = _NULL, True
    return masked
