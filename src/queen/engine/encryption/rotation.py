"""The configured master keys, and their rotation."""

from typing import Final, NamedTuple

from queen.codec.encryption.keyring import keyring_from
from queen.codec.encryption.keys import Keyring, Wrapped
from queen.settings import Settings
from queen.store.store import Store

_REWRAPPED: Final = 500
"""Data keys that one transaction encrypts again."""


class MasterKey(NamedTuple):
    """A master key that is configured, or that some data key needs."""

    id: str
    is_here: bool
    is_first: bool
    data_keys: int
    queues: int


async def status(store: Store, keyring: Keyring) -> list[MasterKey]:
    """The master keys. The first one encrypts."""
    needed = {row["master_id"]: row for row in await store.data_keys.by_master()}
    found: list[MasterKey] = []
    for id_ in dict.fromkeys([*keyring, *needed]):
        row = needed.get(id_)
        found.append(
            MasterKey(
                id=id_,
                is_here=id_ in keyring,
                is_first=bool(keyring) and id_ == keyring.first,
                data_keys=row["data_keys"] if row else 0,
                queues=row["queues"] if row else 0,
            )
        )
    return found


async def rewrap(store: Store, keyring: Keyring, after: int) -> tuple[int | None, int]:
    """
    Encrypt some data keys again that the first master key did not encrypt.

    Returns the cursor for the next call, or None at the end, and the number of changed keys. A
    process that has decrypted them is not affected. A process that loads them later needs the first
    master key.
    """
    rows = await store.data_keys.of_others(keyring.first, after=after, limit=_REWRAPPED)
    if not rows:
        return None, 0
    made: list[Wrapped] = []
    for row in rows:
        stored = Wrapped(row["id"], row["queue_id"], row["master_id"], row["wrapped"])
        made.append(keyring.wrap(keyring.unwrap(stored)))
    count = await store.data_keys.rewrap(
        [each.id for each in made],
        [row["master_id"] for row in rows],
        [each.master_id for each in made],
        [each.wrapped for each in made],
    )
    return made[-1].id, count


def keyring_of(settings: Settings) -> Keyring:
    """The configured master keys. Raises BadSettings if one is malformed."""
    return keyring_from(
        file=settings.encryption_keys_file,
        keys=settings.encryption_keys,
        key=settings.encryption_key,
    )
