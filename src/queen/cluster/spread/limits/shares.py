"""Moves shares of limits between databases, so that each has what it needs."""

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from queen import errors
from queen.cluster.spread.limits.division import Use, divide, turn_at
from queen.engine.engine import Engine
from queen.engine.runtime.periodic import PeriodicTask
from queen.store.cluster.shares import Share
from queen.store.connection.database import Record

T = TypeVar("T")

_DUTY: Final = "shares"
_HELD_SECONDS: Final = 4.0
"""Each round of the same process extends it."""
_PATIENCE_SECONDS: Final = 3.0
"""A database that responds later counts as unavailable in this round."""
_NO_LIMITS_SECONDS: Final = 30.0
"""Without limits of spread queues, until one is configured."""
_IDLE_SECONDS: Final = 1.0
_BUSY_SECONDS: Final = 0.5
_SOON_SECONDS: Final = 0.1
"""While a database waits for leases or claims of another one. Then longer each time."""
_OTHERS_SECONDS: Final = 1.5
"""How often the other processes check whether the first one has ended."""
_PASSES: Final = 3
"""One pass lowers shares, and the next one gives the free part to another database."""
_FAILURES: Final = (errors.ServiceError, errors.OutcomeUnknown, TimeoutError)
_KINDS: Final = ("rate", "concurrency")

_Report = dict[str, Any]
_Reports = dict[str, dict[int, _Report]]
"""By database and group."""


class Shares(PeriodicTask):
    """
    Divides the limits of spread queues among the databases, by demand.

    The first database decides. It lowers a share first, and raises another one only by the part
    that a database has reported as free. So the parts in use never exceed the limit, and the next
    round continues, whichever process ends at any time. A database that does not respond keeps its
    share. One process at a time does this, to save statements.
    """

    def __init__(self, engines: Mapping[str, Engine]) -> None:
        """``engines``: by the names of their databases, the first database first."""
        super().__init__(pause_seconds=random.uniform(0.0, 0.5))
        self._engines = dict(engines)
        self._first_name, self._first = next(iter(self._engines.items()))
        self._seconds = _IDLE_SECONDS
        self._first.signals.on_queues_changed.subscribe(lambda _: self.wake())

    async def run(self) -> float:
        """Do a round, unless another process does."""
        first = await self._first.store.shares.reports()
        if not first:
            return _NO_LIMITS_SECONDS * random.uniform(0.8, 1.2)
        taken = await self._first.store.database.fetch(
            "take_duties", self._first.counters.process, [_DUTY], _HELD_SECONDS
        )
        if not taken:
            return _OTHERS_SECONDS * random.uniform(0.8, 1.2)
        self._seconds = await self._round(_by_group(first))
        return self._seconds

    async def _round(self, first: dict[int, _Report]) -> float:
        """Divide all limits again. Returns the seconds until the next round."""
        others = [name for name in self._engines if name != self._first_name]
        found = await _gather({name: self._read(name, None) for name in others})
        reports: _Reports = {self._first_name: first, **found}
        absent = await self._first.store.shares.absent([*reports])
        waiting: Iterable[int] = first
        is_changed = False
        for _ in range(_PASSES):
            decided = {
                group_id: await self._first.store.shares.decide(group_id, wishes)
                for group_id in waiting
                if (wishes := _wishes(reports, group_id, absent.get(group_id)))
            }
            waiting = decided
            if not any(decided.values()):
                break
            is_changed = True
            await self._send([*decided.values()], reports)
        if is_changed:
            return _SOON_SECONDS
        if waiting:
            return min(1.5 * self._seconds, _BUSY_SECONDS)
        is_busy = any(
            row["is_ready"] or any(row[f"{kind}_used"] for kind in _KINDS)
            for rows in reports.values()
            for row in rows.values()
        )
        return _BUSY_SECONDS if is_busy else _IDLE_SECONDS

    async def _send(self, decided: Sequence[Mapping[str, Share]], reports: _Reports) -> None:
        """Let databases obey new shares. Adds what they report then."""
        new = {
            name: [shares[name] for shares in decided if name in shares]
            for name in {name for shares in decided for name in shares}
        }
        found = await _gather({name: self._apply(name, shares) for name, shares in new.items()})
        for name, rows in found.items():
            raised = [each for each, row in rows.items() if _is_raised(reports[name][each], row)]
            self._engines[name].signals.groups_ready(raised)
            reports[name] |= rows

    async def _apply(self, name: str, shares: Sequence[Share]) -> dict[int, _Report]:
        await self._engines[name].store.shares.apply(shares)
        return await self._read(name, [share.group_id for share in shares])

    async def _read(self, name: str, group_ids: Sequence[int] | None) -> dict[int, _Report]:
        return _by_group(await self._engines[name].store.shares.reports(group_ids))


def _wishes(reports: _Reports, group_id: int, absent: Record | None) -> list[_Report]:
    """
    The reports of a group, with the share that each database should have.

    Empty if each of them has it. ``reports``: the first database first.
    """
    rows = {name: {**found[group_id]} for name, found in reports.items() if group_id in found}
    first = next(iter(rows.values()))
    # Before the first decision, the first database has no share, but all.
    is_over = first["revision"] > 0
    for kind in _KINDS:
        if first[f"{kind}_limit"] is None:
            continue
        limit = max(0, first[f"{kind}_limit"] - (absent[kind] if absent else 0))
        limited = [row for row in rows.values() if row[f"{kind}_limit"] is not None]
        uses = [_use(kind, row, limit) for row in limited]
        wishes = divide(limit, uses, turn_at(time.time()))
        for row, wish in zip(limited, wishes, strict=True):
            row[f"{kind}_wish"] = wish
            is_over = is_over and wish == _share(kind, row)
    return [] if is_over else [{"database": name, **row} for name, row in rows.items()]


def _share(kind: str, row: _Report) -> int:
    return row[f"{kind}_share"] + (row["moved_leases"] if kind == "concurrency" else 0)


def _use(kind: str, row: _Report, limit: int) -> Use:
    share = max(0, min(limit, _share(kind, row)))
    return Use(share, row[f"{kind}_used"], row["is_ready"], row["has_slots"])


def _is_raised(before: _Report, after: _Report) -> bool:
    return any(
        _share(kind, after) > _share(kind, before)
        for kind in _KINDS
        if before[f"{kind}_limit"] is not None and after[f"{kind}_limit"] is not None
    )


def _by_group(rows: Iterable[Record]) -> dict[int, _Report]:
    return {row["group_id"]: dict(row) for row in rows if row["group_id"] is not None}


async def _gather(calls: Mapping[str, Awaitable[T]]) -> dict[str, T]:
    """The results of calls by database, without databases that are unavailable."""

    async def one(call: Awaitable[T]) -> T | None:
        with contextlib.suppress(*_FAILURES):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                return await call
        return None

    results = await asyncio.gather(*map(one, calls.values()))
    return {name: result for name, result in zip(calls, results, strict=True) if result is not None}
