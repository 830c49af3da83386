"""One stored message: in its segment, as the copy of a dead letter, or scheduled."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from queen.codec.extras import Extra
from queen.engine.encryption.sealer import Sealer, reveal_rows
from queen.engine.inspect.browse import Found, ReadAhead, extra_of, found_at
from queen.store.results import Place
from queen.store.store import Store


class Stored(NamedTuple):
    """
    A stored message.

    ``payload`` is None if it was erased, cannot be decrypted, or is masked.
    """

    partition: str
    level: int
    payload: bytes | None
    extra: Extra
    created_at: datetime | None
    due_at: datetime | None = None
    is_masked: bool = False
    is_revealed: bool = False


async def read(store: Store, sealer: Sealer | None, place: Place) -> Stored | None:
    """The message at a position, masked without ``sealer``. None if it does not exist any more."""
    partition = await store.browse.partition(place.partition_id)
    if partition is None:
        return None
    name, level = partition["name"], partition["level"]
    if place.offset is None:
        row = await store.browse.scheduled_one(place.scheduled_id or 0)
        if row is None:
            return None
        (opened,) = await reveal_rows(sealer, [row])
        return of_row(name, level, opened, due_at=row["due_at"])
    head = await store.browse.segment_at(place.partition_id, place.offset)
    if head is not None:
        body = await ReadAhead(store, sealer).of(head, ())
        found = body and found_at(head, place.offset, body, "completed")
        if found:
            return of_found(name, level, found)
    letters = await store.browse.dead_offsets(
        [place.partition_id], [place.offset], [place.offset + 1]
    )
    copies = await store.dead_letters.with_ids([each["id"] for each in letters[:1]])
    for letter in await reveal_rows(sealer, copies):
        return of_row(name, level, letter, created_at=letter["created_at"])
    return None


def of_found(partition: str, level: int, found: Found) -> Stored:
    """Convert a message that was found in its segment."""
    is_open = not (found.is_redacted or found.is_masked)
    return Stored(
        partition,
        level,
        found.payload if is_open else None,
        found.extra,
        found.created_at,
        is_masked=found.is_masked,
        is_revealed=found.is_revealed,
    )


def of_row(
    partition: str,
    level: int,
    row: Mapping[str, Any],
    *,
    created_at: datetime | None = None,
    due_at: datetime | None = None,
) -> Stored:
    """Convert a message with its own row, as `reveal_rows` returns it."""
    is_open = not (row["data_error"] or row["is_masked"])
    return Stored(
        partition,
        level,
        row["payload"] if is_open else None,
        extra_of(row["extras"]),
        created_at,
        due_at,
        is_masked=row["is_masked"],
        is_revealed=row["is_revealed"],
    )
