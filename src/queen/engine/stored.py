"""One message as it is stored: in its segment, as the copy of a dead letter, or not due yet."""

from datetime import datetime
from typing import NamedTuple

from queen.codec.extras import Extra
from queen.engine.browse import ReadAhead, extra_of, found_at
from queen.engine.seals import Seals
from queen.store.results import Place
from queen.store.store import Store


class Stored(NamedTuple):
    """What a message is; ``payload`` is None once it was erased, or while it cannot be opened."""

    partition: str
    level: int
    payload: bytes | None
    extra: Extra
    created_at: datetime | None
    due_at: datetime | None = None


async def read(store: Store, seals: Seals, place: Place) -> Stored | None:
    """The message at a place; None when it is there no more."""
    partition = await store.browse.partition(place.partition_id)
    if partition is None:
        return None
    name, level = partition["name"], partition["level"]
    if place.offset is None:
        row = await store.browse.scheduled_one(place.scheduled_id or 0)
        if row is None:
            return None
        (opened,) = await seals.open_rows([row])
        payload = None if opened["data_error"] else opened["payload"]
        return Stored(name, level, payload, extra_of(opened["extras"]), None, row["due_at"])
    head = await store.browse.segment_at(place.partition_id, place.offset)
    if head is not None:
        segment = await ReadAhead(store, seals).of(head, ())
        found = segment and found_at(head, place.offset, segment, "completed")
        if found:
            payload = None if found.is_redacted else found.payload
            return Stored(name, level, payload, found.extra, found.created_at)
    letters = await store.browse.dead_offsets(
        [place.partition_id], [place.offset], [place.offset + 1]
    )
    copies = await store.dead_letters.with_ids([each["id"] for each in letters[:1]])
    for letter in await seals.open_rows(copies):
        payload = None if letter["data_error"] else letter["payload"]
        return Stored(name, level, payload, extra_of(letter["extras"]), letter["created_at"])
    return None
