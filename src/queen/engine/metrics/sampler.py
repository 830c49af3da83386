"""Measures depths, ages and table sizes. One of the processes that share a database does it."""

import math
import time
from typing import Final

from queen import telemetry
from queen.meters import Snapshot, Value
from queen.settings import Settings
from queen.store.connection.database import Record
from queen.store.store import Store

_QUEUES_PER_CALL: Final = 500
_MOST_QUEUES: Final = 2_000
"""Queues per round. The next round continues after the last of them."""
_MOST_PARTITIONS: Final = 1_000
"""Partitions to count per group. Beyond that, the depth is an estimate from these."""
_TABLES_SECONDS: Final = 60.0
"""The interval for table sizes, which change slowly, and for the status of pipelines."""
_MOST_PIPELINES: Final = 100
_MOST_HOLDS: Final = 100


class Sampler:
    """
    Runs one round per `step` if this process is the leader, or can become it.

    Leadership is a row with an expiry: a dead process loses it after three rounds. It needs no
    session, so it works behind a pooler.
    """

    def __init__(self, store: Store, process: int, settings: Settings) -> None:
        self._database = store.database
        self._pipelines = store.pipelines
        self._homes = store.homes
        self._holder = process
        self._most_queues = min(_MOST_QUEUES, settings.metrics_max_queues)
        self._office_seconds = settings.sample_seconds * 3
        self._after = 0
        self._values: dict[int, list[Value]] = {}
        """The last values by queue."""
        self._tables = Snapshot()
        self._tables_at = -math.inf
        self._horizon = (0, 0.0)
        """The transaction at the horizon and when it was first seen, if its start is hidden."""

    async def step(self) -> Snapshot:
        """The values to show. Empty if another process shows them."""
        duties = await self._database.fetch("lead_sampling", self._holder, self._office_seconds)
        if not duties[0]["is_leader"]:
            self._values.clear()
            return Snapshot()
        await self._measure()
        if time.monotonic() - self._tables_at >= _TABLES_SECONDS:
            self._tables = await self._look_at_tables()
            self._tables_at = time.monotonic()
        snapshot = Snapshot(values=list(self._tables.values))
        snapshot.values.extend(each for values in self._values.values() for each in values)
        snapshot.add(telemetry.UPKEEP, time.time(), "sample")
        for row in duties:
            if row["name"] is not None:
                snapshot.add(telemetry.UPKEEP, row["last_success_at"].timestamp(), row["name"])
                snapshot.add(telemetry.UPKEEP_LAG, row["lag_seconds"], row["name"])
        return snapshot

    async def _measure(self) -> None:
        """Measure the next queues. After the last queue, the next round starts from the first."""
        began_at_start = self._after == 0
        seen: set[int] = set()
        while len(seen) < self._most_queues:
            rows = await self._database.fetch(
                "sample", self._after, _QUEUES_PER_CALL, _MOST_PARTITIONS
            )
            values: dict[int, list[Value]] = {}
            for row in rows:
                values.setdefault(row["queue_id"], []).extend(values_of(row))
            self._values.update(values)
            seen.update(values)
            if len(values) < _QUEUES_PER_CALL:
                self._after = 0
                break
            self._after = max(values)
        if began_at_start and self._after == 0:
            # All queues were measured, so the remaining entries belong to deleted ones.
            self._values = {key: each for key, each in self._values.items() if key in seen}
        while len(self._values) > self._most_queues:
            self._values.pop(next(iter(self._values)))

    async def _look_at_tables(self) -> Snapshot:
        snapshot = Snapshot()
        for row in await self._database.fetch("table_health"):
            snapshot.add(telemetry.TABLE_DEAD, row["dead_tuples"], row["table"])
            snapshot.add(telemetry.TABLE_BYTES, row["bytes"], row["table"])
        await self._look_at_slots(snapshot)
        (row,) = await self._database.fetch("oldest_transaction_age")
        snapshot.add(telemetry.OLDEST_TRANSACTION, row["seconds"])
        snapshot.add(telemetry.HORIZON, await self._horizon_age())
        for row in await self._pipelines.holds(after=("", ""), limit=_MOST_HOLDS):
            snapshot.add(telemetry.HOLD_AGE, row["age_seconds"], row["queue"], row["name"])
            if row["messages"] is not None:
                snapshot.add(telemetry.HOLD_MESSAGES, row["messages"], row["queue"], row["name"])
        for row in await self._database.fetch("pipeline_lags", _MOST_PIPELINES):
            snapshot.add(telemetry.PIPELINE_UPDATED, row["updated_at"].timestamp(), row["name"])
            for metric, value in (
                (telemetry.PIPELINE_LAG_MESSAGES, row["lag_messages"]),
                (telemetry.PIPELINE_LAG, row["lag_seconds"]),
            ):
                if value is not None:
                    snapshot.add(metric, value, row["name"])
        return snapshot

    async def _look_at_slots(self, snapshot: Snapshot) -> None:
        states = await self._database.fetch("slot_states")
        for row in states:
            snapshot.add(telemetry.SLOTS, row["slots"], row["database"], row["state"])
        if states:
            database: str = states[0]["database"]
            for slot, load in (await self._homes.loads()).items():
                snapshot.add(telemetry.SLOT_BYTES, load.bytes_per_second, database, str(slot))

    async def _horizon_age(self) -> float:
        """The age of the transaction at the horizon; at least the time since it was first seen."""
        rows = await self._database.fetch("horizon_holder")
        if not rows:
            return 0.0
        row = rows[0]
        if row["xid"] != self._horizon[0]:
            self._horizon = (row["xid"], time.monotonic())
        return row["age_seconds"] or time.monotonic() - self._horizon[1]


def values_of(row: Record) -> list[Value]:
    """The values of a queue or a group under their metric names."""
    snapshot = Snapshot()
    queue = row["queue"]
    if row["group_id"] == 0:
        snapshot.add(telemetry.QUEUE_MESSAGES, row["depth"], queue)
        snapshot.add(telemetry.QUEUE_BYTES, row["bytes"] or 0, queue)
        for state in ("ready", "leased", "idle"):
            snapshot.add(telemetry.PARTITIONS, row[f"{state}_partitions"] or 0, queue, state)
        snapshot.add(telemetry.QUEUE_PAUSED, int(row["paused"]), queue)
        snapshot.add(telemetry.DEAD_LETTERS, row["dead_letters"], queue)
        snapshot.add(telemetry.SCHEDULED, row["scheduled"], queue)
    elif row["group"] is not None:
        snapshot.add(telemetry.GROUP_LAG, row["depth"], queue, row["group"])
        snapshot.add(telemetry.OLDEST, row["oldest_age_seconds"] or 0, queue, row["group"])
        snapshot.add(telemetry.DELIVERIES, row["deliveries"], queue, row["group"])
    return snapshot.values
