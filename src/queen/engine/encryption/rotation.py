"""The master keys of this environment, and their rotation."""

from typing import Final, NamedTuple

from queen.codec.encryption.keyring import keyring_from
from queen.codec.encryption.keys import Keyring, Wrapped
from queen.settings import Settings
from queen.store.store import Store

_REWRAPPED: Final = 500
"""Data keys that one transaction wraps anew."""


class MasterKey(NamedTuple):
    """A master key that is here, or that some data key needs."""

    id: str
    is_here: bool
    is_first: bool
    data_keys: int
    queues: int


async def status(store: Store, keyring: Keyring) -> list[MasterKey]:
    """The master keys, the one that wraps first."""
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
    Wrap some data keys by the first master key that another one wraps.

    Answers where to go on, None at the end, and how many were wrapped anew. Whoever has one of them
    unwrapped need not know; whoever reads one needs the first master key from now on.
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
    """The master keys that are set. Raises BadSettings for one that is malformed."""
    return keyring_from(
        file=settings.encryption_keys_file,
        keys=settings.encryption_keys,
        key=settings.encryption_key,
    )
