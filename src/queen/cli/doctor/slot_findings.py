"""Findings of `queen shard doctor`: what the databases record about slots."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from queen.cli.doctor.findings import CRITICAL, OK, WARNING, Finding

if TYPE_CHECKING:
    from queen.store.checks.comparison import SlotRow


REPAIR: Final = "queen shard doctor --repair"


def slots(
    found: Mapping[str, Sequence["SlotRow"]], databases: Sequence[str], moving: Collection[int]
) -> list[Finding]:
    """
    Compare the slots of the databases that responded.

    ``databases``: all of them, the first one first. ``moving``: slots of running operations.
    """
    by_slot: dict[int, dict[str, SlotRow]] = {}
    for name, rows in found.items():
        for row in rows:
            by_slot.setdefault(row.slot, {})[name] = row
    is_complete = len(found) == len(databases)
    problems: list[Finding] = []
    for slot, rows in sorted(by_slot.items()):
        problems += _owner(slot, rows, is_complete=is_complete, is_moving=slot in moving)
        problems += _epoch(slot, rows)
        problems += _map(slot, rows, databases[0], is_moving=slot in moving)
        if slot not in moving:
            problems += _copies(slot, rows)
    if problems:
        return problems
    return [Finding(OK, "slots", f"{len(by_slot)} slots, each with one owner")]


def _owner(
    slot: int, rows: Mapping[str, "SlotRow"], *, is_complete: bool, is_moving: bool
) -> list[Finding]:
    owners = [name for name, row in rows.items() if row.state == "owned"]
    leaving = {name: row for name, row in rows.items() if row.state == "leaving"}
    check = f"slot {slot}"
    if len(owners) > 1:
        epochs = ", ".join(f"{name} at epoch {rows[name].epoch}" for name in owners)
        advice = f"stop all servers. If one was restored: {REPAIR}. The lower epoch is closed"
        return [Finding(CRITICAL, check, f"has several owners: {epochs}", advice)]
    problems: list[Finding] = []
    for name, row in leaving.items():
        if not is_moving:
            text = f"is leaving {name} for {row.moved_to}, but no operation moves it"
            advice = f"queen shard move --slot {slot} --to {row.moved_to}"
            problems.append(Finding(CRITICAL, check, text, advice))
    if not owners and not leaving and is_complete:
        last = max(rows, key=lambda name: rows[name].epoch)
        text = f"has no owner. {last} has the highest epoch, {rows[last].epoch}"
        advice = f"restore its owner from a later backup, or continue without it: {REPAIR}"
        problems.append(Finding(CRITICAL, check, text, advice))
    return problems


def _epoch(slot: int, rows: Mapping[str, "SlotRow"]) -> list[Finding]:
    """Find an owner that does not know that the slot was elsewhere: the slot can't move again."""
    owners = [name for name, row in rows.items() if row.state == "owned"]
    last = max(rows, key=lambda name: rows[name].epoch)
    if len(owners) != 1 or rows[last].epoch <= rows[owners[0]].epoch:
        return []
    (owner,) = owners
    text = f"is in {owner} at epoch {rows[owner].epoch}, but {last} has recorded epoch"
    advice = f"{owner} was restored: {REPAIR}"
    return [Finding(CRITICAL, f"slot {slot}", f"{text} {rows[last].epoch}", advice)]


def _map(slot: int, rows: Mapping[str, "SlotRow"], first: str, *, is_moving: bool) -> list[Finding]:
    """Compare the map of the first database with the owner."""
    owners = [name for name, row in rows.items() if row.state == "owned"]
    if is_moving or first not in rows or len(owners) != 1 or owners == [first]:
        return []
    (owner,) = owners
    if rows[first].state != "gone" or rows[first].moved_to == owner:
        return []
    text = f"is in {owner}, but {first} records {rows[first].moved_to}"
    advice = f"{first} was restored: {REPAIR}"
    return [Finding(WARNING, f"slot {slot}", text, advice)]


def _copies(slot: int, rows: Mapping[str, "SlotRow"]) -> list[Finding]:
    """Report what an operation that failed has left."""
    targets = {row.copied_to for row in rows.values() if row.state == "owned" and row.copied_to}
    targets |= {name for name, row in rows.items() if row.source and row.state == "gone"}
    return [
        Finding(
            WARNING,
            f"slot {slot}",
            f"{name} has an unfinished copy, but no operation moves the slot",
            f"queen shard move --slot {slot} --to {name}",
        )
        for name in sorted(targets)
    ]
