"""Show a plan, and the outcome of its changes."""

import difflib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

from queen.cli.apply.fields import MASKED, FieldChange
from queen.cli.apply.plan import NOUNS, Action, Change, Kind, Plan
from queen.cli.support.output import safe

_SIGNS: Final[dict[Action, str]] = {"create": "+", "change": "~", "delete": "-"}
_SHORT: Final = 60
"""Characters of a value that is shown on one line."""


def plan_lines(plan: Plan) -> Iterator[str]:
    """Yield the plan as text: one line per object, then one per field."""
    for change in plan.changes:
        yield title(change)
        for field in change.fields:
            yield from _field_lines(change, field)


def plan_rows(plan: Plan) -> list[dict[str, Any]]:
    """Return the plan for programs."""
    return [
        {
            "action": change.action,
            "kind": change.kind,
            "name": change.name,
            "id": change.id,
            "fields": [
                {"field": each.field, "old": each.old, "new": each.new} for each in change.fields
            ],
        }
        for change in plan.changes
    ]


def title(change: Change) -> str:
    """Return one line that names an object, for example `+ queue orders`."""
    id_ = f" ({change.id})" if change.id else ""
    return f"{_SIGNS[change.action]} {NOUNS[change.kind]} {safe(change.name)}{id_}"


def summary(plan: Plan) -> str:
    """Return how many objects are created, changed, deleted and unchanged."""
    counts = Counter(change.action for change in plan.changes)
    return (
        f"{counts['create']} to create, {counts['change']} to change, {counts['delete']} to delete,"
        f" {plan.unchanged} unchanged"
    )


def counted(changes: Iterable[Change]) -> str:
    """Return how many objects of each kind these are: `2 queues and 1 API key`."""
    counts = Counter[Kind](change.kind for change in changes)
    parts = [amount(count, NOUNS[kind]) for kind, count in counts.items()]
    return " and ".join(", ".join(parts).rsplit(", ", 1))


def amount(count: int, noun: str) -> str:
    """Return a count with its noun: `1 change`, `2 changes`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _field_lines(change: Change, field: FieldChange) -> Iterator[str]:
    old, new = _shown(field.old), _shown(field.new)
    if change.action == "create":
        yield f"    {field.field}: {new}"
    elif field.old == field.new == MASKED:
        yield f"    {field.field}: changed {MASKED}"
    elif max(len(old), len(new)) <= _SHORT or not new.startswith(("{", "[")):
        yield f"    {field.field}: {old} -> {new}"
    else:
        yield f"    {field.field}:"
        for line in _json_diff(field.old, field.new):
            yield f"      {line}"


def _shown(value: Any) -> str:  # noqa: ANN401 - of JSON
    if value is None:
        return "(not set)"
    if isinstance(value, str):
        return safe(value) if value else '""'
    return safe(json.dumps(value, ensure_ascii=False))


def _json_diff(old: Any, new: Any) -> Iterator[str]:  # noqa: ANN401 - of JSON
    """Yield the changed lines of two JSON documents, with some lines around them."""
    before, after = (
        json.dumps(each, indent=2, sort_keys=True, ensure_ascii=False).splitlines()
        for each in (old, new)
    )
    for line in list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]:
        if not line.startswith("@@"):
            yield safe(line)
