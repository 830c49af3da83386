"""Every statement that writes data of a slot holds the slot, so that a move does not miss it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from queen import sql
from queen.store.cluster.tables import LOCAL, SEGMENTS, TABLES

# A move also waits for rows of these.
_HINDERING: Final = ("archives", "operations")
_TABLES: Final = "|".join([*(each.name for each in (SEGMENTS, *TABLES, *LOCAL)), *_HINDERING])
_WRITE: Final = re.compile(
    rf"(?:insert into|update|delete from|merge into|truncate|copy) queen\.(?:{_TABLES})\b"
)
_ENTERED: Final = re.compile(r"queen\.(?:may_)?enter(?:_\w+)?\s*\(")
_FUNCTION: Final = re.compile(r"create or replace function queen\.(\w+)")
_CALL: Final = re.compile(r"queen\.(\w+)\s*\(")
PUBLIC: Final = ("enqueue", "hold", "unhold", "drop_archive")
"""Functions that applications call."""
UNFENCED: Final = {
    # A restore into another server, while no other process works.
    "renumber",
    # Calls on the slot are rejected already, or not accepted yet.
    "close_slot",
    "own_slot",
    "record_move",
    # They delete only what has expired. A move doesn't copy expired rows.
    "forget_removals",
    "forget_results",
    "forget_generation",
    "forget_traces",
    # Limits of spread queues, which are in no slot. A move changes them while it locks the slot.
    *("apply_shares", "send_leases", "receive_leases"),
    # They are metrics only.
    *("count", "keep_sample", "keep_samples", "roll_up", "forget_counters", "forget_rollups"),
    # Spread queues are in no slot. For positions of new groups, queen.fill holds the slots.
    *("apply_definition", "apply_queue"),
    # Each database gets these rows before it needs them. The first one locks the slots itself.
    *("claim_homes", "copy_homes", "join_databases"),
    # They end what prevents a move, or change it while it does.
    *("release_first_batch", "drop_archive", "plan_archive", "archive_batch"),
    *("pulse", "step_operation", "cancel_operation", "end_operation", "adopt_operations"),
    # It only delays the next attempt of a tick.
    "defer_schedule",
    # It undoes all of its changes.
    "warm",
}


def _bodies() -> dict[str, str]:
    """All functions and statements, without comments. Statements have a name with a space."""
    bodies = {f"call {name}": re.sub(r"--.*", "", text) for name, text in sql.CALLS.items()}
    for text in sql.FUNCTIONS.values():
        starts = [*_FUNCTION.finditer(text)]
        ends = [*(each.start() for each in starts[1:]), len(text)][: len(starts)]
        for start, end in zip(starts, ends, strict=True):
            bodies[start[1]] = re.sub(r"--.*", "", text[start.end() : end])
    return bodies


def _open_writes(name: str, bodies: Mapping[str, str], above: Sequence[str] = ()) -> Iterator[str]:
    """Functions from this one down that write without the fence."""
    body = bodies[name]
    if name in above or name.removeprefix("call ") in UNFENCED:
        return
    # It may write before it holds the slot, because its transaction fails if the slot has moved.
    if _ENTERED.search(body):
        return
    if _WRITE.search(body):
        yield name
    for called in _CALL.findall(body):
        if called in bodies:
            yield from _open_writes(called, bodies, (*above, name))


def test_every_write_of_data_of_a_slot_holds_it() -> None:
    bodies = _bodies()
    starts = [*PUBLIC, *(name for name in bodies if name.startswith("call "))]

    found = {name: sorted(set(_open_writes(name, bodies))) for name in starts}

    assert {name: each for name, each in found.items() if each} == {}
    assert {*UNFENCED} <= {name.removeprefix("call ") for name in bodies}
