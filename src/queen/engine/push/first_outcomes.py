"""The first outcome of a producer's request, encoded as bytes, for the response to a repeat."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from queen.codec.ids import message_id, reference
from queen.engine.push.batches import PartitionBatch, PendingPush, PushResult
from queen.engine.push.producers import Producer
from queen.store.connection.database import Record
from queen.wire.messages import Pushed, PushItem

_QUEUED: Final = 0
"""Stored at an offset that counts from a base."""
_ECHO: Final = 1
"""A duplicate of a message that the same transaction stored at an offset from a base."""
_DUPLICATE: Final = 2
"""A duplicate of a message at that offset from the start of its partition."""
_HELD: Final = 3
"""Stored for later delivery, so it has no offset yet."""
_FORWARDED: Final = 4
"""Sent to another database, so it has no partition yet. The base means nothing."""

Entries = Mapping[int, tuple[int, int]]
"""By the id() of a part: the first entry of its partition, and the part's position in it."""


class _Run(NamedTuple):
    """Consecutive items of a request with consecutive offsets."""

    length: int
    base: int
    kind: int
    value: int | None
    """The value of the first item. Its meaning depends on the kind."""


class _Outcome(msgspec.Struct, frozen=True, array_like=True):
    partition_ids: list[int]
    """One per base."""
    runs: list[_Run]
    are_minted: bool
    """Whether items without a transactionId got one, because they were buffered."""


_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(_Outcome).decode


def encode_outcome(unit: PendingPush, entries: Entries) -> tuple[bytes, list[int]]:
    """The outcomes of all items in a unit, and the entries whose offsets are its bases."""
    bases: dict[tuple[int, int], int] = {}
    found: list[tuple[int, _Run]] = []
    for part in unit.parts:
        entry, start = entries.get(id(part), (-1, 0))
        base = bases.setdefault((part.partition_id or 0, entry), len(bases))
        if isinstance(part.items, range) and part.marked is None:
            found.append((part.items.start, _Run(len(part.items), base, _QUEUED, start)))
            continue
        for place, item in enumerate(part.items):
            found.append((item, _Run(1, base, *_outcome_at(part, place, start, entries))))
        for at, held in enumerate(part.marked.scheduled if part.marked else ()):
            found.append((held.item, _Run(1, base, *_outcome_at(part, -1 - at, start, entries))))
    found.extend((item, _Run(1, 0, _FORWARDED, None)) for item in unit.forwarded)
    if len(found) > 1:
        found.sort()
    outcome = _Outcome(
        [partition_id for partition_id, _ in bases],
        _merged(run for _, run in found),
        unit.are_minted,
    )
    return _ENCODE(outcome), [entry + 1 for _, entry in bases]


def _outcome_at(
    part: PartitionBatch, place: int, start: int, entries: Entries
) -> tuple[int, int | None]:
    """Kind and value of a message in a part that begins at ``start`` of its partition."""
    marked = part.marked
    if marked is None:
        return _QUEUED, start + place
    if place in marked.echoes:
        first, at = marked.echoes[place]
        kind, value = _outcome_at(first, at, entries.get(id(first), (-1, 0))[1], entries)
        return {_QUEUED: _ECHO, _HELD: _DUPLICATE}.get(kind, kind), value
    if place in marked.duplicates:
        return _DUPLICATE, marked.duplicates[place]
    if place < 0:
        return _HELD, None
    return _QUEUED, start + place - bisect_left(marked.unstored(), place)


def _merged(runs: Iterable[_Run]) -> list[_Run]:
    """Join runs that continue the previous one."""
    merged: list[_Run] = []
    for run in runs:
        last = merged[-1] if merged else None
        if last is not None and last[1:] == (run.base, run.kind, _value_before(run, last.length)):
            merged[-1] = last._replace(length=last.length + run.length)
        else:
            merged.append(run)
    return merged


def _value_before(run: _Run, count: int) -> int | None:
    return None if run.value is None else run.value - count


class FirstOutcome(PushResult):
    """The results of a request's first attempt, for a repeat."""

    __slots__ = ("_messages",)

    def __init__(self, row: Record, producer: Producer, items: Sequence[PushItem]) -> None:
        stale: Sequence[int] = row["stale"] or ()
        super().__init__(len(items), (), {}, is_replayed=True, stale_advances=frozenset(stale))
        self._messages = _messages(row, producer, items)

    def _answer(self, index: int) -> Pushed:
        return self._messages[index]


def _messages(row: Record, producer: Producer, items: Sequence[PushItem]) -> list[Pushed]:
    if row["outcome"] is None:
        # Stored by an earlier release or in parts, so the positions are unknown.
        return [Pushed(status="queued")] * len(items)
    outcome = _DECODE(row["outcome"])
    found: list[Pushed] = []
    for run in outcome.runs:
        offset = run.value
        if offset is not None and run.kind in (_QUEUED, _ECHO):
            offset += row["bases"][run.base]
        for step in range(run.length):
            at = len(found)
            name = items[at].transaction_id
            if run.kind == _FORWARDED:
                found.append(Pushed(status="queued", transaction_id=name))
                continue
            if name is None and (outcome.are_minted or run.kind == _HELD):
                name = producer.mint(at)
            partition_id = outcome.partition_ids[run.base]
            id_ = None if offset is None else message_id(partition_id, offset + step)
            found.append(
                Pushed(
                    status="queued" if run.kind in (_QUEUED, _HELD) else "duplicate",
                    id=id_,
                    transaction_id=name or id_,
                    partition_id=reference(partition_id),
                    offset=None if offset is None else offset + step,
                )
            )
    return found
