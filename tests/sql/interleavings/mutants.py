"""Changes of the SQL that a check has to find."""

import re
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import pytest

from queen import sql
from tests.sql.interleavings.lab import Lab
from tests.sql.interleavings.scene import Violation

Check = Callable[[Lab], Awaitable[None]]


class Change(NamedTuple):
    """A file of functions, a pattern in it, and its replacement."""

    file: str
    pattern: str
    replacement: str


async def mutate(lab: Lab, *changes: Change) -> None:
    """Replace functions in this database. The pattern of each change must match."""
    texts: dict[str, str] = {}
    for change in changes:
        text = texts.get(change.file, sql.FUNCTIONS[change.file])
        mutated, count = re.subn(change.pattern, change.replacement, text, flags=re.DOTALL)
        assert count, f"{change.file}.sql has no {change.pattern!r}"
        assert mutated != text
        texts[change.file] = mutated
    await lab.base.execute("set check_function_bodies = off")
    for text in texts.values():
        await lab.base.execute(text)


async def prove(lab: Lab, check: Check, changes: tuple[Change, ...], match: str) -> None:
    """Check that the real SQL passes and that the mutant fails."""
    await check(lab)
    await mutate(lab, *changes)
    with pytest.raises(Violation, match=match):
        await check(lab)
