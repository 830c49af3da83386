"""The steps of each kind of operation."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime
from functools import partial
from typing import Any, Final

import msgspec

from queen import errors
from queen.codec.extras import Extra
from queen.codec.ids import message_id
from queen.engine.engine import Engine
from queen.engine.inspect.browse import MOST_READ, extra_of
from queen.server.operations.runner import Kind, Step, Work
from queen.server.operations.slot_moves import MOVE_SLOTS, Moved, move_slots
from queen.store.dead_letters import LetterFilter

_PARTITIONS: Final = 1_000
_LETTERS: Final = 500
LINK: Final = "queen-redriven-from"
"""The header of a redriven message with the id of the original message."""


def kinds(engine: Engine, databases: Mapping[str, str], moved: Moved) -> Mapping[str, Kind]:
    """
    The kinds of operations, by name.

    ``databases``: connection URLs, the first one first. ``moved``: counts a slot that moved.
    """

    async def purge(arguments: Mapping[str, Any], cursor: int | None) -> Step:
        before = arguments["before"]
        step = await engine.store.queues.purge(
            arguments["queue"],
            partition=arguments["partition"],
            is_completed=arguments["scope"] == "completed",
            before=None if before is None else datetime.fromisoformat(before),
            after=cursor,
            limit=_PARTITIONS,
        )
        return Step(cursor, 0, True) if step is None else Step(step[0], step[1], False)

    async def erase(arguments: Mapping[str, Any], cursor: int | None) -> Step:
        del arguments, cursor
        is_over = await engine.queues.erase_step()
        return Step(None, 0 if is_over else 1, is_over)

    async def redrive(arguments: Mapping[str, Any], cursor: int | None) -> Step:
        rate: float | None = arguments["rate"]
        limit = _LETTERS if rate is None else max(1, min(_LETTERS, int(rate)))
        ids, cursor, is_over = await _next_letters(engine, arguments, cursor, limit)
        may_reveal: bool = arguments.get("may_reveal", True)
        moved = 0
        if ids:
            moved = await redrive_letters(
                engine, ids, arguments["destination"], may_reveal=may_reveal
            )
        return Step(cursor, moved, is_over, moved / rate if rate else 0.0)

    async def purge_dead_letters(arguments: Mapping[str, Any], cursor: int | None) -> Step:
        ids, cursor, is_over = await _next_letters(engine, arguments, cursor, _LETTERS)
        return Step(cursor, await engine.store.dead_letters.purge(ids), is_over)

    works: dict[str, Work] = {
        "purge": purge,
        "delete": erase,
        "redrive": redrive,
        "purge_dead_letters": purge_dead_letters,
    }
    return {
        **{name: partial(nullcontext, work) for name, work in works.items()},
        MOVE_SLOTS: move_slots(databases, moved, is_pooled=engine.settings.db_pgbouncer),
    }


async def count_letters(
    engine: Engine, queue: str, wanted: LetterFilter
) -> tuple[int, int | None, dict[str, Any]]:
    """
    Count the matching dead letters, and return the arguments of an operation on them.

    The total is None if too many were read. The operation ignores later dead letters.
    """
    found = await engine.store.dead_letters.count(queue, wanted, most=MOST_READ)
    count: int = found["messages"]
    arguments = {"queue": queue, "last": found["last_id"] or 0, **msgspec.to_builtins(wanted)}
    return count, count if found["looked_at"] < MOST_READ else None, arguments


async def _next_letters(
    engine: Engine, arguments: Mapping[str, Any], cursor: int | None, limit: int
) -> tuple[list[int], int | None, bool]:
    """Return the next matching dead letters, the next cursor, and whether these are the last."""
    if (ids := arguments.get("ids")) is not None:
        at = cursor or 0
        return ids[at : at + limit], at + limit, at + limit >= len(ids)
    fields = {name: arguments[name] for name in LetterFilter.__struct_fields__}
    rows = await engine.store.dead_letters.matching(
        arguments["queue"],
        msgspec.convert(fields, LetterFilter),
        after=cursor or 0,
        last=arguments["last"],
        limit=limit,
    )
    found = [row["id"] for row in rows if row["is_match"]]
    return found, rows[-1]["id"] if rows else cursor, len(rows) < limit


async def redrive_letters(
    engine: Engine, ids: Sequence[int], destination: Mapping[str, str] | None, *, may_reveal: bool
) -> int:
    """
    Redeliver dead letters, or push them to a destination, and return their number.

    Letters that cannot be decrypted stay where they are. Raises Masked if masked payloads would
    become readable in the destination.
    """
    if destination is None:
        return len(await engine.dead_letters.redrive(ids))
    stored = sorted(await engine.store.dead_letters.with_ids(ids), key=lambda letter: letter["id"])
    opened = await engine.sealer.open_rows(stored)
    letters = [letter for letter in opened if letter["data_error"] is None]
    if not letters:
        return 0
    if not may_reveal and any(letter["is_revealed"] for letter in letters):
        queue = await engine.catalogue.queue(destination["queue"])
        if not queue.is_encrypted:
            raise errors.Masked(
                f"queue {queue.name} is not encrypted. Only callers with the consume permission may"
                " redrive masked messages to it."
            )
    moved = await engine.dead_letters.redrive_to(
        [letter["id"] for letter in letters],
        [letter["payload"] for letter in letters],
        [_linked(letter) for letter in letters],
        destination["queue"],
        destination["partition"],
    )
    return len(moved)


def _linked(letter: Mapping[str, Any]) -> bytes:
    """Encode the headers and trace of a letter for its new message, with a link to the letter."""
    extra = extra_of(letter["extras"])
    link = message_id(letter["partition_id"], letter["offset"])
    return msgspec.json.encode(
        Extra(trace_id=extra.trace_id, headers={**(extra.headers or {}), LINK: link})
    )
